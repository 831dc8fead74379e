"""Which new memories a person has to accept first, and which look like instructions to the model that reads them."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from vector_memory.domain import CameFrom, NewMemory
from vector_memory.texts.instructions import speaks_to_model

INSTRUCTIONS = "instructions"
"""The mark of a text that looks like instructions to the model that reads it."""


def screened(new: NewMemory, rules: Sequence[tuple[str, str]]) -> NewMemory:
    """Return a new memory with its mark, and with what it awaits if a rule holds it back; see `Settings.pending`."""
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
    }
    awaits = next((name for name, pattern in rules if any(fnmatchcase(one, pattern) for one in facts[name])), None)
    return replace(new, came_from=came_from, awaits=awaits)
