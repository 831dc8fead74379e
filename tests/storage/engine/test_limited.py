"""Each method of a reader and a writer is called by one who may see one session of two.

A statement says what it does not read of others, or why it need not, or it is refused. What is refused is listed here:
so whoever adds a method decides which of these it is.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from engine_memories import MODEL, add, content_hash, derived, new_memory, unit_vector
from vector_memory.domain import STORED, Evidence, MemoryKind, Project, Scope
from vector_memory.errors import AccessDeniedError, NotFoundError
from vector_memory.search.rank import WordWeights
from vector_memory.storage.base import Reader, Storage, WholeMemory
from vector_memory.storage.connection import BoundRead, Queries
from vector_memory.storage.opening import LimitedStorage, LimitedWriter
from vector_memory.storage.queries.candidates import IndexedScope
from vector_memory.storage.queries.deletions import Deleted, DeletedTexts
from vector_memory.storage.queries.passages import Passage
from vector_memory.storage.queries.portions import Lifetimes
from vector_memory.storage.records import History, LastIds, Lease, Link, Links, Span

HIDDEN_IDS = 900_000
"""The memories and chunks that may not be seen have higher ids."""

OF_HIDDEN = re.compile(r"hidden|9000\d\d")

REFUSED = """
    last_ids lifecycle.expired lifecycle.wrong links.after memories.corrections memories.expendable
    deletions.get_all memories.find_copy memories.ids memories.imprints sessions.counts sessions.statistics
    tags.canonical tags.vectors_of vectors.can_take_over vectors.embedded_passages vectors.mean_vectors
    vectors.next_leased vectors.next_without_vectors vectors.passages vectors.passages_of

    add_chunks add_evidence add_links add_model add_passages add_deletions add_vectors bring_back count_tag
    defer_missing_vectors discard_vectors end_leases expire forget_deletion forget_tags hold insert_row keep
    note_deletion link next_ids note_progress raise_last_ids refresh release_leases remove_links renew_leases
    replace_vectors rewrite set_tag_vectors set_tags set_deletions settle take_over unlink

    change.release_lease change.take_lease change.without_states keywords.add keywords.clear keywords.fill
    keywords.index_again keywords.memories_in keywords.remove keywords.units_of portions.add_blocks
    portions.add_memories portions.blocks portions.copied_from portions.count_outdated portions.finish
    portions.lifetimes portions.memories portions.miscounted portions.set_copied_from portions.set_lifetimes
    portions.whole
"""
"""The methods that look at everything, those that change something, and maintenance."""

LEFT_OUT = {
    *("run", "together", "unlimited", "begin_ahead", "end_ahead", "require_comparable", "forget_models"),
    *("make_room", "remove_room", "end_copy"),
}
"""What has no statements of its own, or those of one engine only, which are no reads."""

OWN: dict[str, dict[str, Any]] = {
    "link": {"links": Links({1: 1.0})},
    "memories.count_by": {"by": "kind"},
    "add_passages": {"vectors": unit_vector("x")[None]},
    "candidates.oldest_of_newest": {"passages": 0},
    "note_deletion": {"memory": Deleted("report", "seen", "{}", "x", "2026", 0, None)},
    "forget_deletion": {"memory": Deleted("report", "seen", "{}", "x", "2026", 0, None)},
}
"""What parameters of a common name get in some methods."""


def fill(storage: Storage) -> dict[str, list[int]]:
    """Store in two sessions all that a memory can have; return the ids of the memories and chunks of both."""
    found: dict[str, list[int]] = {"memory_ids": [], "chunk_ids": []}
    for name in ("seen", "hidden"):
        who = {"session_id": name, "agent_id": name, "tags": (name,), "task_code": name, "title": f"The {name} one"}
        evidence = (Evidence(path=f"{name}.py"),)
        report = add(storage, new_memory(f"A {name} report of some length.", **who, evidence=evidence))
        about = {**who, "metadata": {"parent_report_id": report, "project": "p", "corrects": True}}
        others = [
            add(storage, new_memory(f"{name} {kind} {number}", kind, **about), model=None if number else MODEL)
            for kind in (MemoryKind.REPORT_OBSERVATION, MemoryKind.INPUT_PROMPT, MemoryKind.REPORT)
            for number in range(2)
        ]
        found["memory_ids"] += [report, *others]
        with storage.write() as writer:
            writer.supersede(others[-1], [others[0]])
            writer.pin(report, pinned=True)
            writer.add_links([Link(report, each, 1.0) for each in others])
            writer.defer_vectors(others[-1], Lease(name, 4e9))
            writer.raise_last_ids(LastIds(HIDDEN_IDS, HIDDEN_IDS))
    first, last = found["memory_ids"][0], found["memory_ids"][-1]
    with storage.write() as writer:  # across the two
        writer.supersede(last, [first + 2])
        writer.add_links([Link(first, last, 1.0)])
        writer.note_deletion(Deleted("report", "hidden", "{}", "hidden", "2026", 0, None))
        writer.count_tag("hidden", None, "2027")
        found["chunk_ids"] = [chunk.id for number in found["memory_ids"] for chunk in writer.chunks.of(number)]
    remark = {**about, "metadata": {"parent_report_id": first}}
    found["memory_ids"].append(add(storage, new_memory("hidden remark", MemoryKind.REPORT_OBSERVATION, **remark)))
    return found


def arguments(reader: Reader, limited: Reader, ids: dict[str, list[int]]) -> dict[str, Any]:
    """Return what is sent for each parameter: ids of the session that may not be seen, and scopes that have all."""
    new = new_memory("A seen report of some length.", session_id="seen", agent_id="seen")
    memory = reader.memories.get(ids["memory_ids"][0])
    units = limited.vectors.candidates.indexed(Scope(MemoryKind.REPORT), []).units
    hidden, chunk = ids["memory_ids"][-2], ids["chunk_ids"][-1]
    return ids | {
        "report_ids": ids["memory_ids"], "older_ids": ids["memory_ids"], "unit_ids": ids["chunk_ids"],
        "passage_ids": [1, 2], "memory_id": hidden, "chunk_id": chunk, "older_id": hidden, "session_id": "hidden",
        "after_id": 0, "scope": Scope(MemoryKind.REPORT, as_of=STORED), "limit": 1_000, "characters": 1_000, "count": 5,
        "agents": 9, "same_agent": False, "by": "agent_id", "part": "e", "newest": 9_999, "besides": "x",
        "kind": MemoryKind.REPORT, "before": "2030", "buckets": [1, 2], "dimensions": 8,
        "span": Span(session_id="seen", since=(0, ""), besides="x"), "project": Project("p", owns_memory=True),
        "owner": "x", "new": new,
        "content_hash": content_hash(new), "hashes": [content_hash(new)], "agent_id": "seen", "session_iter": 1,
        "task_code": None, "memory": memory, "query": unit_vector("x"), "queries": unit_vector("x"),
        "worth": WordWeights(units, None, 1.0),
        "fingerprint": MODEL, "block_id": 1, "words": derived(new).words, "lease": Lease("x", 4e9), "now": "2027",
        "source": "x", "last_copied": 1, "lifetimes": Lifetimes([], []), "tags": ["x"],
        "blocks": reader.upkeep.portions.blocks(0, 1), "memories": [WholeMemory(memory, [], None)],
        "tag": "x", "vector": None, "vectors": {"x": unit_vector("x")}, "derived": derived(new),
        "embedded": derived(new).embedded, "states": None, "deletions": DeletedTexts([b"x"], []), "model_id": 1,
        "model": reader.vectors.models()[0], "evidence": [Evidence(path="x")],
        "expires_at": "2030", "at": "2030", "last_ids": LastIds(1, 1), "last": LastIds(1, 1), "of": "memory",
        "key": {"content_hash": "x", "agent_id": "a", "session_id": "s", "session_iter": 1, "task_code": ""},
        "hold": "pending", "why": "x", "until": "2030", "is_last": True, "pinned": True,
        "passages": [Passage(None, 0, 1)], "after": (0, 0), "links": [Link(1, 2, 1.0)],
    }  # fmt: skip


def methods(writer: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield all that can be called of a writer, and of what it leads to, by name."""
    upkeep = writer.upkeep
    parts = {"": writer.whole, "candidates.": writer.vectors.candidates, "keywords.": writer.keywords}
    parts |= {"portions.": upkeep.portions, "change.": upkeep.change}
    parts |= {f"{name}.": part for name, part in vars(writer.whole).items() if isinstance(part, Queries)}
    for start, part in parts.items():
        for name in dir(type(part)):
            known = inspect.getattr_static(type(part), name)
            is_property = isinstance(known, property) or hasattr(known, "attrname")
            if name.startswith("_") or name in LEFT_OUT or (not start and name in vars(LimitedWriter)):
                continue
            if is_property:
                yield start + name, lambda part=part, name=name: getattr(part, name)
            elif callable(method := getattr(part, name)):
                yield start + name, method


def called(method: Callable[..., Any], values: dict[str, Any]) -> object:
    """Call a method with what its parameters without defaults get."""
    signature = inspect.signature(method.function if isinstance(method, BoundRead) else method)
    wanted = [one for one in signature.parameters.values() if one.default is one.empty and one.name != "self"]
    missing = [one for one in wanted if one.name not in values]
    assert not missing, f"say what to send as {missing}"
    places = [values[one.name] for one in wanted if one.kind is not one.KEYWORD_ONLY]
    return method(*places, **{one.name: values[one.name] for one in wanted if one.kind is one.KEYWORD_ONLY})


def test_all_that_can_be_called_tells_nothing_of_other_sessions_or_is_refused(storage: Storage) -> None:
    ids = fill(storage)
    view, refused, told = LimitedStorage(storage, ["seen"]), set[str](), dict[str, str]()
    with storage.read() as reader, view.read() as limited:
        values = arguments(reader, limited, ids)
    with view.write() as writer:
        names = [name for name, _ in methods(writer)]
    for name in names:
        with suppress(NotFoundError), view.write() as writer:
            method = dict(methods(writer))[name]
            try:
                found = called(method, values | OWN.get(name, {}))
            except AccessDeniedError:
                refused.add(name)
            else:
                if isinstance(found, IndexedScope):  # its blocks have others, too, which do not count
                    found = found.units.ids[found.units.inside]
                if OF_HIDDEN.search(repr(found)):
                    told[name] = repr(found)
            raise NotFoundError
    assert told == {}
    assert refused == set(REFUSED.split())


def test_a_limited_writer_changes_nothing_in_other_sessions(storage: Storage) -> None:
    hidden, view = fill(storage)["memory_ids"][-2], LimitedStorage(storage, ["seen"])
    with storage.read() as reader:
        before = reader.memories.get(hidden)
    new, at = new_memory("hidden", session_id="hidden"), History("2027", "2027", "2027")
    changes: list[Callable[[LimitedWriter], object]] = [
        lambda writer: writer.add_memory(new, derived(new), content_hash="x", history=at),
        lambda writer: writer.pin(hidden, pinned=True),
        lambda writer: writer.amend(replace(before, title="x"), None, "2027"),
        lambda writer: writer.supersede(hidden, [1]),
        lambda writer: writer.release(hidden, [1]),
    ]
    for change in changes:
        with pytest.raises((AccessDeniedError, NotFoundError)), view.write() as writer:
            change(writer)
    with view.write() as writer:
        assert (writer.delete(hidden), writer.bypass(hidden)) == (None, [])
        writer.supersede(2, [hidden])
    with storage.read() as reader:
        left = len(reader.memories.ids(Scope(as_of=STORED)))
        assert (reader.memories.get(hidden), reader.lifecycle.superseding([hidden]), left) == (before, [], 15)
