"""What three fixed ways to look something up cost an agent, by the size of its memory.

uv run benchmarks/retrieval/policies.py --folder DIR [--queries N] [--sizes N ...] [--cache DIR] [SET[=EVIDENCE] ...]

One search with defaults of a real server, in the profile that `install` serves; grep for the question's three rarest
words with three lines around, in a folder with a file for each memory; and reading the newest memories first, up to
20,000 tokens. The memories are those of a project (see project.py), and those of judged sets, filled up with the
reports of projects. Prints for each way the median tokens that an agent has read when the first piece of evidence is in
its context, and the percentage of questions for which it never is. A search and a grep are read as a whole.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from agents import TOOL, content_of, read_by_model, results_of
from cache import CachedEmbedder
from judged import load
from project import build, questions, reports
from served import Server

from vector_memory.chunking import find_token_counter
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SIZES = (100, 1_000, 10_000)
PROJECT = "project"
PROFILE = "core"
QUESTIONS = 40
RAREST, AROUND = 3, 3
MOST_CHARACTERS = 30_000
"""Of the output of a command. Clients cut off what is longer."""

MOST_TOKENS = 20_000
"""So much is read of the newest memories."""

SEED = 32
WORD = re.compile(r"\w+")

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question, and its evidence: whole texts, or parts of the memories with these texts."""

    question: str
    texts: Sequence[str]
    whole: bool

    def is_in(self, shown: str, memories: Sequence[str]) -> bool:
        """Tell whether evidence is in what an agent has read: a text, and the memories that it is from."""
        if not self.whole:
            return any(text in memories for text in self.texts)
        read = plain(shown)
        return any(plain(text) in read for text in self.texts)


@dataclass(frozen=True, slots=True)
class Collection:
    """Memories, oldest first, the file that has them with ids in this order, and what it is asked."""

    path: Path
    memories: Sequence[str]
    asked: Sequence[Wanted]


def plain(text: str) -> str:
    """Return a text without differences in white space."""
    return " ".join(text.split())


def of_project(folder: Path, size: int, embedder: Embedder) -> Collection:
    """Return the memory of a project, with its questions that have an answer."""
    asked = [Wanted(each.question, [each.correction], whole=True) for each in questions() if each.correction]
    return Collection(build(folder, size, embedder), [each.text for each in reports(size)], asked)


def of_set(named: str, folder: Path, size: int, queries: int, embedder: Embedder) -> Collection | None:
    """Return documents of a set, the right ones among them, filled up with reports; None if it has too many of these.

    Documents are as old as their place in the set, and the reports are spread among them.
    """
    first, _, second = named.partition("=")
    judged = load(Path(first), queries, SEED)
    asked = [
        Wanted(each.text, [judged.documents[one] for one in each.grades], whole=False) for each in judged.questions
    ]
    right = {text for each in asked for text in each.texts}
    if second:
        parts = load(Path(second), None, SEED)
        evidence = {each.text: [parts.documents[one] for one in each.grades] for each in parts.questions}
        asked = [Wanted(each.question, evidence[each.question], whole=True) for each in asked]
    if len(right) > size:
        return None
    drawn = random.Random(SEED)  # noqa: S311 - not a secret
    others = [text for text in dict.fromkeys(judged.documents.values()) if text not in right]
    kept = {*right, *drawn.sample(others, min(len(others), size - len(right)))}
    memories = [text for text in dict.fromkeys(judged.documents.values()) if text in kept]
    for report in reports(size - len(memories)):
        memories.insert(drawn.randrange(len(memories) + 1), report.text)
    path = folder / f"{judged.name}-{size}.db"
    if not path.exists():
        fill(path, memories, embedder)
    return Collection(path, memories, asked)


def fill(path: Path, memories: Sequence[str], embedder: Embedder) -> None:
    """Store memories, oldest first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    with SessionMemoryStore(unfinished, Settings(sqlite_synchronous="NORMAL"), embedder=embedder) as store:
        for number, text in enumerate(memories):
            day = f"2026-{1 + number * 12 // len(memories):02}-01T00:00:00Z"
            store.store_memory("report", text, session_id=f"session {number // 50}", created_at=day)
    unfinished.rename(path)


def searched(collection: Collection, count: Count) -> Iterator[int | None]:
    """Yield for each question the tokens of an answer; None if there is no evidence in it."""
    with Server(collection.path, PROFILE) as server:
        for wanted in collection.asked:
            result = server.call(TOOL, query=wanted.question)
            found = [each for each in results_of(result) if content_of(each)]
            shown = "\n".join(map(content_of, found))
            came = wanted.is_in(shown, [collection.memories[each["memory_id"] - 1] for each in found])
            yield count(read_by_model(result)) if came else None


def grepped(collection: Collection, count: Count) -> Iterator[int | None]:
    """Yield for each question the tokens of what grep prints; None if there is no evidence in it."""
    files = [text.splitlines() for text in collection.memories]
    words = [frozenset(WORD.findall(text.lower())) for text in collection.memories]
    frequency = Counter(word for each in words for word in each)
    for wanted in collection.asked:
        known = {word for word in WORD.findall(wanted.question.lower()) if frequency[word]}
        rarest = sorted(known, key=lambda word: (frequency[word], word))[:RAREST]
        output, numbers = grep(files, rarest)
        came = wanted.is_in("\n".join(text for _, text in output), [collection.memories[each] for each in numbers])
        yield count("\n".join(f"{name}-{text}" for name, text in output)) if came else None


def grep(files: Sequence[Sequence[str]], words: Sequence[str]) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the lines with any of the words and those around them, with their files, and the numbers of these."""
    output, found, length = [], [], 0
    wanted = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words), re.IGNORECASE) if words else None
    for number, lines in enumerate(files):
        hits = [place for place, line in enumerate(lines) if wanted and wanted.search(line)]
        around = sorted(
            {place for hit in hits for place in range(hit - AROUND, hit + AROUND + 1)} & {*range(len(lines))}
        )
        shown = [(f"memories/{number:05}.md", lines[place]) for place in around]
        length += sum(len(name) + len(text) + 2 for name, text in shown)
        if length > MOST_CHARACTERS:
            break
        output += shown
        found += [number] if shown else []
    return output, found


def newest_first(collection: Collection, count: Count) -> Iterator[int | None]:
    """Yield for each question the tokens read until evidence came; None if it did not within the budget."""
    newest, read = [], 0
    for text in reversed(collection.memories):
        read += count(text)
        if read > MOST_TOKENS:
            break
        newest.append((text, read))
    for wanted in collection.asked:
        yield next((spent for text, spent in newest if wanted.is_in(text, [text])), None)


POLICIES: Mapping[str, Callable[[Collection, Count], Iterator[int | None]]] = {
    "search": searched, "grep": grepped, "newest first": newest_first,
}  # fmt: skip


def collections(options: argparse.Namespace, size: int, embedder: Embedder) -> Iterator[tuple[str, Collection]]:
    """Yield what is to be searched, by name."""
    yield PROJECT, of_project(options.folder, size, embedder)
    for named in options.sets:
        collection = of_set(named, options.folder, size, options.queries, embedder)
        if collection:
            yield Path(named.partition("=")[0]).name.partition(".")[0], collection


def cell(spent: Sequence[int | None]) -> str:
    """Return the median tokens until evidence, and the percentage of questions without any."""
    found = [each for each in spent if each is not None]
    never = 100 * (len(spent) - len(found)) / len(spent)
    return f"{median(found):,.0f} / {never:.0f}" if found else f"- / {never:.0f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET.json.gz[=EVIDENCE.json.gz]")
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="where memories are made and kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--queries", type=int, default=QUESTIONS, metavar="N", help="questions of each set")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    engine = load_embedder(Settings())
    counter = find_token_counter(lambda text: len(engine.token_spans(text)))
    embedder = CachedEmbedder(engine, options.cache) if options.cache else engine
    print(f"| tokens until evidence / never, % | {' | '.join(POLICIES)} |\n{'|---' * (len(POLICIES) + 1)}|")
    for size in options.sizes:
        for name, collection in collections(options, size, embedder):
            cells = [cell(list(policy(collection, counter))) for policy in POLICIES.values()]
            print(f"| {name}, {size:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
