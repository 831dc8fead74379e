"""How far new memories are trusted, which a person has to accept first, and which look like instructions to a model."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from vector_memory.domain import CameFrom, MemoryKind, NewMemory, Trust, Way, derived_from
from vector_memory.settings import trust_rules
from vector_memory.storage.base import Writer
from vector_memory.texts.instructions import speaks_to_model

INSTRUCTIONS = "instructions"
"""The mark of a text that looks like instructions to the model that reads it."""


REPEATS = "repeats what was taken out"
"""Why a memory is held whose text a person has taken out of use elsewhere."""

OF_PERSON, OF_CLIENT = (Way.COMMAND, Way.INGEST), (Way.HOOK, Way.IMPORT)

DEFAULT_LEVELS = trust_rules("")


def screened(
    new: NewMemory, rules: Sequence[tuple[str, str]], levels: Sequence[tuple[str, str, Trust]] = DEFAULT_LEVELS
) -> NewMemory:
    """Return a new memory with its mark, its trust, and what it awaits if a rule holds it back.

    `rules`, `levels`: of `Settings.pending` and `Settings.trust`.
    """
    came_from = CameFrom(**new.came_from)
    if any(map(speaks_to_model, filter(None, (new.content, new.title, new.description)))):
        came_from["marked"] = INSTRUCTIONS
    facts: dict[str, Sequence[str]] = {
        "all": [""],
        "agent": [new.agent_id],
        "kind": [new.kind],
        "by": [came_from.get("by", "")],
        "client": [came_from.get("client", "")],
        "token": [came_from.get("token", "")],
        "source": came_from.get("sources", []),
        INSTRUCTIONS: [""] if "marked" in came_from else [],
        "person": [""] if is_by_person(new, came_from.get("by", "")) else [],
    }
    awaits = next((name for name, pattern in rules if fits(facts[name], pattern)), None)
    trust = next((level for name, pattern, level in levels if fits(facts[name], pattern)), Trust.NORMAL)
    return replace(new, came_from=came_from, awaits=awaits, trust=trust.level)


def fits(facts: Sequence[str], pattern: str) -> bool:
    """Return whether one of the facts about a memory fits a rule's pattern."""
    return any(fnmatchcase(one, pattern) for one in facts)


def is_by_person(new: NewMemory, way: str) -> bool:
    """Return whether a memory has a person's own words or files: a prompt that a client reports, or from a command."""
    return way in OF_PERSON or (new.kind is MemoryKind.INPUT_PROMPT and way in OF_CLIENT)


def settled(writer: Writer, new: NewMemory, content_hash: str) -> NewMemory:
    """Return a memory with the trust of what it was derived from, if that is lower; held if its text was taken out.

    A text that is stored with low trust is not trusted more because an agent stores it again without its source.
    """
    same = writer.same_text(content_hash)
    if new.awaits is None and same.taken_out:
        new = replace(new, awaits=REPEATS)
    known = same.trust if new.trust == Trust.NORMAL.level else Trust.HIGH.level
    least = min(writer.memories.least_trust(derived_from(new.came_from)), known)
    return replace(new, trust=least) if least < new.trust else new
