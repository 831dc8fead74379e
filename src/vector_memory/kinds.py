"""The memory kinds as a table: what is chunked, what belongs to a session, what is enriched."""

from dataclasses import dataclass
from enum import StrEnum

MAIN_AGENT = "main-orchestrator"
"""The agent that session contexts and input prompts belong to."""

SHARED = "shared"
"""What stands in an agent's place on tagged memories, which are everybody's."""


class MemoryKind(StrEnum):
    """The kinds of memory; the values are the `memory_type` on the wire and in the database."""

    SESSION_CONTEXT = "session_context"
    INPUT_PROMPT = "input_prompt"
    SYSTEM_MEMORY = "system_memory"
    REPORT = "report"
    REPORT_OBSERVATION = "report_observation"
    WORKING_MEMORY = "working_memory"
    KNOWLEDGE_BASE = "knowledge_base"
    TAGGED = "tagged_memory"


@dataclass(frozen=True, slots=True)
class KindTraits:
    """How memories of one kind are treated.

    `chunked`: cut into chunks that are found one by one. `session_scoped`: belongs to a session and an iteration.
    `enriched`: its passages get title and heading in front when enrichment is switched on.
    """

    chunked: bool
    session_scoped: bool = True
    enriched: bool = False


TRAITS: dict[MemoryKind, KindTraits] = {
    MemoryKind.SESSION_CONTEXT: KindTraits(chunked=False),
    MemoryKind.INPUT_PROMPT: KindTraits(chunked=False),
    MemoryKind.SYSTEM_MEMORY: KindTraits(chunked=False),
    MemoryKind.REPORT: KindTraits(chunked=True, enriched=True),
    MemoryKind.REPORT_OBSERVATION: KindTraits(chunked=False),
    MemoryKind.WORKING_MEMORY: KindTraits(chunked=True),
    MemoryKind.KNOWLEDGE_BASE: KindTraits(chunked=True, session_scoped=False, enriched=True),
    MemoryKind.TAGGED: KindTraits(chunked=False, session_scoped=False),
}
