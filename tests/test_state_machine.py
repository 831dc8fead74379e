"""Whatever two processes call, in any order: the store answers like a plain dictionary of memories."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from engines import execute
from faults.effort import effort
from lattice import LatticeEmbedder
from other_process import SETTINGS, OtherProcess
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope
from vector_memory.errors import DuplicateMemoryError, NotFoundError, ValidationError
from vector_memory.store import SessionMemoryStore

# Few of everything, so that memories often differ in one thing only.
KINDS = st.sampled_from([MemoryKind.REPORT, MemoryKind.INPUT_PROMPT])
AGENTS = st.sampled_from(["a1", "a2"])
SESSIONS = st.sampled_from(["s1", "s2"])
# At most four words are one passage, so a memory's vector is that of its content.
CONTENTS = st.sampled_from(["a", "b c", "d e f", "g h i j"])


@dataclass(frozen=True)
class Remembered:
    """What the model knows of a memory."""

    kind: MemoryKind
    agent_id: str
    session_id: str
    session_iter: int
    content: str
    days_old: int = 0
    expires: bool = False
    pinned: bool = False

    @property
    def place(self) -> tuple[object, ...]:
        """What two memories must not have in common."""
        return (self.kind, self.agent_id, self.session_id, self.session_iter, self.content)

    def fields(self) -> dict[str, Any]:
        """Return the arguments that store this."""
        place = {"agent_id": self.agent_id, "session_id": self.session_id, "session_iter": self.session_iter}
        return place | ({"ttl_days": 30} if self.expires else {})


class StoreMachine(RuleBasedStateMachine):
    """Two processes on one file, and a dictionary."""

    ids = Bundle("ids")
    other: ClassVar[OtherProcess]

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "memory.db"
        self.model: dict[int, Remembered] = {}
        self.links: set[tuple[int, int]] = set()
        """Who supersedes whom: the older one, and the newer."""
        self.largest_id = 0
        self.store = self._opened()
        self.other.use(self.path)

    def _opened(self) -> SessionMemoryStore:
        return SessionMemoryStore(self.path, SETTINGS, embedder=LatticeEmbedder())

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    memories = st.builds(Remembered, KINDS, AGENTS, SESSIONS, st.integers(1, 2), CONTENTS, expires=st.booleans())

    @rule(target=ids, memory=memories, supersedes=st.lists(ids, max_size=2), elsewhere=st.booleans())
    def store_memory(self, memory: Remembered, supersedes: list[int], elsewhere: bool) -> int:
        older = [number for number in supersedes if number in self.model]
        answer = self._store(memory, older, elsewhere=elsewhere)
        existing = [number for number in self._current() if self.model[number].place == memory.place]
        if existing and existing[0] not in older:
            assert answer == (False, existing[0])
            return existing[0]
        stored, number = answer
        assert stored
        assert number > self.largest_id
        self.largest_id = number
        self.model[number] = memory
        self.links |= {(each, number) for each in older}
        return number

    def _store(self, memory: Remembered, older: list[int], *, elsewhere: bool) -> tuple[bool, int]:
        fields = memory.fields() | {"supersedes": older}
        if elsewhere:
            answer = self.other.call("store_memory", memory.kind, memory.content, **fields)
            return answer["success"], answer["memory_id"]
        try:
            return True, self.store.store_memory(memory.kind, memory.content, **fields).memory_id or 0
        except DuplicateMemoryError as error:
            return False, error.memory_id

    def _current(self) -> list[int]:
        """Return the memories that no other one supersedes."""
        return sorted(self.model.keys() - {older for older, _ in self.links})

    def _forget(self, number: int) -> None:
        """Take a memory as deleted: what it superseded is left to those that supersede it."""
        del self.model[number]
        older = {one for one, newer in self.links if newer == number}
        newer = {other for one, other in self.links if one == number}
        self.links = {link for link in self.links if number not in link} | {(a, b) for a in older for b in newer}

    @rule(newer=ids, older=ids, release=st.booleans(), elsewhere=st.booleans())
    def supersede(self, newer: int, older: int, release: bool, elsewhere: bool) -> None:
        link, name = (older, newer), "release" if release else "supersede"
        allowed = link in self.links if release else {newer, older} <= self.model.keys() and older < newer
        if elsewhere:
            assert self.other.call(name, newer, older)["success"] is allowed
        else:
            with nullcontext() if allowed else pytest.raises(ValidationError):
                getattr(self.store, name)(newer, older)
        if allowed:
            self.links = self.links - {link} if release else self.links | {link}

    @rule(number=consumes(ids), elsewhere=st.booleans())
    def delete(self, number: int, elsewhere: bool) -> None:
        present = number in self.model
        if present:
            self._forget(number)
        if elsewhere:
            assert self.other.call("delete_memory", number)["success"] is present
            return
        try:
            self.store.delete_memory(number)
        except NotFoundError:
            assert not present
        else:
            assert present

    @rule(number=ids, days=st.integers(1, 200))
    def grow_older(self, number: int, days: int) -> None:
        if number in self.model:
            self.model[number] = replace(self.model[number], days_old=days)
            created_at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
            execute(self.store, "update session_memories set created_at = ? where id = ?", created_at, number)

    @rule(number=ids)
    def expire(self, number: int) -> None:
        """What has expired is gone from the model at once, whenever it is erased."""
        if number in self.model and self.model[number].expires:
            self._forget(number)
            at = "2020-01-01T00:00:00.000000+00:00"
            execute(self.store, "update memory_lifecycle set expires_at = ? where memory_id = ?", at, number)

    @rule()
    def erase_expired(self) -> None:
        self.store.erase_expired()
        assert len(execute(self.store, "select id from session_memories")) == len(self.model)

    @rule(number=ids, pinned=st.booleans())
    def pin(self, number: int, pinned: bool) -> None:
        if number in self.model:
            self.model[number] = replace(self.model[number], pinned=pinned)
            (self.store.pin if pinned else self.store.unpin)(number)

    @rule(days=st.integers(1, 200), dry_run=st.booleans(), elsewhere=st.booleans())
    def clean_up(self, days: int, dry_run: bool, elsewhere: bool) -> None:
        old = self._expendable(days)
        answer = (
            self.other.call("cleanup_old_memories", days, dry_run=dry_run)
            if elsewhere
            else self.store.cleanup_old_memories(days, dry_run=dry_run).model_dump()
        )
        assert answer["memories_deleted"] == len(old)
        assert answer["chunks_deleted"] == sum(TRAITS[self.model[number].kind].chunked for number in old)
        if not dry_run:
            for number in old:
                self._forget(number)

    def _expendable(self, days: int) -> list[int]:
        """Return the old memories, without those that supersede one that stays."""
        old = [number for number, memory in self.model.items() if memory.days_old >= days and not memory.pinned]
        while staying := {newer for older, newer in self.links if newer in old and older not in old}:
            old = [number for number in old if number not in staying]
        return old

    @rule(number=ids)
    def read(self, number: int) -> None:
        try:
            content = self.store.reconstruct_document(number).content
        except NotFoundError:
            assert number not in self.model
        else:
            assert content == self.model[number].content
            memory = self.store.get_memory_by_id(number).memory
            assert memory.superseded_by == sorted(newer for older, newer in self.links if older == number)
            assert memory.supersedes == sorted(older for older, newer in self.links if newer == number)

    @rule(
        query=CONTENTS,
        kind=KINDS,
        agent=st.none() | AGENTS,
        session=st.none() | SESSIONS,
        limit=st.integers(1, 20),
        as_of=st.sampled_from([None, "any"]),
    )
    def search(
        self, query: str, kind: MemoryKind, agent: str | None, session: str | None, limit: int, as_of: str | None
    ) -> None:
        scope = Scope(kind, agent_id=agent, session_id=session, as_of=as_of)
        search = self.store.search_chunks if TRAITS[kind].chunked else self.store.search_memories
        answer = search(query, scope, Page(limit=limit))
        assert [one.memory_id for one in answer.results] == self._nearest(query, scope)[:limit]
        left_out = len(self._nearest(query, replace(scope, as_of="any"))) - len(self._nearest(query, scope))
        assert answer.superseded == (0 if as_of else left_out)

    def _nearest(self, query: str, scope: Scope) -> list[int]:
        wanted = [
            number
            for number, memory in self.model.items()
            if (scope.as_of == "any" or number in self._current())
            and memory.kind == scope.kind
            and scope.agent_id in (None, memory.agent_id)
            and scope.session_id in (None, memory.session_id)
        ]
        target = np.array(LatticeEmbedder.vector(query))
        distance = {
            number: float(np.sum((np.array(LatticeEmbedder.vector(self.model[number].content)) - target) ** 2))
            for number in wanted
        }
        return sorted(wanted, key=lambda number: (distance[number], number))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self._opened()

    @rule()
    def reopen_in_the_other_process(self) -> None:
        self.other.use(self.path)

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if hasattr(self, "store"):
            for session in ("s1", "s2"):
                memories = [memory for memory in self.model.values() if memory.session_id == session]
                counts = self.store.get_session_stats(session)
                assert counts.total_memories == len(memories)
                assert counts.total_chunks == sum(TRAITS[memory.kind].chunked for memory in memories)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[None]:
    """One other process for all runs: starting one takes longer than using it."""
    StoreMachine.other = OtherProcess(tmp_path / "memory.db")
    yield
    StoreMachine.other.close()


@pytest.mark.usefixtures("other")
def test_the_store_answers_like_a_dictionary() -> None:
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=effort(quick=10, long=100), stateful_step_count=40)
    )
