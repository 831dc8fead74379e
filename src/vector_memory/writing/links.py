"""Finds the memories on the subject of a new one, which `later_links` keeps."""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from vector_memory.domain import TRAITS, Fingerprint, MemoryKind, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.description import UNKNOWN, Calibration
from vector_memory.search import rank
from vector_memory.search.gate import NUMBER, SENTENCE, UNSETTLED, shape_of
from vector_memory.search.later import BEHIND
from vector_memory.search.question import Question
from vector_memory.search.rank import USUAL, Method, Ranking, ScopeData, reads
from vector_memory.storage.base import Reader
from vector_memory.storage.postings import key_of
from vector_memory.storage.records import NO_LINKS, Links
from vector_memory.storage.scoring import SCALE, Numbers, Vectors, are_in
from vector_memory.texts.terms import STOP_WORDS, query_terms, stems_of

# Tells whether a newer text speaks of the subject of an older one, so that it may say what is true now.
#
# The evidence is the cosine of two passages, with a share of the words that they have in common, and with more if the
# newer text has words of change. The model says from which evidence on the subject is the same (`Calibration`). Many
# texts on one subject are a series, such as the reports on the progress of a task: the next one corrects none of them,
# unless it is much nearer to it than to the others.

CHANGE = re.compile(
    r"\b(?:now|since|no longer|no more|any ?more|instead|after all|moved?|renamed?|replaced?|dropped|switched|changed?"
    r"|raised?|removed|left)\b",
    re.IGNORECASE,
)
"""Words with which texts often say what is different now."""

MOST_UNSETTLED = 3
"""A text is unsettled if every third sentence is."""

NUMBERED = frozenset(
    """
    chapter day error house order part pass phase room round run sample seed session shard slice sprint step task wave
    week
    """.split()  # noqa: SIM905 - as in `gate`
)
"""Words before numbers of parts: texts on one subject with other numbers are about other parts of it."""
NAME = re.compile(r"[^\W_][\w./:@-]*\w|\w")
SAME_WORDS, MOST_NAMES, EARLY = 2, 2, 0.6
"""Half of the words are the same, and one or two differ. Later than this in a text, they are what changed."""
SHORT = 80
"""Words. Names in longer texts are not compared."""

SERIES = 8
"""Number of other texts on a subject, or nearly on it, that make a series."""
NEARLY = 0.08
"""A text with this much less evidence is nearly on the subject."""

STANDS_OUT = 0.25
"""A text with this much more evidence than the one at place SERIES is more than a part of the series."""

PASSAGES_KNOWN = 4_096
"""Passages whose keys are cached, in 4 MB: memories stored in a row are compared with the same ones."""


def is_settled(text: str) -> bool:
    """Return whether most sentences of a text state facts."""
    sentences = [sentence for sentence in SENTENCE.split(text.strip()) if sentence]
    return MOST_UNSETTLED * sum(map(bool, map(UNSETTLED.search, sentences))) < len(sentences)


def is_other_thing(older: str, newer: str) -> bool:
    """Return whether two short texts say the same of different things: one has another name where the other has one.

    What differs at the end, or is written as a number or in capitals, is what changed.
    """
    (names, stems), (new_names, new_stems) = map(named_words, (older, newer))
    if max(len(stems), len(new_stems)) > SHORT:
        return False
    matcher = SequenceMatcher(None, stems, new_stems, autojunk=False)
    codes = matcher.get_opcodes()
    if SAME_WORDS * sum(block.size for block in matcher.get_matching_blocks()) < min(len(stems), len(new_stems)):
        return False
    end = max((first for code, first, *_ in codes if code == "equal"), default=0)
    for code, first, last, start, stop in codes:
        gone = [name for name, stem in zip(names[first:last], stems[first:last], strict=True) if stem not in new_stems]
        come = [
            name for name, stem in zip(new_names[start:stop], new_stems[start:stop], strict=True) if stem not in stems
        ]
        if code != "replace" or not gone or not come:
            continue
        is_numbered = all(name[0].replace(".", "").isdigit() for name in (gone, come))
        if is_numbered and first and stems[first - 1] in NUMBERED:
            return True
        is_alike = shape_of(gone[0].casefold()) == shape_of(come[0].casefold()) and not gone[0].isalpha()
        are_names = max(len(gone), len(come)) <= MOST_NAMES and all(
            is_name_of_thing(name, first) for name in (*gone, *come)
        )
        if first < end and not is_numbered and (is_alike or (are_names and first <= EARLY * len(stems))):
            return True
    return False


def is_name_of_thing(word: str, place: int) -> bool:
    """Return whether a word may name the thing that a text is about, and not what it says of it."""
    return not NUMBER.match(word) and (word.islower() or place == 0) and ("-" in word or "_" in word or word.isalpha())


def named_words(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text without stop words, and their stems."""
    words = [word for word in NAME.findall(text) if word.casefold() not in STOP_WORDS]
    return words, [stems_of([word])[0] if word.isascii() and word.isalpha() else word.casefold() for word in words]


class Subject(NamedTuple):
    """A text as it is compared. `vectors`: unit vectors, shape (passages, dimensions); `words`: keys of each passage.

    `tells_change`: whether it has words of change.
    """

    vectors: Vectors
    words: Sequence[Numbers]
    tells_change: bool = False


def subject_of(passages: Sequence[str], vectors: Vectors) -> Subject:
    """Return a text as it is compared with older ones. `vectors`: of its passages."""
    return Subject(vectors, list(map(passage_keys, passages)), any(map(CHANGE.search, passages)))


@lru_cache(maxsize=PASSAGES_KNOWN)
def passage_keys(passage: str) -> Numbers:
    """Return the keys of a passage's terms, ascending."""
    return np.unique(np.fromiter(map(key_of, query_terms(passage)), np.int64))


def evidence(rule: Calibration, older: Subject, newer: Subject) -> float:
    """Return the evidence that two texts have the same subject.

    Each passage of the text with fewer counts, with the nearest passage of the other text.
    """
    nearness = older.vectors @ newer.vectors.T + rule.shared_words * shares(older.words, newer.words)
    by_older, by_newer = nearness.max(axis=1).mean(), nearness.max(axis=0).mean()
    count = len(older.words) - len(newer.words)
    near = max(by_older, by_newer) if not count else by_older if count < 0 else by_newer
    return round(float(near) + rule.change * newer.tells_change, int(np.log10(SCALE)))


def shares(one: Sequence[Numbers], other: Sequence[Numbers]) -> Vectors:
    """Return the share of common terms of each pair of passages: of those of the passage that has fewer."""
    known = np.unique(np.concatenate(other))

    def table(words: Sequence[Numbers]) -> Vectors:
        filled = np.zeros((len(words), len(known)), np.float32)
        keys, rows = np.concatenate(words), np.repeat(np.arange(len(words)), list(map(len, words)))
        there = are_in(known, keys)
        filled[rows[there], known.searchsorted(keys[there])] = 1
        return filled

    least = np.minimum.outer(list(map(len, one)), list(map(len, other)))
    return np.asarray(table(one) @ table(other).T / np.maximum(1, least), np.float32)


def links(rule: Calibration, found: Mapping[int, float], distinct: Collection[int]) -> Links:
    """Return which memories a new one is linked to, given the evidence of those that are nearest to it, by id.

    `distinct`: one memory of each text: a text that was stored several times is no series.
    """
    if rule.same_subject is None or not found:
        return NO_LINKS
    ordered = sorted((found[number] for number in distinct), reverse=True)
    least, nearly = max(rule.same_subject, ordered[0] - BEHIND), rule.same_subject - NEARLY
    if len(ordered) < SERIES or ordered[SERIES - 1] < nearly:
        return Links({number: value for number, value in found.items() if value >= least})
    typical = ordered[SERIES - 1]
    return Links(
        {number: value for number, value in found.items() if value >= max(least, typical + STANDS_OUT)},
        [number for number, value in found.items() if value >= max(nearly, typical - BEHIND)],
        typical + STANDS_OUT,
    )


# Finds the memories on the subject of a new one, once, when its vectors are made.
#
# Its passages are compared with those of its kind, in all sessions: a link that a caller may not see, or does not ask
# for, is left out when it is read. The nearest memories are then compared as a whole (`links`).

MOST_ASKED = 8
"""Maximum number of a new memory's passages that are compared with all others; evenly spaced in a longer one."""

LOOKED_BACK = 262_144
"""The newest passages with which they are compared, so that a store does not take longer the larger the memory is."""

NEAREST = 16
"""Number of memories with the nearest passages that are compared as a whole."""


def links_of(
    model: EmbeddingModel, reader: Reader, kind: str, texts: Sequence[str], vectors: Vectors, memory_id: int | None
) -> Links:
    """Return the links of a memory of a kind; none if the model does not tell what is on one subject.

    `texts`, `vectors`: of its last passages; those before them are stored. `memory_id`: None if nothing of it is.
    Raises EmbeddingUnavailableError, DatabaseError.
    """
    besides = [] if memory_id is None else [memory_id]
    for first_texts, first_vectors in passages_of(reader, besides).values():
        texts, vectors = [*first_texts, *texts], np.concatenate([first_vectors, vectors])
    rule = model.calibration_for(texts[0]) if texts and kind in TRAITS else UNKNOWN
    if rule.same_subject is None or not is_settled(" ".join(texts)):
        return NO_LINKS
    if not reader.vectors.begin_ahead(model.fingerprint):
        return NO_LINKS
    new = subject_of(texts, vectors)
    nearest = nearest_memories(reader, MemoryKind(kind), model.fingerprint, vectors, besides)
    others = passages_of(reader, nearest)
    distinct = {tuple(passages): number for number, (passages, _) in others.items()}.values()
    subjects = {number: Subject(own, list(map(passage_keys, passages))) for number, (passages, own) in others.items()}
    found = links(rule, {number: evidence(rule, one, new) for number, one in subjects.items()}, distinct)
    other_things = {
        number
        for number in found.evidence
        if len(texts) == len(others[number][0]) == 1 and is_other_thing(others[number][0][0], texts[0])
    }
    return found._replace(evidence={one: value for one, value in found.evidence.items() if one not in other_things})


def nearest_memories(
    reader: Reader, kind: MemoryKind, fingerprint: Fingerprint, vectors: Vectors, besides: Sequence[int]
) -> list[int]:
    """Return the memories of a kind that have the passages nearest to some vectors.

    Of a large memory only the newest count, unless one of `besides`, which are left out, is older.
    `fingerprint`: of the vectors. Raises EmbeddingUnavailableError if others are stored.
    """
    oldest = reader.vectors.candidates.oldest_of_newest(Scope(), LOOKED_BACK)
    if not reader.vectors.end_ahead():
        oldest = reader.vectors.candidates.oldest_of_newest(Scope(), LOOKED_BACK)
    reader.vectors.require_comparable(fingerprint)
    scope, method = Scope(kind), USUAL
    if oldest and min(besides, default=oldest) >= oldest:
        scope, method = Scope(kind, after_id=oldest - 1), Method(newest=LOOKED_BACK)
    asked = vectors[np.unique(np.linspace(0, len(vectors) - 1, MOST_ASKED).astype(int))]
    found = ScopeData(*reader.together(*reads(reader, scope, Question(None, None))))
    if found.indexed.units.count <= rank.MAX_EXACT_UNITS:  # all passages are compared, with all vectors at once
        found, asked = found._replace(compared=reader.vectors.candidates.compared(scope, *asked)), asked[:1]
    best: dict[int, float] = {}
    for vector in asked:
        question = Question(vector, None)
        ranking = Ranking(reader.vectors.candidates, scope, question, found, method=method, besides=besides)
        for hit in ranking.best(NEAREST, memories=True).hits:
            best[hit.memory_id] = max(hit.score, best.get(hit.memory_id, -1.0))
    return sorted(best, key=lambda number: (-best[number], number))[:NEAREST]


def passages_of(reader: Reader, memory_ids: Sequence[int]) -> dict[int, tuple[list[str], Vectors]]:
    """Return the passages of memories that have vectors, and these, shape (passages, dimensions), by memory."""
    passages = reader.vectors.passage_texts(memory_ids) if memory_ids else {}
    if not passages:
        return {}
    ids, vectors = reader.vectors.candidates.vectors(sorted(number for own in passages.values() for number in own))
    places = {number: place for place, number in enumerate(ids.tolist())}
    found = {}
    for memory_id, texts in sorted(passages.items()):
        own = [number for number in texts if number in places]
        if own:
            found[memory_id] = [texts[number] for number in own], vectors[[places[number] for number in own]]
    return found
