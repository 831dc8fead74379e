"""Storing and finding tagged memories, with the real model: the examples and rules of the specification."""

from pathlib import Path

import pytest

from engines import column
from paging import pages
from vector_memory.domain import MemoryKind, Page, Scope, SearchMode
from vector_memory.domain.validation import MAX_NOTE
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DuplicateMemoryError, NotFoundError, ValidationError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.memories import TaggedMemories
from vector_memory.tagged.tags import MAX_TAGS_PER_NOTE

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


def test_a_search_makes_no_tag_canonical(store: SessionMemoryStore) -> None:
    store.tagged.store("One.", tags=["laravel"])
    store.tagged.search("one", tags=["symfony", "Laravel Framework"])
    assert store.tags.frequencies().frequencies == {"laravel": 1}


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
