"""Finds results that may correct another one: newer ones on the same subject."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from vector_memory.embedding.token_states import Compared
from vector_memory.search.fusion import Hit
from vector_memory.search.relevance import CANDIDATES
from vector_memory.storage.records import Origin

SAME_SUBJECT = 0.34
"""Minimum cosine of two passages on the same subject, which most corrections reach."""
LEAST_OF_BEST = 0.3
"""The share of the best score that a correction must have."""
MOST = 2
"""Number of newer memories marked for each: the best, and the next best or one that continues the best."""
CORRECTED = 3
"""Number of best results for which an answer names what may correct them; those are never weak."""
APART_SECONDS = 60.0
"""Memories stored within this time count as written together."""


def with_later(hits: Sequence[Hit], compared: Mapping[int, Compared], origins: Mapping[int, Origin]) -> list[Hit]:
    """Return the hits, with the best hits that each may correct; a correction is not weak, and follows its fact.

    `origins`: of the memories of the first hits; others are not looked at.
    """
    known = [hit for hit in hits[:CANDIDATES] if hit.id in compared and hit.memory_id in origins]
    corrected: dict[int, list[int]] = {}
    followers: dict[int, list[Hit]] = {}
    for older in [hit for hit in known if hit.match != "weak"][:CORRECTED]:
        candidates = [
            hit
            for hit in known
            if hit.score >= LEAST_OF_BEST * hits[0].score and is_later(origins[hit.memory_id], origins[older.memory_id])
        ]
        for hit in best_on_subject(older, candidates, compared, origins):
            if hit.id not in corrected and known.index(hit) > known.index(older):
                followers.setdefault(older.id, []).append(hit)
            corrected.setdefault(hit.id, []).append(older.memory_id)
    moved = {hit.id for each in followers.values() for hit in each}
    ordered = in_order([hit for hit in hits if hit.id not in moved], followers)
    return [corrects(hit, corrected[hit.id]) if hit.id in corrected else hit for hit in ordered]


def in_order(hits: Iterable[Hit], followers: Mapping[int, Sequence[Hit]]) -> Iterator[Hit]:
    """Yield the hits, each with its followers after it, and theirs after these."""
    for hit in hits:
        yield hit
        yield from in_order(followers.get(hit.id, ()), followers)


def corrects(hit: Hit, older: Sequence[int]) -> Hit:
    """Return a hit that may correct older memories: it is not weak."""
    return hit._replace(later=tuple(older), match="related" if hit.match == "weak" else hit.match)


def is_later(one: Origin, other: Origin) -> bool:
    """Return whether a memory was stored after another one, and not together with it."""
    first, second = (datetime.fromisoformat(each.created_at).timestamp() for each in (other, one))
    comes_after = (one.turn, one.created_at, one.id) > (other.turn, other.created_at, other.id)
    return comes_after and abs(second - first) >= APART_SECONDS


def best_on_subject(
    older: Hit, candidates: Sequence[Hit], compared: Mapping[int, Compared], origins: Mapping[int, Origin]
) -> list[Hit]:
    """Return the two best candidates on the subject of a hit, or the best and the newest that goes on from it.

    A fact that was corrected several times shares ever fewer words with the question, but what is true stands last: it
    is newer than both, and on the subject of the best one, too.
    """
    direction = compared[older.id].direction
    alike = [hit for hit in candidates if float(direction @ compared[hit.id].direction) >= SAME_SUBJECT]
    alike.sort(key=lambda hit: -hit.score)
    best = alike[:MOST]
    newer = [
        hit
        for hit in alike[MOST:]
        if all(is_later(origins[hit.memory_id], origins[other.memory_id]) for other in best)
        and float(compared[best[0].id].direction @ compared[hit.id].direction) >= SAME_SUBJECT
    ]
    return [best[0], max(newer, key=lambda hit: origins[hit.memory_id].created_at)] if newer else best
