"""Which memories are current, now and at a time: like a dictionary of memories and a set of links."""

from dataclasses import dataclass, field
from itertools import count, pairwise
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine_memories import Engine, add, ids, new_memory
from faults.effort import effort
from vector_memory.domain import ANY, STORED, MemoryKind, Scope, utc_now
from vector_memory.storage.base import Storage
from vector_memory.writing.deletion import oldest_ends

PLACES = st.integers(0, 7)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.integers(1, 9), st.lists(PLACES, max_size=2)),
        st.tuples(st.just("supersede"), PLACES, st.lists(PLACES, min_size=1, max_size=2)),
        st.tuples(st.just("release"), PLACES, st.lists(PLACES, min_size=1, max_size=2)),
        st.tuples(st.just("expire"), PLACES, st.sampled_from(["past", "future", None])),
        st.tuples(st.just("delete"), PLACES, st.just([])),
    ),
    max_size=25,
)  # fmt: skip
FUTURE = {"past": "2020-01-01T00:00:00.000000+00:00", "future": "2030-01-05T12:00:00.000000+00:00", None: None}
TIMES = [None, ANY, *(f"2026-01-{day:02}" for day in range(1, 11)), "2031"]


def moment(day: int) -> str:
    return f"2026-01-{day:02}T12:00:00.000000+00:00"


@dataclass
class Model:
    """Times of creation and of expiry by id, and who supersedes whom: (older, newer)."""

    created: dict[int, str] = field(default_factory=dict)
    expiry: dict[int, str | None] = field(default_factory=dict)
    links: set[tuple[int, int]] = field(default_factory=set)

    def without(self, number: int) -> None:
        """Delete a memory: what it superseded is left to those that supersede it."""
        older = {one for one, newer in self.links if newer == number}
        newer = {other for one, other in self.links if one == number}
        self.links = {link for link in self.links if number not in link} | {(a, b) for a in older for b in newer}
        del self.created[number], self.expiry[number]

    def successors(self, number: int) -> set[int]:
        direct = {newer for older, newer in self.links if older == number}
        return direct.union(*map(self.successors, direct)) if direct else set()

    def is_there(self, number: int, until: str) -> bool:
        at = self.expiry[number]
        return at is None or at > until

    def visible(self, as_of: str | None) -> list[int]:
        """Return what a scope finds."""
        scope, now = Scope(as_of=as_of), utc_now()
        then = scope.as_of if isinstance(scope.as_of, str) and as_of != ANY else None
        found = []
        for number, created in self.created.items():
            newer = [] if as_of == ANY else self.successors(number)
            until = max(now, then or now)
            if not self.is_there(number, until) or (then and created > then):
                continue
            if not any(self.is_there(one, until) and (not then or self.created[one] <= then) for one in newer):
                found.append(number)
        return found


def answers(storage: Storage, session: str) -> dict[str | None, list[int]]:
    with storage.read() as reader:
        return {as_of: reader.memories.ids(Scope(session_id=session, as_of=as_of)) for as_of in TIMES}


@settings(
    max_examples=effort(quick=25, long=300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_what_is_current_follows_from_the_links_whatever_happens(
    storage: Storage, steps: list[tuple[str, int, list[int]]]
) -> None:
    """Forks, chains, deleted and expired memories, any order of their times; and erasing changes no answer."""
    session, model, ids, texts = uuid4().hex, Model(), list[int](), count()
    for step, value, more in steps:
        if step == "store":
            older = [ids[place] for place in more if place < len(ids) and ids[place] in model.created]
            new = new_memory(f"text {next(texts)}", session_id=session, supersedes=tuple(dict.fromkeys(older)))
            ids.append(add(storage, new, model=None, at=moment(value)))
            model.created[ids[-1]], model.expiry[ids[-1]] = moment(value), None
            model.links |= {(one, ids[-1]) for one in older}
        elif value < len(ids) and ids[value] in model.created:
            number = ids[value]
            older = [
                ids[place] for place in more or () if step != "expire" and place < value and ids[place] in model.created
            ]
            with storage.write() as writer:
                if step == "supersede":
                    writer.supersede(number, older)
                    model.links |= {(one, number) for one in older}
                elif step == "release":
                    writer.release(number, older)
                    model.links -= {(one, number) for one in older}
                elif step == "expire":
                    writer.expire(number, FUTURE[more])
                    model.expiry[number] = FUTURE[more]
                else:
                    writer.delete(number)
                    model.without(number)
    found = answers(storage, session)
    assert found == {as_of: model.visible(as_of) for as_of in TIMES}
    with storage.write() as writer:
        assert writer.lifecycle.wrong() == []
        for number in set(writer.memories.ids(Scope(session_id=session, as_of=STORED))).difference(found[ANY]):
            writer.delete(number)
    assert answers(storage, session) == found


KINDS = st.sampled_from(["old", "old", "old", "young", "pinned", "expired"])
BACK = st.integers(1, 3)
CHAINS = st.lists(st.tuples(KINDS, st.sets(BACK, max_size=2), st.none() | BACK), min_size=2, max_size=8)


@settings(
    max_examples=effort(quick=25, long=300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(chains=CHAINS, is_backward=st.booleans())
@example(chains=[("young", set(), None), ("expired", set(), 1), ("old", {1}, None)], is_backward=False)
@example(chains=[("old", set(), None), ("old", {1}, None)], is_backward=True)
def test_a_clean_up_makes_nothing_current_that_was_not_and_leaves_only_what_it_must(
    storage: Storage, chains: list[tuple[str, set[int], int | None]], *, is_backward: bool
) -> None:
    """Forks, chains, corrections, pinned and expired memories between them, and wherever it is interrupted.

    `is_backward`: each was written before the one that was stored before it.
    """
    session, kinds, older_of = uuid4().hex, dict[int, str](), dict[int, set[int]]()
    for kind, supersedes, corrects in chains:
        earlier = dict(enumerate(reversed(kinds), start=1))
        older = {earlier[back] for back in supersedes if back in earlier}
        report = earlier.get(corrects or 0)
        new = new_memory(
            f"text {len(kinds)}", MemoryKind.REPORT_OBSERVATION if report else MemoryKind.REPORT, session_id=session,
            supersedes=tuple(older), metadata={"parent_report_id": report, "corrects": True} if report else {},
        )  # fmt: skip
        at = f"2020-01-{len(chains) - len(kinds) if is_backward else 1:02}"
        number = add(storage, new, model=None, at="2026-01-01" if kind == "young" else at)
        kinds[number], older_of[number] = kind, older
        if report is not None and "expired" not in (kind, kinds[report]):
            older.add(report)
    with storage.write() as writer:
        for number, kind in kinds.items():
            writer.pin(number, pinned=kind == "pinned")
            writer.expire(number, FUTURE["past"] if kind == "expired" else None)

    def must_stay(number: int) -> bool:
        return any(kinds[older] in ("young", "pinned") or must_stay(older) for older in older_of[number])

    with storage.read() as reader:
        going = oldest_ends(
            reader, reader.memories.expendable(Scope(session_id=session, created_before="2021", as_of=ANY))
        )
        before = set(reader.memories.ids(Scope(session_id=session)))
    numbers = [memory.id for memory in going]
    assert set(numbers) == {number for number, kind in kinds.items() if kind == "old" and not must_stay(number)}
    for number in numbers:
        with storage.write() as writer:
            writer.delete(number)
            assert before.issuperset(writer.memories.ids(Scope(session_id=session)))


@pytest.mark.parametrize("report", [None, "1", True, 2**70, 99], ids=str)
def test_a_correction_of_no_report_that_exists_is_none(storage: Storage, report: object) -> None:
    add(storage, new_memory("a report"))
    metadata = {"parent_report_id": report, "corrects": True}
    observation = add(storage, new_memory("no", MemoryKind.REPORT_OBSERVATION, metadata=metadata))
    with storage.read() as reader:
        assert reader.memories.corrections([observation]) == []


def supersede(storage: Storage, newer: int, *older: int) -> None:
    with storage.write() as writer:
        writer.supersede(newer, older)


def test_deleting_the_middle_of_a_chain_lets_its_end_supersede_its_beginning(storage: Storage) -> None:
    first, second, third = (add(storage, new_memory(text)) for text in "abc")
    supersede(storage, second, first)
    supersede(storage, third, second)
    with storage.write() as writer:
        writer.delete(second)
        assert writer.lifecycle.superseding([first]) == [(first, third)]
    assert ids(storage) == [third]
    with storage.write() as writer:
        writer.delete(third)
    assert ids(storage) == [first]


def test_the_longer_a_chain_that_expires_the_more_of_it_is_read_at_once(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [add(storage, new_memory(f"text {number}")) for number in range(100)]
    with storage.write() as writer:
        for day, number in enumerate(ids, 1):
            writer.expire(number, f"2100-01-01T00:00:00.{day:06}+00:00")
        for older, newer in pairwise(ids[:-1]):
            writer.supersede(newer, [older])
    with storage.write() as writer:
        reads, fetch = list[str](), writer.connection.fetch
        monkeypatch.setattr(writer.connection, "fetch", lambda *asked: reads.append(asked[1]) or fetch(*asked))
        writer.supersede(ids[-1], [ids[-2]])
        lifecycles = writer.upkeep.portions.lifetimes().lifecycles
        assert lifecycles[0].superseded_until == lifecycles[-1].expires_at
        assert writer.lifecycle.wrong() == []
    assert len(reads) < 10


def test_what_has_expired_supersedes_nothing_and_is_passed_over_in_links(storage: Storage) -> None:
    first, second, third = (add(storage, new_memory(text)) for text in "abc")
    supersede(storage, second, first)
    supersede(storage, third, second)
    with storage.write() as writer:
        writer.expire(second, utc_now(1))
        assert writer.lifecycle.superseding([first]) == [(first, third)]
        assert writer.lifecycle.superseded_by([third]) == [(first, third)]
        writer.expire(third, utc_now(1))
        assert writer.lifecycle.superseding([first]) == []
    assert ids(storage) == [first]


def test_only_superseded_memories_of_a_scope_are_counted(storage: Storage) -> None:
    first, second, third = (add(storage, new_memory(text)) for text in "abc")
    other = add(storage, new_memory("d", session_id="other"))
    supersede(storage, third, first, second)
    with storage.write() as writer:
        writer.expire(second, utc_now(1))
        scopes = Scope(), Scope("report", session_id="s"), Scope(session_id="other"), Scope(as_of=ANY)
        assert [writer.memories.count_hidden(scope).superseded for scope in scopes] == [1, 1, 0, 0]
        writer.supersede(other, [third])
        assert writer.memories.count_hidden(Scope()).superseded == 2


def test_the_same_text_is_no_duplicate_once_it_is_superseded_but_one_of_the_same_time_is(storage: Storage) -> None:
    new = new_memory("a")
    first = add(storage, new, at=moment(1))
    supersede(storage, add(storage, new_memory("b")), first)
    with storage.write() as writer:
        known = writer.memories.get(first).content_hash
        assert writer.find_duplicate(new, known) is None
        assert writer.find_duplicate(new, known, moment(2)) is None
        assert writer.find_duplicate(new, known, moment(1)) == first


def test_two_handles_that_supersede_the_same_memory_make_a_fork(engine: Engine) -> None:
    storage, other = engine.storage, engine.open()
    first, second, third = (add(storage, new_memory(text)) for text in "abc")
    supersede(storage, second, first)
    supersede(other, third, first)
    with storage.write() as writer:
        assert writer.lifecycle.superseding([first]) == [(first, second), (first, third)]
        writer.release(second, [first])
    assert ids(other) == [second, third]
