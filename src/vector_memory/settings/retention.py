"""Policies: for how many days memories of a kind, an agent or a session are kept."""

import re
from typing import NamedTuple

from vector_memory.domain import MemoryKind

RULE = re.compile(r"(?P<of>[^=]+)=\s*(?P<days>\d{1,5})\s*d")

EXAMPLE = "working_memory=30d; agent:scout=7d; session:tmp-*=2d"


class Rule(NamedTuple):
    """Memories of a kind, of an agent or of sessions (a pattern with * and ?) are kept for so many days."""

    days: int
    kind: MemoryKind | None = None
    agent: str | None = None
    session: str | None = None

    def __str__(self) -> str:
        named = f"session:{self.session}" if self.session else f"agent:{self.agent}" if self.agent else self.kind
        return f"{named}={self.days}d"


def rules_of(text: str) -> list[Rule]:
    """Return the rules of a setting, which semicolons separate. Raises ValueError."""
    return [_rule(part.strip()) for part in text.split(";") if part.strip()]


def valid_rules(text: str) -> str:
    """Return a setting whose rules are valid. Raises ValueError."""
    rules_of(text)
    return text


def _rule(part: str) -> Rule:
    found = RULE.fullmatch(part)
    if found is None or not int(found["days"]):
        raise ValueError(
            f'"{part}" is no rule: write KIND=DAYSd, agent:NAME=DAYSd or session:PATTERN=DAYSd, as {EXAMPLE}'
        )
    of, days = found["of"].strip(), int(found["days"])
    field, _, name = (part.strip() for part in of.partition(":"))
    if field == "agent" and name:
        return Rule(days, agent=name)
    if field == "session" and name:
        return Rule(days, session=name)
    if of not in set(MemoryKind):
        raise ValueError(
            f'"{of}" is no kind of memory: choose from {", ".join(MemoryKind)}, or write agent: or session:'
        )
    return Rule(days, MemoryKind(of))
