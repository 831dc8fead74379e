"""What an agent is told with a prompt, without asking, on our own cases: right, obsolete and neither.

uv run benchmarks/retrieval/recalled.py --folder DIR [--cache DIR]

The prompts are the sixty questions of `precision.py`, the forty of `corrected.py` and the 26 of `agents.py` in a
memory of 190 reports, each in a new session. Prints how many prompts something was told with, and of the memories told
how many are right, how many are obsolete facts beside their correction or without it, and how many are neither.
`unasked.py` asks the same of conversations. `--folder` keeps the memory of 190 reports for the next run.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cache import CachedEmbedder
from cases import SORTS, corrections, precision_cases
from corrected import dated, fill
from project import SIZE, build, questions

from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore


class Prompt(NamedTuple):
    """A prompt, the texts that are right, and the obsolete one that a right one has corrected, if there is one."""

    text: str
    right: frozenset[str]
    obsolete: str | None = None


@contextmanager
def opened(embedder: Embedder, path: Path | None = None) -> Iterator[SessionMemoryStore]:
    """Yield the memory at a path, or a new one."""
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(path or Path(folder) / "memory.db", settings, embedder=embedder) as store:
            yield store


def told_with(store: SessionMemoryStore, prompt: Prompt) -> set[str]:
    """Return the texts that are told with a prompt."""
    told = store.past.near(prompt.text, "new", ())
    found = [store.get_memory_by_id(number).memory for number in (told.ids if told else ())]
    return {memory.content for memory in found if memory}


def row(name: str, store: SessionMemoryStore, prompts: Sequence[Prompt]) -> str:
    """Return a row of the table."""
    store._model.start_loading()  # noqa: SLF001 - what is told with a prompt waits for no model
    store._model.wait_for_loading(60)  # noqa: SLF001
    answers = [(prompt, told_with(store, prompt)) for prompt in prompts]
    right = sum(len(told & prompt.right) for prompt, told in answers)
    obsolete = [bool(told & prompt.right) for prompt, told in answers if prompt.obsolete in told]
    told = sum(len(told) for _, told in answers)
    cells = [
        f"{sum(bool(told) for _, told in answers)} of {len(prompts)}", told, right, sum(obsolete),
        len(obsolete) - sum(obsolete), told - right - len(obsolete),
    ]  # fmt: skip
    return f"| {name} | {' | '.join(map(str, cells))} |"


def rows(embedder: Embedder, folder: Path) -> Iterable[str]:
    """Yield the rows."""
    memories, cases = precision_cases()
    with opened(embedder) as store:
        for name, text in memories.items():
            store.store_memory("working_memory", text, session_id=name)
        for sort in SORTS:
            own = [
                Prompt(case.question, frozenset(memories[name] for name in case.right))
                for case in cases
                if case.sort == sort
            ]
            yield row(sort, store, own)
    pairs, others = corrections()
    with opened(embedder) as store:
        fill(store, dated(pairs, others))
        prompts = [Prompt(pair.question, frozenset([pair.correction]), pair.fact) for pair in pairs]
        yield row("corrected", store, prompts)
    with opened(embedder, build(folder, SIZE, embedder)) as store:
        asked = [Prompt(one.question, frozenset(filter(None, [one.correction])), one.fact) for one in questions()]
        yield row("project, corrected", store, [prompt for prompt in asked if prompt.right])
        yield row("project, no answer", store, [prompt for prompt in asked if not prompt.right])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="keep the memory here")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| prompts | told with | memories | right | obsolete, beside it | obsolete, alone | neither |")
    print("|---" * 7 + "|")
    for each in rows(embedder, options.folder):
        print(each, flush=True)


if __name__ == "__main__":
    main()
