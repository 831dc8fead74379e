"""What late interaction would add to the default ranking: the states of single tokens, compared with each other.

uv run benchmarks/retrieval/late_interaction.py [--set SET.json.gz ...] [--planted FOLDER] [--best N] [--queries N]
    [--cache DIR]

The model computes a state for each token, and a text's vector is their mean. Here each token of a question is compared
with the tokens of a passage: the late score is the mean, over the question's tokens, of the highest cosine (MaxSim:
Khattab and Zaharia, 2020, arXiv:2004.12832). A unit has the score of its best passage. The N best units of today's
ranking are ordered anew, with the late score as a part of their scores; the others follow.

Prints for judged sets nDCG@10 of each way to do this, the differences from today's ranking with 95 % intervals, and
the costs; for a folder of Markdown, how many planted facts are among the first ten chunks (see `planted.py`).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import numpy as np
import planted
from cache import CachedEmbedder
from judged import JudgedSet, Question, load
from numpy.typing import NDArray
from rankings import filled, opened
from scoring import Scores, print_gains, score
from token_states import KINDS, Read, Reading, late_score, seconds_from_file
from units import Units, Values

from vector_memory.chunking import cut_passages
from vector_memory.domain import MemoryKind, Scope, SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.settings import Settings
from vector_memory.storage.base import Reader
from vector_memory.storage.ranking import VECTOR_WEIGHT, Method
from vector_memory.storage.terms import query_terms

SEED = 20
BEST = 50
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
SAMPLE = 30
FEW = 20


@dataclass(frozen=True, slots=True)
class Arms:
    """The scores of a scope's units for a question. `late`: by kind of states; NaN of units not compared so."""

    cosine: Values
    words: Values
    late: dict[str, Values] = field(default_factory=dict)

    @property
    def today(self) -> Values:
        """The fused scores of today."""
        return VECTOR_WEIGHT * self.cosine + (1 - VECTOR_WEIGHT) * self.words

    def best(self, count: int) -> NDArray[np.int64]:
        """Return the best units of today's ranking."""
        return np.argsort(-self.today, kind="stable")[:count]

    def anew(self, scores: Values, best: int) -> Values:
        """Return the scores of the best units of today's ranking, and below them those of today."""
        chosen = np.zeros(len(scores), bool)
        chosen[self.best(best)] = True
        return np.where(chosen & np.isfinite(scores), scores, self.today - 2)


Rule = Callable[[Arms], Values]


def part(kind: str, share: float, best: int = sys.maxsize) -> Rule:
    """Make the late score a part of the score of the best units."""
    return lambda arms: arms.anew((1 - share) * arms.today + share * arms.late[kind], best)


def instead(kind: str, weight: float) -> Rule:
    """Give units the late score instead of the cosine."""
    return lambda arms: arms.anew(weight * arms.late[kind] + (1 - weight) * arms.words, sys.maxsize)


RULES: dict[str, Rule] = {
    "today": lambda arms: arms.today,
    **{f"all tokens, {share}": part("all tokens", share) for share in SHARES},
    **{f"content, {share}": part("content", share) for share in SHARES},
    "content, 0.3, the best 20": part("content", 0.3, FEW),
    **{f"{kind}, 0.3, the best 20": part(kind, 0.3, FEW) for kind in KINDS if "bits" in kind},
    "all tokens, 0.6 instead of the cosine": instead("all tokens", 0.6),
    "all tokens, 0.7 instead of the cosine": instead("all tokens", 0.7),
}
"""Ways to use the late score, with its share of the whole."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the 20 best units of a question: tokens and content of a unit, and seconds of processor time for all.

    `anew`: to compute their states from their texts. `stored`: to read them from a file and to compare them, by kind.
    """

    tokens: float
    content: float
    anew: float
    stored: tuple[float, ...]


class Late:
    """Computes late scores of units. `read`: computes the states of a text."""

    def __init__(self, embedder: Embedder, read: Callable[[str], Read], best: int) -> None:
        self._embedder = embedder
        self._read = read
        self._best = best

    def passages(self, text: str) -> list[Read]:
        """Return the states of each passage of a unit."""
        spans = cut_passages(text, self._embedder.token_spans, self._embedder.tokens_per_vector)
        return [self._read(text[span.start : span.end]) for span in spans]

    def scores_of(
        self, reader: Reader, scope: Scope, units: Units, questions: Sequence[Question]
    ) -> Iterator[tuple[Question, Arms]]:
        """Yield each question with all scores of all units. Each unit is read once, and its states are not kept."""
        source = reader.candidates(scope, Method())
        found: list[tuple[Arms, Read]] = []
        for question in questions:
            vector = self._embedder.embed_query(question.text)
            cosines = units.values(source.similarities(vector, units.matches))
            words = units.values(source.rank_words(query_terms(question.text)).shares(units.matches))
            late = {kind: np.full(len(units.texts), np.nan) for kind in KINDS}
            found.append((Arms(cosines, words, late), self._read(question.text)))
        self._add_late_scores(units, found)
        yield from zip(questions, (arms for arms, _ in found), strict=True)

    def _add_late_scores(self, units: Units, questions: Sequence[tuple[Arms, Read]]) -> None:
        asked: dict[int, list[tuple[Arms, Read]]] = {}
        for arms, read in questions:
            for place in arms.best(self._best).tolist():
                asked.setdefault(place, []).append((arms, read))
        for place, askers in asked.items():
            passages = self.passages(units.texts[place])
            for name, kind in KINDS.items():
                data = [kind.pack(kind.states(passage)) for passage in passages]
                for arms, read in askers:
                    query = kind.states(read)
                    arms.late[name][place] = late_score(query, [kind.unpack(each, query.shape[1]) for each in data])

    def cost(self, texts: Sequence[str], question: str) -> Cost:
        """Measure what the late scores of the best units of a question cost."""
        asked = self._read(question)
        start = time.process_time()
        units = [self.passages(text) for text in texts]
        anew = time.process_time() - start
        read = [each for passages in units for each in passages]
        taken = [
            seconds_from_file(
                kind,
                kind.states(asked),
                [[kind.states(each) for each in passages] for passages in units],
            )
            for kind in KINDS.values()
        ]
        tokens, content = (sum(len(each.kept(content=only)) for each in read) / len(units) for only in (False, True))
        return Cost(tokens, content, anew, tuple(taken))


def measure(judged: JudgedSet, embedder: Embedder, late: Late) -> tuple[dict[str, Scores], list[Cost]]:
    """Ask every question in every way."""
    results: dict[str, list[tuple[float, float, float]]] = {rule: [] for rule in RULES}
    costs: list[Cost] = []
    with TemporaryDirectory() as folder, opened(Path(folder) / "memory.db", SearchMode.HYBRID, embedder) as store:
        documents = dict(filled(store, judged))
        for scope in judged.scopes:
            asked = [question for question in judged.questions if question.scope == scope]
            within = Scope(judged.kind, session_id=scope)
            with store._storage.read() as reader:  # noqa: SLF001 - every unit's scores, which no search returns
                units = Units(reader, within)
                for question, arms in late.scores_of(reader, within, units, asked):
                    if len(costs) < SAMPLE:
                        texts = [units.texts[place] for place in arms.best(FEW).tolist()]
                        costs.append(late.cost(texts, question.text))
                    for rule, join in RULES.items():
                        found = [documents[memory] for memory in units.documents(join(arms))]
                        results[rule].append(score(found, question.grades))
    return {rule: np.array(values) for rule, values in results.items()}, costs


def measure_planted(folder: Path, embedder: Embedder, late: Late) -> dict[str, list[str]]:
    """Return for each rule and place the shares of the facts found, by name and in other words."""
    facts: list[planted.Fact] = json.loads(planted.FACTS.read_text(encoding="utf-8"))
    cells: dict[str, list[str]] = {rule: [] for rule in RULES}
    with TemporaryDirectory() as draft, opened(Path(draft) / "memory.db", SearchMode.HYBRID, embedder) as store:
        planted.fill(store, list(planted.reports(folder)), facts)
        for place in planted.PLACES:
            within = Scope(MemoryKind.REPORT, session_id=place)
            with store._storage.read() as reader:  # noqa: SLF001
                units = Units(reader, within)
                asked = [Question(fact[by], place, {}) for by in ("name", "paraphrase") for fact in facts]
                found = [arms for _, arms in late.scores_of(reader, within, units, asked)]
            for rule, join in RULES.items():
                hits = [units.has(join(arms), fact["fact"]) for arms, fact in zip(found, [*facts, *facts], strict=True)]
                cells[rule].append(f"{mean(hits[: len(facts)]):.3f} / {mean(hits[len(facts) :]):.3f}")
    return cells


def print_costs(costs: dict[str, list[Cost]]) -> None:
    """Print the costs by set: medians over some questions."""
    print("\n| set | tokens a unit | content a unit | ms for 20 units: anew |", " | ".join(KINDS), "|")
    print("|---" * (4 + len(KINDS)) + "|")
    for name, each in costs.items():
        sizes = median(cost.tokens for cost in each), median(cost.content for cost in each)
        seconds = [median(cost.anew for cost in each), *map(median, zip(*(cost.stored for cost in each), strict=True))]
        cells = [f"{size:.0f}" for size in sizes] + [f"{1000 * taken:.1f}" for taken in seconds]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", dest="sets", type=Path, nargs="+", default=[], metavar="SET.json.gz")
    parser.add_argument("--planted", type=Path, metavar="FOLDER", help="plant facts in the Markdown of a folder")
    parser.add_argument("--best", type=int, default=BEST, metavar="N", help=f"units to order anew; default: {BEST}")
    parser.add_argument("--queries", type=int, metavar="N", help="ask only N questions of each set, drawn at random")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    embedder = load_embedder(Settings())
    if not isinstance(embedder, OnnxEngine):
        return print("This needs a model that runs on ONNX Runtime.")
    read = Reading(embedder)
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    late = Late(embedder, read, options.best)
    results: dict[str, dict[str, Scores]] = {}
    costs: dict[str, list[Cost]] = {}
    for path in options.sets:
        judged = load(path, options.queries, SEED)
        print(f"{judged.name}: {len(judged.documents):,} documents, {len(judged.questions)} questions", file=sys.stderr)
        results[judged.name], costs[judged.name] = measure(judged, embedder, late)
    if results:
        print_gains(results, RULES, SEED)
        print_costs(costs)
    if options.planted:
        planted.print_places(measure_planted(options.planted, embedder, late))
    return None


if __name__ == "__main__":
    main()
