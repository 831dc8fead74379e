"""What an agent gets that asks a project's memory in plain words, with nothing but the question.

uv run benchmarks/retrieval/agents.py --folder DIR [--reports N ...] [--forms core full] [--json FILE] [--each]

Starts the real server over standard input and output on a memory of `project.py`, as `install` serves it (the profile
core) and with all tools, and asks 26 questions. 20 have an answer, which is a correction that was stored after the
obsolete fact; six have none, though their subject is there. What counts is what a client's model reads: the structured
answer, serialised again, or the text where there is none. `--folder` keeps the memories for the next run.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from project import SIZE, Asked, build, questions
from served import Call, server_on

from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings

TOOL = "search_reports_specific_chunks"
FORMS = ("core", "full")
CONTENT = ("chunk_content", "section_content", "content")
"""The keys of what was stored, in either form of an answer."""

CLAIMS = ("high", "strong")


@dataclass(frozen=True, slots=True)
class Answered:
    """What came: the rank of the correction and of the obsolete fact from 1 on, None if it did not come.

    `marked`: the fact names the correction as later. `claims`: the answer says that it answers. Characters:
    `read` by the model, `sent` in the text and the structured answer, `content` of stored texts.
    """

    asked: Asked
    correction: int | None
    fact: int | None
    marked: bool
    claims: bool
    results: int
    read: int
    sent: int
    content: int


def read_by_model(result: dict[str, Any]) -> str:
    """Return what clients show to their model: the structured answer if there is one, else the text."""
    structured = result.get("structuredContent")
    if structured is not None:
        return json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
    return "\n".join(part["text"] for part in result["content"])


def results_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of an answer, whichever form it has."""
    answer = result.get("structuredContent") or json.loads(result["content"][0]["text"])
    return list(answer.get("results", []))


def content_of(found: dict[str, Any]) -> str:
    """Return the stored text of a result."""
    return next((str(found[key]) for key in CONTENT if key in found), "")


def ask(call: Call, asked: Asked) -> Answered:
    """Ask with nothing but the question."""
    result = call(TOOL, query=asked.question)
    found = results_of(result)
    structured = result.get("structuredContent") or {}
    read = read_by_model(result)
    correction, fact = rank(found, asked.correction), rank(found, asked.fact)
    return Answered(
        asked,
        correction,
        fact,
        marked=bool(fact and asked.correction and names(found[fact - 1], asked.correction, found)),
        claims=claims(structured, found),
        results=len(found),
        read=len(read),
        sent=sum(len(part["text"]) for part in result["content"]) + (len(read) if structured else 0),
        content=sum(map(len, map(content_of, found))),
    )


def names(fact: dict[str, Any], correction: str, found: Sequence[dict[str, Any]]) -> bool:
    """Return whether a result names a text as later: by its beginning, or as a result of the answer."""
    texts = {each["memory_id"]: content_of(each) for each in found}
    later = [content_of(one) or texts.get(one.get("memory_id", one.get("id")), "") for one in fact.get("later", ())]
    return any(text and correction.startswith(text[:100]) for text in later)


def claims(answer: dict[str, Any], found: Sequence[dict[str, Any]]) -> bool:
    """Tell whether an answer says that it answers, as a whole or by its best match; one that says nothing does."""
    said = [answer.get("confidence"), *(each.get("match") for each in found)]
    return bool(found) and (any(each in CLAIMS for each in said) or not any(said))


def rank(found: Sequence[dict[str, Any]], text: str | None) -> int | None:
    """Return at which place a text stands whole in an answer."""
    places = [place for place, each in enumerate(found, 1) if text is not None and text in content_of(each)]
    return places[0] if places else None


def answers(path: Path, form: str, asked: Sequence[Asked]) -> Iterator[Answered]:
    """Yield what one server answers to each question."""
    with server_on(path, form) as call:
        for each in asked:
            yield ask(call, each)


HEADS = (
    "correction in the answer", "its rank, median", "marked", "obsolete fact first", "no answer: claimed",
    "no answer: empty", "results, median", "characters read, median", "in all", "sent, in all", "content, %",
)  # fmt: skip


def cells(answered: Sequence[Answered]) -> list[str]:
    """Return the figures of a row, in the order of the heads."""
    right = [each for each in answered if each.asked.correction]
    others = [each for each in answered if not each.asked.correction]
    ranks = [each.correction for each in right if each.correction]
    read = sum(each.read for each in answered)
    return [
        share(right, lambda each: each.correction is not None),
        f"{median(ranks):g}" if ranks else "-",
        share(right, lambda each: each.marked),
        share(right, lambda each: each.fact == 1),
        share(others, lambda each: each.claims),
        share(others, lambda each: not each.results),
        f"{median(each.results for each in answered):g}",
        f"{median(each.read for each in answered):,.0f}",
        f"{read:,}",
        f"{sum(each.sent for each in answered):,}",
        f"{100 * sum(each.content for each in answered) / read:.0f}",
    ]


def share(answered: Sequence[Answered], holds: Callable[[Answered], bool]) -> str:
    """Return of how many answers something holds."""
    return f"{sum(map(holds, answered))} of {len(answered)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="where memories are made and kept")
    parser.add_argument("--reports", type=int, nargs="+", default=[SIZE], metavar="N")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    parser.add_argument("--each", action="store_true", help="print the figures of every question")
    options = parser.parse_args()
    print(f"| reports, profile | {' | '.join(HEADS)} |\n{'|---' * (len(HEADS) + 1)}|")
    every = {}
    for size in options.reports:
        path = build(options.folder, size, load_embedder(Settings()))
        for form in options.forms:
            answered = every[f"{size}, {form}"] = list(answers(path, form, questions()))
            print(f"| {size:,}, {form} | {' | '.join(cells(answered))} |", flush=True)
    for name, answered in every.items() if options.each else ():
        print(f"\n{name}")
        print(*(f"  {asdict(each)}" for each in answered), sep="\n")
    if options.json:
        data = {name: [asdict(each) for each in answered] for name, answered in every.items()}
        options.json.write_text(json.dumps(data, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
