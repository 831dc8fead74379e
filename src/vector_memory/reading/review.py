"""Lists memories that may be out of date: those with later ones on their subject, and unread ones."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from itertools import islice, product
from typing import Any, NamedTuple

from vector_memory.answers.budget import ResponseBudget
from vector_memory.answers.mapping import beginning
from vector_memory.answers.models import Result
from vector_memory.answers.overview import HeldLine, PeoplesReview, ReviewedMemory, ReviewLine, ReviewResult
from vector_memory.domain import Scope
from vector_memory.domain.text import counted
from vector_memory.domain.validation import MAX_LIMIT, check_range, parse_id
from vector_memory.search.copies import repeats
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Link, Memory
from vector_memory.texts.terms import STOP_WORDS
from vector_memory.writing.holding import HeldEntry, Holding
from vector_memory.writing.writer import require_existing

COMPARED = 200
"""Maximum number of memories whose texts are compared with later ones; the latest subjects first."""

UNREAD_DAYS = 30
"""Memories this old that were never read may not be needed."""

LENGTH = 200
"""Bytes of a beginning."""


class Review:
    """Reviews a memory, without a language model."""

    def __init__(self, storage: Storage, budget: ResponseBudget) -> None:
        self._storage = storage
        self._budget = budget

    def review(self, scope: Scope, limit: int) -> ReviewResult:
        """List the memories of a scope to check: likely contradictions, then older memories, then unread ones."""
        check_range("limit", limit, 1, MAX_LIMIT)
        before = (datetime.now(UTC) - timedelta(days=UNREAD_DAYS)).isoformat(timespec="microseconds")
        with self._storage.read() as reader:
            latest = latest_of_each(reader.links.within(scope))
            compared = sorted(latest, key=lambda older: (-latest[older], -older))[:COMPARED]
            memories = reader.memories.get_all(sorted({*compared, *(latest[older] for older in compared)}))
            unread = reader.links.unread(scope, before)
            old = reader.memories.get_all(unread[:limit])
            pending = reader.memories.count_hidden(scope).pending
        older = [line_for(memories[one], memories[latest[one]]) for one in compared if one in memories]
        older.sort(key=lambda line: not line.differences)
        lines = [*older, *map(line_for, old.values())]

        def build(budget: ResponseBudget) -> ReviewResult:
            shown = budget.fitting(lines[:limit])
            total, message = len(latest) + len(unread), review_message(shown, len(latest))
            return ReviewResult(lines=shown, total=total, pending=pending, message=message)

        return self._budget.fit(build)

    def for_people(self, scope: Scope, limit: int) -> PeoplesReview:
        """Return the review with what changed, and the memories that are held back, which no agent is shown."""
        held = held_lines(Holding(self._storage).held())
        found = self.review(scope, limit)
        pairs = {line.id: line.later.id for line in found.lines if line.later}
        with self._storage.read() as reader:
            texts = {number: one.content for number, one in reader.memories.get_all([*pairs, *pairs.values()]).items()}
        compared = {older: what_changed(texts.get(older, ""), texts.get(newer, "")) for older, newer in pairs.items()}
        return PeoplesReview(
            **dict(found), held=held, changed={number: each for number, each in compared.items() if each}
        )

    def dismiss(self, memory_id: str | int) -> Result:
        """Forget the later memories on the subject of a memory: none of them corrects it. Raises NotFoundError."""
        number = parse_id("memory_id", memory_id)
        with self._storage.write() as writer:
            require_existing(writer, [number])
            writer.unlink(number)
        return Result(message=f"No memory stored so far corrects memory {number}.")


def held_lines(entries: Iterable[HeldEntry]) -> list[HeldLine]:
    """Return the lines for memories that are held back."""
    return [HeldLine(**reviewed_fields(one.memory), **one.held._asdict()) for one in entries]


def latest_of_each(links: Iterable[Link]) -> dict[int, int]:
    """Map each memory with later ones on its subject to the last of them, following their links too.

    Only memories stored later count, whatever their date: nothing else can supersede it.
    """
    latest: dict[int, int] = {}
    stored_later = [link for link in links if link.newer_id > link.older_id]
    for link in sorted(stored_later, key=lambda link: -link.newer_id):
        last = latest.get(link.newer_id, link.newer_id)
        latest[link.older_id] = max(latest.get(link.older_id, 0), last)
    return latest


def line_for(memory: Memory, later: Memory | None = None) -> ReviewLine:
    """Return the line for a memory, with the last one on its subject, if any."""
    return ReviewLine(
        **reviewed_fields(memory),
        later=None if later is None else ReviewedMemory(**reviewed_fields(later)),
        differences=[] if later is None else differing(memory.content, later.content),
        is_repeated=later is not None and repeats(later, memory),
    )


def reviewed_fields(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory that a review shows."""
    fields = beginning(memory, LENGTH)
    return {name: fields[name] for name in ReviewedMemory.model_fields}


def review_message(lines: Sequence[ReviewLine], older: int) -> str:
    """Summarize the review, and say what to do. `older`: number of memories with a later one on their subject."""
    if not lines:
        return "Nothing to review: no memory has a later one on its subject, and none is old and unread."
    if not older:
        return f"{counted(len(lines), 'memory was', 'memories were')} never read in {UNREAD_DAYS} days."
    return (
        f"{counted(older, 'memory has', 'memories have')} a later one on the subject. Read both: if the later one "
        "replaces the older, let it supersede that one."
    )


# Finds where two texts on one subject differ: numbers, versions, dates, paths and negations.

FACT = re.compile(
    r"(?P<path>(?:https?://|[~.]{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?)"
    r"|(?P<date>\b\d{4}-\d\d-\d\d\b)"
    r"|(?P<time>\b\d{1,2}:\d\d\b)"
    r"|(?P<version>\bv?\d+(?:\.\d+){2,}\b|\bv\d+(?:\.\d+)*\b)"
    r"|(?P<number>(?<![\w.-])[$€£]?\d[\d,]*(?:\.\d+)?(?:\s?(?:%|(?:[µm]?s|min|h|[kKMGT]i?B|[kMG]?Hz|px)\b))?)"
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
WORD = re.compile(r"[^\W\d_]{2,}")
NEGATION = re.compile(r"\b(?:not|no|never|without|cannot|stopped|disabled|removed|\w+n[\u2019']t)\b", re.IGNORECASE)

ALIKE = 0.5
"""The share of common words at which one sentence is the negation of another."""
MOST = 3
"""Maximum number of differences named."""
FACTS_COMPARED = 200
"""Maximum number of facts, and of sentences, of a text that are compared."""
SHOWN = 80
"""Maximum number of characters of a sentence or a value shown."""


class Fact(NamedTuple):
    """A number, version, date, time or path, and the words of its sentence."""

    kind: str
    value: str
    words: frozenset[str]


def differing(older: str, newer: str) -> list[str]:
    """Return up to MOST lines with a value and its replacement, such as `8080 → 9090`."""
    earlier, later = (list(islice(facts_of(text), FACTS_COMPARED)) for text in (older, newer))
    kept = {fact.value for fact in earlier} & {fact.value for fact in later}
    changed = [
        (len(one.words & other.words), f"{clipped_to(one.value)} → {clipped_to(other.value)}")
        for one, other in product(earlier, later)
        if one.kind == other.kind and not {one.value, other.value} & kept and one.words & other.words
    ]
    best = [line for _, line in sorted(changed, key=lambda each: -each[0])]
    return list(dict.fromkeys([*one_of_each(best), *negations(older, newer)]))[:MOST]


def one_of_each(lines: Sequence[str]) -> list[str]:
    """Keep lines whose values occur in no earlier line."""
    known, found = set[str](), []
    for line in lines:
        values = set(line.split(" → "))
        if not values & known:
            found.append(line)
        known |= values
    return found


def facts_of(text: str) -> Iterator[Fact]:
    """Yield the facts of a text, in order."""
    for sentence in SENTENCE.split(text):
        words = words_in(sentence)
        for found in FACT.finditer(sentence):
            yield Fact(str(found.lastgroup), found[0].rstrip(".,"), words)


def negations(older: str, newer: str) -> Iterator[str]:
    """Yield the newer of two sentences with the same words, of which one is negated."""
    for one, other in product(*(SENTENCE.split(text)[:FACTS_COMPARED] for text in (older, newer))):
        if bool(NEGATION.search(one)) != bool(NEGATION.search(other)):
            first, second = words_in(one), words_in(other)
            if first and second and len(first & second) >= ALIKE * len(first | second):
                yield clipped_to(other.strip())


def words_in(sentence: str) -> frozenset[str]:
    """Return the content words of a sentence, without negations."""
    without = NEGATION.sub(" ", sentence).lower()
    return frozenset(WORD.findall(without)) - STOP_WORDS


def clipped_to(text: str) -> str:
    """Cut a text to the length that is shown."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


# Marks what changed between two texts, word by word.

LONGEST_SENTENCE = 1_000


def what_changed(older: str, newer: str) -> list[tuple[str, str]]:
    """Return the most alike of the sentences that only one text has, in pieces, as `PeoplesReview` has them."""
    texts = [[one.strip() for one in SENTENCE.split(text)[:FACTS_COMPARED]] for text in (older, newer)]
    texts = [[one for one in own if not one.startswith("#")] for own in texts]  # headings are no sentences
    alone = [[one for one in own if one not in others] for own, others in (texts, texts[::-1])]
    alike, pair = 0.0, ("", "")
    for one, other in product(
        *([(one, words_in(one)) for one in own if len(one) <= LONGEST_SENTENCE] for own in alone)
    ):
        share = len(one[1] & other[1]) / max(1, len(one[1] | other[1]))
        alike, pair = max((alike, pair), (share, (one[0], other[0])))
    if alike < ALIKE:
        return []
    first, second = (re.findall(r"\S+\s*", f"{sentence} ") for sentence in pair)
    steps = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return [("".join(first[start:end]), "".join(second[begin:stop])) for _, start, end, begin, stop in steps]
