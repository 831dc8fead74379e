"""When an answer of a model should be called a close match: the figures for its description, and how often they err.

uv run benchmarks/retrieval/calibrate.py [--model NAME|FOLDER] [--fit] [--set SET.json.gz ...]
    [--language CODE=FOLDER ...] [--cache DIR]

Asks questions that documents answer, and questions about other topics, through the real store, and prints how many of
each are called a close match, with 95 % intervals. `--fit` first finds new figures on half of the documents' sets; the
table is of the other half. The sets are notes of one sentence, facts with questions in five
languages (tests/data/languages.json), judged sets (at most 60 documents of each), and folders of Markdown: sections
without their headings, which are the questions. Scopes are a whole set, and 5 and 1 of its documents.
"""

import argparse
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from cache import CachedEmbedder
from confidence import QUESTIONS, SEED, Asked, Material, from_notes, from_set
from numpy.typing import NDArray

from vector_memory.embedding import Embedder, load_embedder
from vector_memory.embedding.calibration import Calibration
from vector_memory.embedding.embedder import EncodedQuestion
from vector_memory.search.question import is_reference
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

LANGUAGES = Path(__file__).parents[2] / "tests" / "data" / "languages.json"
SECTION = re.compile(r"^##+ (.+?)(?: *\{[^}]*\})?\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
SHORTEST_SECTION = 60
MOST_DOCUMENTS = 60
SCOPES = (None, 5, 1)
EACH = 20
"""So many questions of each sort, set and size of scope."""

KEPT = 0.97
"""The share of answers that the figures should call close."""

MOST_UNITS = 4_000
Z = 1.96


class Signals(NamedTuple):
    """What the rule sees of an answer, and whether the documents do answer the question."""

    cosine: float
    covered: float
    units: int
    answers: bool


class Recorder(Calibration):
    """A rule that says yes, and keeps what it was asked."""

    def __init__(self, kept: list[tuple[float, float, int]]) -> None:
        super().__init__(base=0, words=0, growth=0, most_units=1, by_meaning=0)
        object.__setattr__(self, "kept", kept)

    def is_close(self, cosine: float, covered: float, units: int) -> bool:
        """Keep the signals."""
        self.kept.append((cosine, covered, units))  # type: ignore[attr-defined]
        return True


@dataclass
class Recording(CachedEmbedder):
    """An embedder whose rule records."""

    embedder: Embedder
    folder: Path
    kept: list[tuple[float, float, int]] = field(default_factory=list)
    questions: dict[str, EncodedQuestion] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.embedder, self.folder)

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the vector of a question and its states; each is asked of many sets."""
        if text not in self.questions:
            self.questions[text] = super().encode_query(text)
        return self.questions[text]

    def calibration_for(self, question: str) -> Calibration:  # noqa: ARG002 - the same for all
        """Return the recorder."""
        return Recorder(self.kept)


@dataclass(frozen=True)
class Measured:
    """The signals of one set, by the questions' sort: answerable, everyday, or those of other sets."""

    name: str
    by_sort: dict[str, list[tuple[str, Signals]]]


def facts(language: str | None) -> Material:
    """Return the facts, in their own languages or in English, with the questions in one or all languages."""
    data = json.loads(LANGUAGES.read_text(encoding="utf-8"))["facts"]
    text = "text" if language is None else "english"
    questions = [
        (question, fact[text])
        for fact in data
        for code, question in fact["questions"].items()
        if language in (None, code)
    ]
    return Material(f"facts, {language or 'five languages'}", {fact[text]: fact[text] for fact in data}, questions)


def from_language(code: str, folder: Path) -> Material:
    """Return the sections of Markdown files, and their headings as questions."""
    found: dict[str, str] = {}
    for file in sorted(folder.rglob("*.md")):
        for heading, body in SECTION.findall(file.read_text(encoding="utf-8")):
            if len(body) >= SHORTEST_SECTION:
                found.setdefault(heading.strip(), body.strip())
    chosen = random.Random(SEED).sample(sorted(found), min(MOST_DOCUMENTS, len(found)))  # noqa: S311 - not a secret
    return Material(f"sections, {code}", {name: found[name] for name in chosen}, [(name, name) for name in chosen])


def measure(material: Material, off_topic: dict[str, Sequence[str]], recording: Recording) -> Measured:
    """Return the signals of a set: its own questions, and those that it cannot answer."""
    drawn = random.Random(SEED)  # noqa: S311 - not a secret
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=recording) as store:
            asked = Asked(store, material)

            def ask(question: str, names: Sequence[str] | None, *, answers: bool) -> tuple[str, Signals]:
                recording.kept.clear()
                asked.flagged(question, names)
                return question, Signals(*recording.kept[0], answers)

            own = drawn.sample(list(material.answerable), min(EACH, len(material.answerable)))
            by_sort = {
                "answerable": [
                    ask(question, None if size is None else asked.some(size, name), answers=True)
                    for size in SCOPES
                    for question, name in own
                ]
            }
            for sort, questions in off_topic.items():
                some = drawn.sample(list(questions), min(EACH, len(questions)))
                by_sort[sort] = [
                    ask(question, None if size is None else asked.some(size), answers=False)
                    for size in SCOPES
                    for question in some
                ]
    return Measured(material.name, by_sort)


def fit(signals: Sequence[Signals]) -> Calibration:
    """Return the figures of a logistic regression over the signals, each side weighed equally."""
    told = [each for each in signals if each.covered < 1]
    rows = np.array([[each.cosine, each.covered, math.log(min(each.units, MOST_UNITS)), 1.0] for each in told])
    wanted = np.array([each.answers for each in told], float)
    weights = np.where(wanted > 0, 0.5 / wanted.sum(), 0.5 / (1 - wanted).sum())
    by_cosine, by_words, by_units = _regression(rows, wanted, weights)[:3]
    words, growth = max(0.0, by_words / by_cosine), max(0.0, -by_units / by_cosine)
    scores = rows[:, 0] + words * rows[:, 1] - growth * rows[:, 2]
    # Answers whose words are all there are close anyway, so the others may lose a little more.
    right = [each for each in signals if each.answers]
    share = max(0.0, 1 - (1 - KEPT) * len(right) / wanted.sum())
    alone = np.quantile([each.cosine for each in right], 1 - KEPT)
    return Calibration(
        base=round(float(np.quantile(scores[wanted > 0], 1 - share)), 3), words=round(float(words), 3),
        growth=round(float(growth), 4), most_units=MOST_UNITS, by_meaning=round(float(alone), 3),
    )  # fmt: skip


def _regression(rows: NDArray[np.float64], wanted: NDArray[np.float64], weights: NDArray[np.float64]) -> list[float]:
    found = np.zeros(rows.shape[1])
    penalty = np.diag([1e-6, 1e-6, 1e-6, 0.0])
    for _ in range(100):
        chance = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        slope = rows.T @ (weights * (chance - wanted)) + penalty @ found
        found -= np.linalg.solve((rows.T * (weights * chance * (1 - chance))) @ rows + penalty + 1e-12, slope)
    return [float(each) for each in found]


def interval(hits: int, of: int) -> str:
    """Return a share in percent with its 95 % interval (Wilson)."""
    middle, spread = hits / of + Z * Z / (2 * of), Z * math.sqrt(hits / of * (1 - hits / of) / of + Z * Z / (4 * of**2))
    low, high = ((middle + sign * spread) / (1 + Z * Z / of) for sign in (-1, 1))
    return f"{100 * hits / of:.1f} [{100 * max(0, low):.1f}, {100 * high:.1f}]"


def table(measured: Sequence[Measured], embedder: Embedder, rule: Calibration | None) -> Iterator[str]:
    """Yield the lines of a table: of each set and sort the percentage that is called a close match.

    `rule`: figures to try, for questions in a language that the model knows, instead of its own.
    """
    usual = embedder.calibration_for("")

    def close(question: str, told: Signals) -> bool:
        own = embedder.calibration_for(question)
        chosen = rule if rule and own == usual else own
        return chosen.is_close(told.cosine, told.covered, told.units)

    sorts = list(measured[0].by_sort)
    yield f"| percent called close | {' | '.join(sorts)} |"
    yield f"|---|{'---|' * len(sorts)}"
    everything = Measured("all", {sort: [each for one in measured for each in one.by_sort[sort]] for sort in sorts})
    for one in (*measured, everything):
        cells = [interval(sum(close(*each) for each in found), len(found)) for found in one.by_sort.values()]
        yield f"| {one.name} | {' | '.join(cells)} |"


def materials(options: argparse.Namespace) -> list[Material]:
    """Return all sets; every second one is fitted. Questions that are judged by their words alone are left out."""
    languages = [named.split("=", 1) for named in options.language]
    sets = [
        from_notes(),
        *(from_language(code, Path(folder)) for code, folder in languages),
        *(facts(code) for code in (None, "ru", "zh")),
        *(shortened(from_set(path)) for path in options.sets),
    ]
    return [replace(each, answerable=[one for one in each.answerable if not is_reference(one[0])]) for each in sets]


def shortened(material: Material) -> Material:
    """Return a set with as many of its documents as this program stores."""
    wanted = dict.fromkeys([name for _, name in material.answerable] + list(material.documents))
    kept = {name: material.documents[name] for name in list(wanted)[:MOST_DOCUMENTS]}
    return Material(material.name, kept, [each for each in material.answerable if each[1] in kept])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--set", dest="sets", action="append", type=Path, default=[], metavar="SET.json.gz")
    parser.add_argument("--language", action="append", default=[], metavar="CODE=FOLDER")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--signals", type=Path, metavar="FILE", help="write what the rule sees of each answer, as JSON")
    options = parser.parse_args()
    embedder = load_embedder(Settings(embedding_model=options.model))
    everyday = {"en": json.loads((QUESTIONS / "off_topic.json").read_text(encoding="utf-8"))}
    everyday |= json.loads(LANGUAGES.read_text(encoding="utf-8"))["off_topic"]
    sets = materials(options)
    with TemporaryDirectory() as folder:
        recording = Recording(embedder, options.cache or Path(folder))
        measured = []
        for material in sets:
            others = [text for other in sets if other.name.split(",")[0] != material.name.split(",")[0]
                      for text, _ in other.answerable]  # fmt: skip
            off_topic = {f"everyday, {code}": questions for code, questions in everyday.items()}
            measured.append(measure(material, off_topic | {"other sets": others}, recording))
            print(f"asked {material.name}: {len(material.documents)} documents", flush=True)
    if options.signals:
        kept = {one.name: one.by_sort for one in measured}
        options.signals.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    rule = None
    if options.fit:
        asked = [each for one in measured[::2] for found in one.by_sort.values() for each in found]
        usual = embedder.calibration_for("")
        rule = fit([told for question, told in asked if embedder.calibration_for(question) == usual])
        print("\nFitted on " + "; ".join(one.name for one in measured[::2]), rule, sep="\n")
    print("", *table(measured[1::2] if options.fit else measured, embedder, rule), sep="\n")


if __name__ == "__main__":
    main()
