"""Finds results that may correct another one: newer ones on the same subject."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from vector_memory.embedding.token_states import Compared
from vector_memory.search.fusion import Hit
from vector_memory.search.relevance import CANDIDATES
from vector_memory.storage.records import Origin

SAME_SUBJECT = 0.34
"""Minimum cosine of two passages on the same subject, which most corrections reach."""
LEAST_TOGETHER = 0.8
"""Minimum of this cosine and the newer one's late score together."""
MOST = 2
"""Number of newer memories marked for each: the best, and the next best or one that continues the best."""
CORRECTED = 3
"""Number of strong matches for which an answer names what may correct them; that is never weak."""
APART_SECONDS = 60.0
"""Memories stored within this time count as written together."""


def with_later(hits: Sequence[Hit], compared: Mapping[int, Compared], origins: Mapping[int, Origin]) -> list[Hit]:
    """Return the hits, with the best hits that each may correct; a correction is not weak.

    Each stays where its score puts it: a newer text on a near subject is marked, too, and may answer nothing.
    `origins`: of the memories of the first hits; others are not looked at.
    """
    known = [hit for hit in hits[:CANDIDATES] if hit.id in compared and hit.memory_id in origins]
    corrected: dict[int, list[int]] = {}
    for older in [hit for hit in known if hit.match == "strong"][:CORRECTED]:
        best = best_on_subject(older, known, compared, origins)
        for hit in best:
            corrected.setdefault(hit.id, []).append(older.memory_id)
        if len(best) == MOST and may_correct(best[1], best[0], compared, origins):
            corrected[best[1].id].append(best[0].memory_id)
    return [corrects(hit, corrected[hit.id]) if hit.id in corrected else hit for hit in hits]


def corrects(hit: Hit, older: Sequence[int]) -> Hit:
    """Return a hit that may correct older memories: it is not weak."""
    return hit._replace(later=tuple(dict.fromkeys(older)), match="related" if hit.match == "weak" else hit.match)


def order_of(origin: Origin) -> tuple[int, str, int]:
    """Return what sorts memories in the order of storing, whatever the clocks of their machines said."""
    return origin.turn, origin.created_at, origin.id


def is_later(one: Origin, other: Origin) -> bool:
    """Return whether a memory was stored after another one, and not together with it."""
    first, second = (datetime.fromisoformat(each.created_at).timestamp() for each in (other, one))
    return order_of(one) > order_of(other) and abs(second - first) >= APART_SECONDS


def may_correct(hit: Hit, older: Hit, compared: Mapping[int, Compared], origins: Mapping[int, Origin]) -> bool:
    """Return whether a hit was stored after another one, and is on its subject and near the question, too."""
    one, other = compared[hit.id], compared[older.id]
    least = max(SAME_SUBJECT, LEAST_TOGETHER - one.score)
    return is_later(origins[hit.memory_id], origins[older.memory_id]) and bool(one.direction @ other.direction >= least)


def best_on_subject(
    older: Hit, candidates: Sequence[Hit], compared: Mapping[int, Compared], origins: Mapping[int, Origin]
) -> list[Hit]:
    """Return the two best that may correct a hit, or the best and the newest that goes on from it.

    A fact that was corrected several times shares ever fewer words with the question, but what is true stands last: it
    is newer than both, and on the subject of the best one, too. `candidates`: the best first.
    """
    alike = [hit for hit in candidates if may_correct(hit, older, compared, origins)]
    best = alike[:MOST]
    newer = [
        hit
        for hit in alike[MOST:]
        if may_correct(hit, best[0], compared, origins) and is_later(origins[hit.memory_id], origins[best[1].memory_id])
    ]
    return [best[0], max(newer, key=lambda hit: order_of(origins[hit.memory_id]))] if newer else best
