"""Finds the memories on the subject of a new one, once, when its vectors are made.

Its passages are compared with those of its kind, in all sessions: a link that a caller may not see, or does not ask
for, is left out when it is read. The nearest memories are then compared as a whole (`same_subject`).
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from vector_memory.domain import TRAITS, MemoryKind, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.description import UNKNOWN
from vector_memory.search.question import Question
from vector_memory.search.same_subject import evidence, links, subject_of
from vector_memory.search.scan import USUAL, Found, Method, Scan, reads
from vector_memory.storage.base import Reader
from vector_memory.storage.records import NO_LINKS, Links
from vector_memory.storage.scoring import Vectors

MOST_ASKED = 8
"""Passages of a new memory that are compared with all others: of a longer one, so many at equal distances."""

LOOKED_BACK = 262_144
"""The newest passages with which they are compared, so that a store does not take longer the larger the memory is."""

NEAREST = 16
"""Memories with the nearest passages, which are compared as a whole."""


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
    if rule.same_subject is None:
        return NO_LINKS
    new = subject_of(texts, vectors)
    nearest = nearest_memories(reader, MemoryKind(kind), vectors, besides)
    others = passages_of(reader, nearest)
    distinct = {tuple(passages): number for number, (passages, _) in others.items()}.values()
    return links(rule, {number: evidence(rule, subject_of(*one), new) for number, one in others.items()}, distinct)


def nearest_memories(reader: Reader, kind: MemoryKind, vectors: Vectors, besides: Sequence[int]) -> list[int]:
    """Return the memories of a kind that have the passages nearest to some vectors.

    Of a large memory only the newest count, unless one of `besides`, which are left out, is older.
    """
    oldest = reader.candidates.oldest_of_newest(Scope(), LOOKED_BACK)
    scope, method = Scope(kind), USUAL
    if oldest and min(besides, default=oldest) >= oldest:
        scope, method = Scope(kind, after_id=oldest - 1), Method(newest=LOOKED_BACK)
    asked = vectors[np.unique(np.linspace(0, len(vectors) - 1, MOST_ASKED).astype(int))]
    found = Found(*reader.together(*reads(scope, Question(None, None))))
    best: dict[int, float] = {}
    for vector in asked:
        scan = Scan(
            reader.candidates, scope, Question(vector, None), found, method=method, depth=NEAREST, besides=besides
        )
        for hit in scan.find(NEAREST, memories=True).hits:
            best[hit.memory_id] = max(hit.score, best.get(hit.memory_id, -1.0))
    return sorted(best, key=lambda number: (-best[number], number))[:NEAREST]


def passages_of(reader: Reader, memory_ids: Sequence[int]) -> dict[int, tuple[list[str], Vectors]]:
    """Return the passages of memories that have vectors, and these, shape (passages, dimensions), by memory."""
    passages = sorted(reader.passage_texts(memory_ids), key=lambda one: one.memory_id) if memory_ids else []
    if not passages:
        return {}
    ids, vectors = reader.candidates.vectors(sorted(one.id for one in passages))
    places = {number: place for place, number in enumerate(ids.tolist())}
    found = {}
    for memory_id, group in groupby(passages, key=lambda one: one.memory_id):
        own = [one for one in group if one.id in places]
        if own:
            found[memory_id] = [one.text for one in own], vectors[[places[one.id] for one in own]]
    return found
