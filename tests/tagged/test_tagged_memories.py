"""Tagged memories: the rules of the specification with the real model, limits, damage, copies, and no model."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engines import column, execute
from inside import storage_of
from memory_files import change, create_file
from paging import pages
from vector_memory.domain import ANY, MemoryKind, Page, Scope, SearchMode
from vector_memory.domain.validation import MAX_NOTE
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DuplicateMemoryError, MemoryStorageError, NotFoundError, ValidationError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.memories import TaggedMemories, health_of
from vector_memory.tagged.tags import MAX_TAGS_PER_NOTE
from vector_memory.upkeep.backup import back_up
from vector_memory.writing.deletion import Deletion

QUICK = "UserController@store: N+1 on roles. Fix: ->with('roles'). Pattern: eager load relationships in store methods."


def test_the_specified_quick_example_is_stored_and_found(tagged: TaggedMemories) -> None:
    """Its tag n+1 is against its own rule for tags: it is left out, and the receipt says so."""
    receipt = tagged.store(QUICK, "bug-fix", ["laravel", "eloquent", "n+1"])
    assert (receipt.category, receipt.tags, receipt.rejected_tags) == ("bug-fix", ["laravel", "eloquent"], ["n+1"])
    assert '"n+1"' in str(receipt.message)
    assert QUICK.startswith(str(receipt.content_preview))
    tagged.store("The colours of the new logo were chosen by a vote.", "other", ["branding"])
    found = tagged.search("database query performance issue", 5)
    assert [memory.id for memory in found.results] == [receipt.memory_id, 2]
    assert (found.total, found.count) == (2, 2)


def test_slow_database_finds_a_query_problem_without_a_shared_word(tagged: TaggedMemories) -> None:
    wanted = tagged.store("N+1 query problem: one SQL statement for each row.").memory_id
    tagged.store("The colours of the new logo were chosen by a vote.")
    best = tagged.search("slow database").results[0]
    assert best.id == wanted
    assert best.sources == ["vector"]


def test_the_specified_tags_are_normalized_and_every_variant_finds_them(tagged: TaggedMemories) -> None:
    first = tagged.store("One.", tags=["API v2.0", "api 2", "Laravel Framework"])
    assert first.tags == ["api v2.0", "laravel framework"]
    assert '"api 2" counts as "api v2.0"' in str(first.message)
    assert tagged.store("Two.", tags=["laravel", "api 3"]).tags == ["laravel framework", "api 3"]
    found = tagged.search("anything", tags=["Api 2"])
    assert [memory.id for memory in found.results] == [first.memory_id]
    assert found.total == 1


def test_a_search_makes_no_tag_canonical(store: SessionMemoryStore) -> None:
    store.tagged.store("One.", tags=["laravel"])
    store.tagged.search("one", tags=["symfony", "Laravel Framework"])
    assert store.tags.frequencies().frequencies == {"laravel": 1}


@pytest.mark.parametrize(
    ("tag", "other"),
    [
        ("api v1", "api v2"),
        ("php7", "php8"),
        ("type:bug", "type:refactor"),
        ("type:refactor", "refactor"),
        ("api", "rest api"),
        ("ui", "web ui"),
        ("v1.0", "v2.0"),
    ],
)
def test_the_specified_bad_merges_do_not_happen(tagged: TaggedMemories, tag: str, other: str) -> None:
    assert tagged.store("One.", tags=[tag]).tags == [tag]
    assert tagged.store("Two.", tags=[other]).tags == [other]


def test_the_same_notes_in_the_same_order_give_the_same_vocabulary(tagged: TaggedMemories) -> None:
    tags = ["laravel framework", "Laravel", "database", "databases", "unit tests", "unit testing", "api v2", "API 2.0"]
    receipts = [tagged.store(f"Note {number}.", tags=[tag]) for number, tag in enumerate(tags)]
    assert [receipt.tags[0] for receipt in receipts] == [
        "laravel framework",
        "laravel framework",
        "database",
        "database",
        "unit tests",
        "unit tests",
        "api v2",
        "api v2",
    ]


def test_a_tag_counts_once_for_a_memory_and_never_less(store: SessionMemoryStore) -> None:
    """Deleting does not lower a frequency (seed 004); the tag is then canonical, but in use nowhere."""
    store.tagged.store("One.", tags=["API v2.0", "api 2"])
    receipt = store.tagged.store("Two.", tags=["api v2"])
    assert store.tags.frequencies().frequencies == {"api v2.0": 2}
    store.tagged.delete(receipt.memory_id or 0)
    store.tagged.delete(1)
    assert store.tags.frequencies().frequencies == {"api v2.0": 2}
    assert store.tags.weights().weights == {"api v2.0": 0.9102}
    assert store.tags.canonical().tags[0].tag == "api v2.0"
    assert store.tags.unique().tags == []


def test_the_same_content_is_refused_with_its_id(store: SessionMemoryStore) -> None:
    first = store.tagged.store("The same.", "bug", ["laravel"])
    with pytest.raises(DuplicateMemoryError, match="Memory already exists") as refused:
        store.tagged.store("The same.", "learning", ["Laravel"])
    assert refused.value.memory_id == first.memory_id
    assert store.tags.frequencies().frequencies == {"laravel": 1}
    assert store.tagged.stats().total_memories == 1


def test_the_same_content_gets_the_tags_that_it_lacks(store: SessionMemoryStore) -> None:
    """As many as a note may have; its id, category and time stay."""
    first = store.tagged.store("The same.", "bug", ["laravel"])
    again = store.tagged.store("The same.", tags=["symfony", "laravel", "?"])
    assert (again.memory_id, again.category, again.created_at) == (first.memory_id, "bug-fix", first.created_at)
    assert (again.tags, again.rejected_tags) == (["laravel", "symfony"], ["?"])
    assert "Memory 1 has this content already. Added tags: symfony." in (again.message or "")
    assert [found.id for found in store.tagged.search("same", tags=["symfony"]).results] == [1]
    assert store.tags.frequencies().frequencies == {"laravel": 1, "symfony": 1}
    many = [f"{letter * 9}" for letter in "abcdefghijk"]
    full = store.tagged.store("The same.", tags=many[:MAX_TAGS_PER_NOTE])
    assert len(full.tags) == MAX_TAGS_PER_NOTE
    assert full.rejected_tags == many[MAX_TAGS_PER_NOTE - 2 : MAX_TAGS_PER_NOTE]
    assert store.tagged.stats().total_memories == 1


def test_a_content_of_10_000_characters_is_found_by_its_last_sentence_and_one_more_is_refused(
    tmp_path: Path, model: EmbeddingModel
) -> None:
    """By its meaning alone; the other note is the same text without that sentence."""
    last = "A broken cooling fan in the second rack caused the outage."
    text = ("The proxy forwards each request to the region that answered fastest. " * 200)[: MAX_NOTE - len(last)]
    with SessionMemoryStore(tmp_path / "long.db", Settings(search_mode=SearchMode.VECTOR), model=model) as store:
        store.tagged.store(text)
        receipt = store.tagged.store(text + last)
        found = store.tagged.search("the outage had a hardware cause: a ventilator").results
        with pytest.raises(ValidationError, match="10,001 characters long: send at most 10,000"):
            store.tagged.store(text + last + ".")
    assert [memory.id for memory in found] == [receipt.memory_id, 1]
    assert found[0].content == text + last


@pytest.mark.parametrize("query", ["#42", "task #42", "Task #42, memory #99", "which importer was it in task #42?"])
def test_references_to_tasks_are_found_literally(tagged: TaggedMemories, query: str) -> None:
    tagged.store("Discovered during task #43: the importer drops the first line.")
    tagged.store("Version 42 of the importer drops lines that begin with a space. Task done.")
    tagged.store("The task of the memory manager is to give memory back.")
    wanted = tagged.store("Discovered during task #42: the importer drops the last line.")
    best = tagged.search(query).results[0]
    assert best.id == wanted.memory_id
    assert "keyword" in best.sources


def test_a_number_does_not_find_similar_numbers(tagged: TaggedMemories) -> None:
    tagged.store("Discovered during task #42: the importer drops the last line.")
    assert tagged.search("#43").results == []


def test_a_search_can_be_narrowed_to_a_category_and_to_any_of_some_tags(tagged: TaggedMemories) -> None:
    ids = [
        tagged.store("Cache of the start page.", "performance", ["redis", "caching"]).memory_id,
        tagged.store("Cache of the reports.", "performance", ["laravel"]).memory_id,
        tagged.store("Cache of the basket.", "bug-fix", ["redis"]).memory_id,
        tagged.store("Cache of the pictures.", "performance", ["cdn"]).memory_id,
    ]
    found = tagged.search("cache performance", category="performance", tags=["redis", "laravel"])
    assert {memory.id for memory in found.results} == {ids[0], ids[1]}
    assert found.total == 2
    assert {memory.id for memory in tagged.search("cache", category="bug").results} == {ids[2]}


def test_a_filter_that_nothing_can_pass_finds_nothing(tagged: TaggedMemories) -> None:
    """Tags that cannot be tags do not widen the search to everything."""
    tagged.store("One.", tags=["laravel"])
    for tags in (["n+1"], ["x" * 200], ["symfony"]):
        found = tagged.search("one", tags=tags)
        assert (found.results, found.total) == ([], 0)
    assert tagged.search("one", tags=["n+1", "laravel"]).count == 1


def test_pages_of_a_search_have_no_gaps_and_the_total(tagged: TaggedMemories) -> None:
    ids = {tagged.store(f"Note {number} about caching.").memory_id for number in range(7)}
    seen = []
    for page in pages(lambda offset: tagged.search("caching", 3, offset=offset)):
        assert page.total == 7
        seen += [memory.id for memory in page.results]
    assert len(seen) == 7
    assert set(seen) == ids


@pytest.mark.parametrize("limit", [0, 51])
def test_a_limit_is_from_1_to_50(tagged: TaggedMemories, limit: int) -> None:
    for ask in (lambda: tagged.search("anything", limit), lambda: tagged.list_recent(limit)):
        with pytest.raises(ValidationError, match="from 1 to 50"):
            ask()


def test_distance_is_one_minus_the_similarity(tagged: TaggedMemories) -> None:
    tagged.store("The cache of the start page.")
    (found,) = tagged.search("start page cache").results
    assert found.similarity is not None
    assert found.distance == 1 - found.similarity


def test_an_unknown_category_is_stored_as_other_and_found_there_and_the_answers_say_so(tagged: TaggedMemories) -> None:
    receipt = tagged.store("Soup.", "cooking")
    assert receipt.category == "other"
    assert "Stored as other" in str(receipt.message)
    tagged.store("Soup of bytes.", "bug-fix")
    found = tagged.search("soup", category="cooking")
    assert [note.id for note in found.results] == [receipt.memory_id]
    assert "Searched in other: the category sent is not close to any of code-solution" in str(found.message)
    assert tagged.store("Salad.").category == "other"


@pytest.mark.parametrize("tags", ["laravel", {"laravel": 1}, [1], [["laravel"]]])
def test_tags_must_be_a_list(tagged: TaggedMemories, tags: list[str]) -> None:
    with pytest.raises(ValidationError, match="tags must be a list"):
        tagged.store("One.", tags=tags)


def test_more_than_ten_tags_are_refused_and_not_cut(tagged: TaggedMemories) -> None:
    names = ["redis", "kafka", "docker", "css", "soap", "ldap", "smtp", "grpc", "lua", "perl", "cobol"]
    with pytest.raises(ValidationError, match="11 entries: send at most 10"):
        tagged.store("One.", tags=names)
    assert len(tagged.store("One.", tags=names[:10]).tags) == 10


def test_only_reading_by_id_counts_as_use(store: SessionMemoryStore, tmp_path: Path) -> None:
    store.tagged.store("One.")
    store.tagged.search("one")
    store.tagged.list_recent()
    assert store.tagged.get(1).memory is not None
    store.close()  # what was read is counted by then
    with SessionMemoryStore(tmp_path / "memory.db") as opened:
        assert column(opened, "select access_count from session_memories") == [1]


def test_the_newest_are_listed_first(tagged: TaggedMemories) -> None:
    for number in range(4):
        tagged.store(f"Note {number}.")
    page = tagged.list_recent(3)
    assert [memory.content for memory in page.results] == ["Note 3.", "Note 2.", "Note 1."]
    assert (page.count, page.total, page.next_offset) == (3, 4, 3)
    assert [memory.content for memory in tagged.list_recent(3, 3).results] == ["Note 0."]


def test_notes_of_a_time_are_searched_and_listed(tagged: TaggedMemories) -> None:
    """What is counted is what is in the time."""
    today = tagged.store("A note about caching.").created_at[:10]
    for listed in (tagged.list_recent(created_after=today), tagged.search("caching", created_before=today)):
        assert (listed.count, listed.total) == (1, 1)
    for listed in (tagged.list_recent(created_before="2020"), tagged.search("caching", created_before="2020")):
        assert (listed.count, listed.total) == (0, 0)


def test_memories_of_other_kinds_are_not_found_by_their_ids(store: SessionMemoryStore) -> None:
    report = store.store_memory("report", "A report.", session_id="s").memory_id or 0
    for act in (store.tagged.get, store.tagged.delete, store.tagged.describe):
        for memory_id in (report, 99):
            with pytest.raises(NotFoundError, match="Memory not found"):
                act(memory_id)
    assert store.get_memory_by_id(report).memory is not None


def test_the_session_family_does_not_see_tagged_memories(store: SessionMemoryStore) -> None:
    """No session lists or counts them, no search of another kind finds them, no clean-up of sessions deletes them."""
    store.tagged.store("A note about caching.", "performance", ["redis"])
    store.store_memory("knowledge_base", "Knowledge about caching.", agent_id="a", title="T", category="performance")
    assert store.list_sessions().total_sessions == 0
    knowledge = store.search_chunks("note about caching", Scope(MemoryKind.KNOWLEDGE_BASE), Page(limit=10))
    assert [chunk.memory_id for chunk in knowledge.results] == [2]
    assert store.cleanup_old_memories(0, dry_run=True).memories_deleted == 1
    assert store.cleanup_old_memories(0, dry_run=False).memories_deleted == 1
    assert store.tagged.stats().total_memories == 1


def test_a_tagged_memory_cannot_be_stored_past_its_rules(store: SessionMemoryStore) -> None:
    with pytest.raises(ValidationError, match="Store tagged memories with store_memory"):
        store.store_memory("tagged_memory", "A note.", tags=["Not Canonical"])


def test_a_search_without_a_close_match_says_where_there_is_one(store: SessionMemoryStore) -> None:
    """Under other categories and tags; not in the knowledge base, for which this family has no tool."""
    store.store_memory("knowledge_base", "The cache of the start page.", agent_id="a", title="T")
    store.tagged.store("The cache of the start page.", "performance", ["redis"])
    store.tagged.store("Soup is cooked for an hour.", "other", ["kitchen"])
    found = store.tagged.search("cache of the start page", tags=["kitchen"])
    assert found.confidence == "related"
    assert found.elsewhere == {"other_categories": 1}
    assert store.tagged.search("quantum chromodynamics").elsewhere == {}
    assert store.tagged.search("cache of the start page").confidence == "strong"


def fill(store: SessionMemoryStore, ages: Sequence[int], uses: Sequence[int]) -> None:
    """Store a note for each age in days, used a given number of times: ids from 1 on."""
    for number, (age, used) in enumerate(zip(ages, uses, strict=True), start=1):
        store.tagged.store(f"Note {number}.")
        stored_at = (datetime.now(UTC) - timedelta(days=age)).isoformat(timespec="microseconds")
        sql = "update session_memories set created_at = ?, access_count = ? where id = ?"
        execute(store, sql, stored_at, used, number)


def supersede(store: SessionMemoryStore, newer: int, older: int) -> None:
    with storage_of(store).write() as writer:
        writer.supersede(newer, [older])


def stored(store: SessionMemoryStore) -> set[int]:
    """Return all ids, also of what is superseded."""
    with storage_of(store).read() as reader:
        return set(reader.memories.ids(Scope(as_of=ANY)))


def kept(store: SessionMemoryStore) -> set[int]:
    return {memory.id for memory in store.tagged.list_recent(50).results}


@pytest.mark.sqlite("compares with the size of the file")
def test_statistics_say_how_much_there_is_and_how_much_room_is_left(
    toy_store: SessionMemoryStore, tmp_path: Path
) -> None:
    fill(toy_store, [0, 3, 6, 8], [0, 0, 0, 0])
    toy_store.tagged.store("A bug.", "bug")
    stats = toy_store.tagged.stats()
    assert (stats.total_memories, stats.memory_limit, stats.usage_percentage) == (5, 20, 25.0)
    assert stats.categories == {"bug-fix": 1, "other": 4}
    assert stats.recent_week_count == 4
    assert stats.health_status == "healthy"
    toy_store.close()  # which writes its log into the file
    assert stats.database_size_mb == pytest.approx((tmp_path / "toy.db").stat().st_size / 1e6, abs=0.01)


@pytest.mark.parametrize(
    ("usage", "unindexed", "health"),
    [(0, 0, "healthy"), (79.9, 0, "healthy"), (80, 0, "warning"), (10, 1, "warning"), (95, 0, "critical")],
)
def test_health_worsens_as_the_memory_fills(usage: float, unindexed: int, health: str) -> None:
    assert health_of(usage, unindexed) == health


def test_a_full_memory_refuses_notes_with_advice_until_there_is_room(toy_store: SessionMemoryStore) -> None:
    fill(toy_store, [40] * 20, [0] * 20)
    with pytest.raises(MemoryStorageError, match=r"^Memory limit reached.* clear_old_memories"):
        toy_store.tagged.store("One more.", tags=["new tag"])
    assert toy_store.tags.canonical().tags == []
    toy_store.store_memory("report", "Reports have a life of their own.", session_id="s")
    assert toy_store.tagged.clear(30, 19).deleted_count == 1
    toy_store.tagged.store("One more.", tags=["new tag"])


def test_the_default_and_the_maximum_limit_are_as_specified() -> None:
    assert Settings().memory_limit == 10_000
    assert Settings(memory_limit=10_000_000).memory_limit == 10_000_000
    with pytest.raises(ValueError, match="memory_limit"):
        Settings(memory_limit=10_000_001)


SEVEN = ([90, 80, 70, 60, 50, 5, 1], [9, 0, 3, 0, 0, 0, 0])
CLEAN_UPS: dict[str, tuple[tuple[list[int], list[int]], dict[str, int], int, set[int], str]] = {
    "what is old and was read least": (SEVEN, {"days_old": 30, "max_to_keep": 5}, 2, {1, 3, 5, 6, 7}, ""),
    "more of it": (SEVEN, {"days_old": 30, "max_to_keep": 3}, 4, {1, 6, 7}, ""),
    "nothing newer": (
        ([31, 29, 2], [5, 0, 0]),
        {"days_old": 30, "max_to_keep": 0},
        1,
        {2, 3},
        "newer than days_old (30)",
    ),
    "nothing of a thousand": (([400, 300], [0, 0]), {}, 0, {1, 2}, "max_to_keep"),
    "nothing in a dry run": (([40, 40], [0, 0]), {"days_old": 30, "max_to_keep": 1, "dry_run": True}, 1, {1, 2}, ""),
}
"""The ages and reads of notes, what is asked for, how many are deleted, which stay, and what is said."""


@pytest.mark.parametrize(("notes", "asked", "deleted", "left", "said"), CLEAN_UPS.values(), ids=CLEAN_UPS)
def test_a_clean_up_deletes(
    toy_store: SessionMemoryStore, notes: tuple[list[int], list[int]], asked: dict[str, int], deleted: int,
    left: set[int], said: str,
) -> None:  # fmt: skip
    fill(toy_store, *notes)
    answer = toy_store.tagged.clear(**asked)
    assert answer.deleted_count == deleted
    assert kept(toy_store) == left
    assert asked.get("dry_run") or answer.remaining_count == len(left)
    assert said in str(answer.message)


@pytest.mark.parametrize(("keep", "left"), [(3, {2, 3, 4}), (2, {3, 4}), (1, {4}), (0, set())])
def test_a_clean_up_deletes_what_a_note_supersedes_before_it(
    toy_store: SessionMemoryStore, keep: int, left: set[int]
) -> None:
    fill(toy_store, ages=[90, 90, 90, 90], uses=[9, 9, 0, 1])
    supersede(toy_store, 3, 2)
    supersede(toy_store, 2, 1)
    toy_store.tagged.clear(days_old=30, max_to_keep=keep)
    assert stored(toy_store) == left


def test_a_clean_up_leaves_a_note_that_supersedes_one_that_stays(toy_store: SessionMemoryStore) -> None:
    fill(toy_store, ages=[1, 90, 90], uses=[0, 0, 9])
    supersede(toy_store, 2, 1)
    answer = toy_store.tagged.clear(days_old=30, max_to_keep=0)
    assert stored(toy_store) == {1, 2}
    assert "or supersede what stays" in str(answer.message)


def test_a_clean_up_counts_the_remaining_notes_although_another_process_deletes_some(
    toy_store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(toy_store, ages=[90, 80, 70], uses=[0, 0, 0])
    delete_each = Deletion.delete_each

    def late(deletion: Deletion, memory_ids: Sequence[int], by: str | None) -> tuple[int, int]:
        monkeypatch.undo()
        with SessionMemoryStore(tmp_path / "toy.db", embedder=ToyEngine()) as other:
            other.tagged.clear(days_old=30, max_to_keep=1)
        return delete_each(deletion, memory_ids, by=by)

    monkeypatch.setattr(Deletion, "delete_each", late)
    answer = toy_store.tagged.clear(days_old=30, max_to_keep=1)
    assert (answer.deleted_count, answer.remaining_count) == (0, 1)


@pytest.mark.parametrize(("days_old", "max_to_keep"), [(-1, 1), (1, -1), (10**6, 1), (1, 10**8)])
def test_a_clean_up_refuses_invalid_arguments(toy_store: SessionMemoryStore, days_old: int, max_to_keep: int) -> None:
    with pytest.raises(ValidationError, match="integer from 0"):
        toy_store.tagged.clear(days_old, max_to_keep)


@pytest.mark.sqlite("PostgreSQL erases with VACUUM")
def test_deleted_text_is_erased_from_the_file_but_its_tags_are_not(
    toy_store: SessionMemoryStore, tmp_path: Path
) -> None:
    """A canonical tag is vocabulary and outlives its notes (docs/tagged.md)."""
    toy_store.tagged.store("The xylophone is in the attic.", tags=["instruments"])
    toy_store.tagged.delete(1)
    toy_store.close()
    data = (tmp_path / "toy.db").read_bytes()
    assert b"xylophone" not in data
    assert b"instruments" in data


def test_lists_of_tags_continue_from_an_offset_when_they_do_not_fit(tmp_path: Path) -> None:
    settings = Settings(max_response_tokens=500)
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine()) as store:
        for number in range(60):
            store.tagged.store(f"Note {number}.", tags=[f"subject number {number}"])
        for tool, name in (
            ("unique", "tags"),
            ("canonical", "tags"),
            ("frequencies", "frequencies"),
            ("weights", "weights"),
        ):
            seen: list[object] = []
            for answer in pages(getattr(store.tags, tool)):
                assert len(answer.model_dump_json()) < 500 * 3 + 200
                seen += list(getattr(answer, name))
            assert len(seen) == answer.total == 60


@pytest.mark.sqlite("fills the file")
def test_tags_beyond_the_ten_thousandth_can_be_read(toy_store: SessionMemoryStore, tmp_path: Path) -> None:
    create_file(tmp_path / "toy.db", 384)
    change(
        tmp_path / "toy.db",
        """
        with recursive counted(n) as (select 1 union all select n + 1 from counted where n < 10010)
        insert into canonical_tags (tag, frequency, created_at)
            select printf('subject %05d', n), 1, '2026-01-01' from counted
        """,
    )
    answer = toy_store.tags.canonical(10_005)
    assert [entry.tag for entry in answer.tags] == [f"subject {number:05}" for number in range(10_006, 10_011)]
    assert answer.next_offset is None


def test_content_that_does_not_fit_can_be_continued_by_offset(tmp_path: Path) -> None:
    settings = Settings(max_response_tokens=500)
    text = " ".join(f"word{number}" for number in range(900))
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine()) as store:
        store.tagged.store(text)
        parts, offset = [], 0
        while True:
            answer = store.tagged.get(1, offset)
            parts.append(answer.memory.content)
            if answer.memory.content_end is None:
                break
            assert f"get_by_memory_id and offset={answer.memory.content_end}" in str(answer.message)
            offset = answer.memory.content_end
        assert "get_by_memory_id" in str(store.tagged.search("word1").message)
    assert len(parts) > 1
    assert "".join(parts) == text


@pytest.mark.sqlite("only files have backups of our own")
def test_a_backup_contains_tagged_memories_and_their_vocabulary(toy_store: SessionMemoryStore, tmp_path: Path) -> None:
    toy_store.tagged.store("One.", "bug", ["laravel"])
    back_up(tmp_path / "toy.db", tmp_path / "copy.db")
    with SessionMemoryStore(tmp_path / "copy.db", embedder=ToyEngine()) as copy:
        assert copy.tagged.search("one", tags=["laravel"], category="bug").count == 1
        assert copy.tags.frequencies().frequencies == {"laravel": 1}


def without_vectors(store: SessionMemoryStore) -> list[str]:
    return column(store, "select tag from canonical_tags where embedding is null order by id")


def test_notes_are_stored_and_found_by_their_words(modelless_store: SessionMemoryStore) -> None:
    receipt = modelless_store.tagged.store("The cache of the start page.", "perf", ["redis"])
    assert receipt.category == "performance"
    assert "Not yet searchable by meaning" in str(receipt.message)
    (found,) = modelless_store.tagged.search("start page").results
    assert (found.id, found.similarity, found.distance, found.sources) == (1, None, None, ["keyword"])
    stats = modelless_store.tagged.stats()
    assert stats.health_status == "warning"
    assert "backfill" in str(stats.message)


def test_tags_are_compared_by_their_letters(modelless_store: SessionMemoryStore) -> None:
    tags = ["laravel framework", "Laravel", "front end", "frontend", "Rate-Limiting", "rate_limiting"]
    receipt = modelless_store.tagged.store("One.", tags=tags)
    assert receipt.tags == ["laravel framework", "laravel", "front end", "rate-limiting"]
    assert modelless_store.tagged.search("one", tags=["FrontEnd"]).count == 1


def test_a_longer_word_for_a_category_counts_as_other_and_the_answers_say_why(
    modelless_store: SessionMemoryStore,
) -> None:
    receipt = modelless_store.tagged.store("One.", "optimization")
    assert receipt.category == "other"
    assert "Stored as other: without a model" in str(receipt.message)
    found = modelless_store.tagged.search("one", category="optimization")
    assert found.count == 1
    assert "Searched in other: without a model" in str(found.message)


def test_tags_get_their_vectors_before_the_next_ones_are_compared_with_them(
    modelless_store: SessionMemoryStore, store: SessionMemoryStore
) -> None:
    """What became canonical without a model is compared like any other as soon as there is one."""
    modelless_store.tagged.store("One.", tags=["laravel framework", "docker"])
    assert without_vectors(store) == ["laravel framework", "docker"]
    assert store.tagged.search("one", tags=["laravel"]).total == 0
    assert store.tagged.store("Two.", tags=["laravel"]).tags == ["laravel framework"]
    assert without_vectors(store) == []
    assert store.tagged.search("one", tags=["laravel"]).total == 2


def test_the_backfill_also_computes_the_vectors_of_tags(
    modelless_store: SessionMemoryStore, store: SessionMemoryStore
) -> None:
    modelless_store.tagged.store("One.", tags=["laravel framework", "docker"])
    store.backfill_embeddings()
    assert without_vectors(store) == []
    assert store.tagged.search("one", tags=["laravel"]).count == 1


def test_with_another_model_tags_are_compared_by_letters_until_reembed_recomputes_them(
    tmp_path: Path, model: EmbeddingModel
) -> None:
    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, embedder=ToyEngine()) as store:
        store.tagged.store("One.", tags=["laravel framework", "docker"])
        before = column(store, "select embedding from canonical_tags order by id")
    with SessionMemoryStore(path, model=model) as store:
        assert store.tagged.store("Two.", tags=["laravel"]).tags == ["laravel"]
        assert without_vectors(store) == ["laravel"]
        store.reembed()
        assert without_vectors(store) == []
        after = column(store, "select embedding from canonical_tags order by id limit 2")
        assert {len(vector) for vector in (*before, *after)} == {384 * 4}
        assert column(store, "select model from embedding_models") == [model.fingerprint.model]
        assert before[0] != after[0]
        assert before[1] != after[1]
        assert store.tagged.store("Three.", tags=["docker container"]).tags != []
        assert store.tagged.store("Four.", tags=["Laravel Framework"]).tags == ["laravel framework"]
        assert store.tagged.search("one", tags=["laravel-framework"]).total == 2
