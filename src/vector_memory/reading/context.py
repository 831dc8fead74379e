"""Gathers what an agent needs to continue a session."""

from collections.abc import Sequence
from dataclasses import replace

from vector_memory.answers import mapping
from vector_memory.answers.budget import ResponseBudget
from vector_memory.answers.documents import TaskContextResult
from vector_memory.answers.models import Beginning, MemoryEntry, ObservationNote, Omitted, StoredText
from vector_memory.domain import ANY, MemoryKind, Scope, validation
from vector_memory.domain.text import counted
from vector_memory.reading.documents import AccessRecorder
from vector_memory.search import Retriever
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Memory

TOKENS = 4_000
"""Default length of an answer."""

RECENT = 5
"""Maximum number of reports, of working memories and of observations in an answer."""

PINNED = 20
"""Maximum number of pinned memories at the beginning of an answer."""

PROMPTS_FIRST = 5
"""Number of prompts that come before reports in priority."""


class TaskContext:
    """Gathers what an agent needs to continue a session."""

    def __init__(self, storage: Storage, retriever: Retriever, budget: ResponseBudget, access: AccessRecorder) -> None:
        self._storage = storage
        self._retriever = retriever
        self._budget = budget
        self._access = access

    def load(
        self, session_id: str, session_iter: str | int | None, max_tokens: int | None, as_of: str | None = None
    ) -> TaskContextResult:
        """Return pinned memories, the latest context of a session's iteration, its prompts, and beginnings of findings.

        The default is the latest iteration. If it has too few reports, earlier iterations' follow. `as_of`: as in a
        Scope.
        """
        validation.check_label("session_id", session_id, validation.MAX_IDENTIFIER)
        wanted = None if session_iter is None else validation.parse_iteration(session_iter)
        session = Scope(session_id=session_id, as_of=as_of)
        if max_tokens is not None:
            validation.check_range("max_tokens", max_tokens, validation.MIN_TOKENS, validation.LARGEST)
        with self._storage.read() as reader:
            iteration = latest_iteration(reader, session) if wanted is None else wanted
            gathered = Gathered(reader, session, iteration, self._retriever)
        found = gathered.in_order
        handed_out: list[StoredText] = []

        def build(budget: ResponseBudget) -> TaskContextResult:
            handed_out[:] = budget.share(found)
            omitted = budget.omissions(found, handed_out)
            return gathered.answer(handed_out, omitted)

        answer = self._budget.within(max_tokens or TOKENS).fit(build)
        self._access.record([entry.id for entry in handed_out if entry.content_end is None])
        return answer


class Gathered:
    """What a session holds for one of its iterations."""

    def __init__(self, reader: Reader, session: Scope, iteration: int, retriever: Retriever) -> None:
        self._iteration = iteration

        def of(kind: MemoryKind, limit: int = RECENT, *, session_iter: int | None = iteration) -> list[Memory]:
            return reader.memories.page(replace(session, kind=kind, session_iter=session_iter), limit)

        contexts = of(MemoryKind.SESSION_CONTEXT, 1)
        # Prompts of earlier iterations still apply.
        prompts = of(MemoryKind.INPUT_PROMPT, validation.MAX_LIMIT, session_iter=None)
        reports = reports_until(reader, session, iteration)
        notes = [*of(MemoryKind.WORKING_MEMORY), *of(MemoryKind.REPORT_OBSERVATION)]
        self._latest_context = next(iter(contexts or of(MemoryKind.SESSION_CONTEXT, 1, session_iter=None)), None)
        self._prompts = reader.memories.count(replace(session, kind=MemoryKind.INPUT_PROMPT))
        pinned = [memory for memory in reader.memories.pinned(session, PINNED) if memory not in contexts]
        others = {memory.id for memory in pinned}
        self._observations: list[ObservationNote] = [
            note for note in mapping.observations_on(reader, reports, session.as_of) if note.id not in others
        ]
        noted = {note.id for note in self._observations}
        notes = [memory for memory in notes if memory.id not in noted]
        shown = [memory.id for memory in (*pinned, *reports, *notes)]
        later = reader.run(retriever.later_of(reader, shown, session))
        found: list[MemoryEntry | Beginning] = [
            *(Beginning(**mapping.beginning(memory), **later.get(memory.id, {})) for memory in pinned),
            *map(mapping.memory_entry, contexts),
            *map(whole, prompts[:PROMPTS_FIRST]),
            *(Beginning(**mapping.beginning(memory), **later.get(memory.id, {})) for memory in (*reports, *notes)),
            *map(whole, prompts[PROMPTS_FIRST:]),
        ]
        entries = [*{entry.id: entry for entry in reversed(found)}.values()][::-1]
        is_known = entries or self._observations or reader.memories.count(replace(session, as_of=ANY))
        self._unknown = "" if is_known else f" {mapping.no_such_session(reader, session.session_id)}"
        self._hidden, by = mapping.superseded_in(reader, session, [entry.id for entry in entries])
        self.in_order: list[StoredText] = [
            entry.model_copy(update={"superseded_by": by.get(entry.id, [])}) for entry in entries
        ]
        """The memories, in order of priority."""

    def answer(self, entries: Sequence[StoredText], omitted: list[Omitted]) -> TaskContextResult:
        """Return the answer with the memories that fit."""
        beginnings = [entry for entry in entries if isinstance(entry, Beginning)]
        by_kind = {
            kind: [entry for entry in beginnings if entry.memory_type == kind and not entry.pinned]
            for kind in MemoryKind
        }
        return TaskContextResult(
            pinned=[entry for entry in beginnings if entry.pinned],
            session_context=next((entry for entry in entries if isinstance(entry, MemoryEntry)), None),
            input_prompts=by_kind[MemoryKind.INPUT_PROMPT],
            recent_reports=by_kind[MemoryKind.REPORT],
            recent_working_memory=by_kind[MemoryKind.WORKING_MEMORY],
            recent_observations=by_kind[MemoryKind.REPORT_OBSERVATION],
            observations=self._observations,
            superseded=self._hidden.superseded,
            omitted=omitted,
            message=self._said(entries, omitted),
        )

    def _said(self, entries: Sequence[StoredText], omitted: Sequence[Omitted]) -> str:
        count, left_out = len(entries), len(self.in_order) - len(entries)
        said = f"{counted(count, 'memory', 'memories')}."
        latest = self._latest_context
        if self._unknown:
            said += self._unknown
        elif latest is None:
            said += " No session context is stored in this session."
        elif latest.session_iter != self._iteration:
            said += (
                f" No session context is stored for iteration {self._iteration}: the latest is memory {latest.id}, of "
                f"iteration {latest.session_iter}."
            )
        said += mapping.beginnings_note(entries)
        if left_out:
            named = "see omitted" if left_out == len(omitted) else f"the first {len(omitted)} are in omitted"
            said += (
                f" {left_out} did not fit: {named}; read them with {mapping.READ_WITH}, or send a larger max_tokens."
            )
        if self._prompts > validation.MAX_LIMIT:
            older = counted(self._prompts - validation.MAX_LIMIT, "older prompt")
            said += f" {older} left out: call search_input_prompts, latest_first=false."
        return said


def latest_iteration(reader: Reader, session: Scope) -> int:
    """Return the highest iteration of a session; 1 for an unknown one."""
    return next((memory.session_iter for memory in reader.memories.page(session, 1)), 1)


def reports_until(reader: Reader, session: Scope, iteration: int) -> list[Memory]:
    """Return the latest reports of an iteration and those before it, by iteration and time."""
    found: list[Memory] = []
    offset = 0
    while len(found) < RECENT:
        page = reader.memories.page(replace(session, kind=MemoryKind.REPORT), RECENT, offset)
        found += [memory for memory in page if memory.session_iter <= iteration]
        offset += RECENT
        if len(page) < RECENT:
            break
    return found[:RECENT]


def whole(memory: Memory) -> Beginning:
    """Return a memory with all of its text."""
    return Beginning(**mapping.beginning(memory, None))
