"""How often answers are called close in languages that a model may not know: right ones, and off-topic ones.

uv run benchmarks/retrieval/foreign.py [--model NAME|FOLDER] [--fit] [--cache DIR]

The notes of questions/languages.json are the same in 14 languages, with a question for each, and questions on other
topics. Scopes are twenty notes, five of them, four reports of five, one of twenty, and the notes of all languages. All
are asked in the language of the notes, through the real store. `--fit` looks for the figures of `foreign` in a model's
description: for each weight of the words the least base that no off-topic question reaches, among every second question
of six languages. It prints what they do on these, on the other half, and on the other languages.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from calibrate import Recording, interval
from confidence import QUESTIONS

from vector_memory.domain import Page, Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.embedding.calibration import Calibration
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

FITTED = ("es", "fr", "pt", "it", "de", "pl")
WEIGHTS = (0.24, 0.5, 1.0, 1.5, 2.0, 3.0)
GROWTH = 0.035
MARGIN = 0.01
PART = 5


class Answer:
    """What the rule sees of the answer to a question. `half`: 0 or 1."""

    def __init__(self, language: str, scope: str, half: int, question: str, *, is_right: bool) -> None:
        self.language, self.scope, self.half, self.question, self.is_right = language, scope, half, question, is_right
        self.signals = (0.0, 0.0, 1)


def answers(model: Embedder, cache: Path) -> Iterator[Answer]:
    """Store the notes, ask all questions and yield their answers."""
    recording = Recording(model, cache)
    projects = json.loads((QUESTIONS / "languages.json").read_text(encoding="utf-8"))
    with (
        TemporaryDirectory() as folder,
        SessionMemoryStore(Path(folder) / "memory.db", Settings(), embedder=recording) as store,
    ):
        for language, project in projects.items():
            notes = [note for note, _ in project["notes"]]
            parts = [notes[start : start + PART] for start in range(0, len(notes), PART)]
            reports = ["\n\n".join(part) for part in parts]
            sessions = {"all": notes, "20 notes": notes, "4 reports": reports, "1 report": ["\n\n".join(notes)]}
            sessions |= {f"5 notes {number}": part for number, part in enumerate(parts)}
            for session, texts in sessions.items():
                name = session if session == "all" else f"{language} {session}"
                for text in texts:
                    store.store_memory("report", text, session_id=name, title="note")
        for language, project in projects.items():
            questions = [(question, True) for _, question in project["notes"]]
            questions += [(question, False) for question in project["off_topic"]]
            for number, (question, is_right) in enumerate(questions):
                part = number % len(project["notes"]) // PART
                for scope in ("all", "20 notes", f"5 notes {part}", "4 reports", "1 report"):
                    answer = Answer(language, scope.removesuffix(f" {part}"), number % 2, question, is_right=is_right)
                    recording.kept.clear()
                    session = scope if scope == "all" else f"{language} {scope}"
                    store.search_chunks(question, Scope("report", session_id=session), Page(limit=1))
                    answer.signals = recording.kept[0]
                    yield answer


def shares(found: Sequence[Answer], close: Sequence[bool]) -> str:
    """Return the cells of a row: right answers and off-topic ones that are called close, in percent."""
    by_sort = [[each for answer, each in zip(found, close, strict=True) if answer.is_right == sort] for sort in (1, 0)]
    return " | ".join(f"{interval(sum(each), len(each))} of {len(each)}" for each in by_sort)


def table(found: Sequence[Answer], model: Embedder) -> Iterator[str]:
    """Yield the lines of a table: by language, and by scope for all languages but English."""
    close = {answer: model.calibration_for(answer.question).is_close(*answer.signals) for answer in found}
    groups = {language: [each for each in found if each.language == language] for language in
              dict.fromkeys(answer.language for answer in found)}  # fmt: skip
    foreign = [answer for answer in found if answer.language != "en"]
    groups |= {f"all but en, {scope}": [each for each in foreign if each.scope == scope] for scope in
               dict.fromkeys(answer.scope for answer in foreign)}  # fmt: skip
    yield "| percent called close | right answers | off-topic |\n|---|---|---|"
    for name, group in groups.items():
        yield f"| {name} | {shares(group, [close[each] for each in group])} |"


def fit(found: Sequence[Answer]) -> Iterator[str]:
    """Yield the lines of a table: for each weight of the words the base, and what both do."""
    fitted = [answer for answer in found if answer.language in FITTED and answer.half == 0]
    others = {"other half": [answer for answer in found if answer.language in FITTED and answer.half == 1]}
    others |= {name: [answer for answer in found if answer.language == name] for name in ("nl", "sv", "tr", "vi", "id")}
    yield f"| words | base | fitted | | {' | | '.join(others)} | |\n|{'---|' * (4 + 2 * len(others))}"
    for words in WEIGHTS:
        scores = [c + words * w - GROWTH * math.log(u) for c, w, u in (a.signals for a in fitted if not a.is_right)]
        base = round(max(scores) + MARGIN, 2)
        rule = Calibration(base=base, words=words, growth=GROWTH, most_units=4_000, by_meaning=1.0)
        groups = (fitted, *others.values())
        cells = [shares(group, [rule.is_close(*each.signals) for each in group]) for group in groups]
        yield f"| {words} | {base} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    model = load_embedder(Settings(embedding_model=options.model))
    with TemporaryDirectory() as folder:
        found = list(answers(model, options.cache or Path(folder)))
    print(*(fit(found) if options.fit else table(found, model)), sep="\n")


if __name__ == "__main__":
    main()
