"""How long writers wait while a namespace moves to another PostgreSQL database, and whether anything is lost.

    uv run benchmarks/postgres_moving.py URL OTHER_URL --memories 10000

Needs two databases with pgvector; creates the namespace `web` in the first if it is not there, adds memories until it
has as many as are wanted, and moves it to the second. Meanwhile
one process stores texts, one tags, amends, pins and supersedes what that one has stored, and one deletes. All go on in
the second database when they are told that the memory was moved.
"""

import argparse
import itertools
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

import numpy as np

from vector_memory.domain import Chunk, Fingerprint, MemoryKind, NewMemory
from vector_memory.errors import DatabaseError, DuplicateMemoryError
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.storage.opening import open_storage, prepare_database
from vector_memory.storage.postings import indexed
from vector_memory.storage.records import Derived, Embedded, EmbeddedPassage, History
from vector_memory.storage.unit_text import searchable_texts
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.moving import move
from vector_memory.tenancy.registry import DatabaseRegistry

SETTINGS = Settings(embedding_model="toy")
NAMESPACE = "web"
MOVED = "was moved to another database"
WORDS, PARTS, BATCH = 20_000, 2, 100
SUPERSEDING = 5
"""One in so many memories supersedes the one before it."""
AT = "2026-01-01T00:00:00.000000+00:00"
LEAD, REST = 2.0, 3.0
"""For so long the others work before the move, and after it."""


class Done(NamedTuple):
    """A change that was acknowledged: what was done to which memory, when the call began and when it ended."""

    what: str
    memory_id: int
    began: float
    ended: float
    text: str = ""


def text_of(numbers: random.Random, words: int = 120) -> str:
    """Return a text of random words, the frequent ones more often."""
    return " ".join(f"w{int(WORDS ** numbers.random())}" for _ in range(words))


def fill(url: DatabaseUrl, count: int) -> None:
    """Store memories with two chunks each, many in a transaction, until there are so many."""
    with closing(open_storage(url, dimensions=SETTINGS.embedding_dim)) as storage:
        with storage.read() as reader:
            fingerprint, there = reader.fingerprint(), reader.count_all()
        assert fingerprint is not None
        numbers, vectors = random.Random(there), np.random.default_rng(there)  # noqa: S311 - repeatable
        for first in range(there, count, BATCH):
            made = [memory_of(f"{number} {text_of(numbers)}", vectors, fingerprint)
                    for number in range(first, min(first + BATCH, count))]  # fmt: skip
            with storage.write() as writer:
                for number, (new, derived) in enumerate(made, first):
                    history = History(AT, AT, AT, is_dated=False)
                    memory_id = writer.add_memory(new, derived, content_hash=f"{number:064}", history=history)
                    if number % SUPERSEDING == 1:
                        writer.supersede(memory_id, [memory_id - 1])


def memory_of(text: str, vectors: np.random.Generator, fingerprint: Fingerprint) -> tuple[NewMemory, Derived]:
    """Return a memory, and what is derived from it."""
    middle = len(text) // PARTS
    spans = [(0, middle), (middle, len(text))]
    common = {"kind": "text", "token_count": 60, "headings": (), "level": 0}
    flags = dict.fromkeys(("contains_code", "contains_table", "oversized"), False)
    chunks = [Chunk(index=index, text=text[slice(*span)], start=span[0], end=span[1], **common, **flags)  # type: ignore[arg-type]
              for index, span in enumerate(spans)]  # fmt: skip
    numbers = vectors.standard_normal((PARTS, fingerprint.dimensions)).astype(np.float32)
    numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
    passages = [EmbeddedPassage(index, *span) for index, span in enumerate(spans)]
    words = indexed(searchable_texts(None, text, chunks, chunked=True))
    new = NewMemory(kind=MemoryKind.REPORT, content=text, agent_id="a", session_id="old")
    return new, Derived(chunks=chunks, words=words, embedded=Embedded(passages, numbers, fingerprint, [None] * PARTS))


def keep_changing(urls: Sequence[str], change: Callable[[SessionMemoryStore], Done], stop: Event) -> list[Done]:
    """Change the memory again and again, in the second database once it was moved there; return what was done."""
    done, places = list[Done](), iter(urls)
    while not stop.is_set():
        url = next(places)
        with SessionMemoryStore(DatabaseUrl.parse(url).of_namespace(NAMESPACE), SETTINGS) as store:
            while not stop.is_set():
                began = time.time()
                try:
                    done.append(change(store)._replace(began=began, ended=time.time()))
                except DatabaseError as error:
                    done.append(Done("refused", 0, began, time.time(), f"{error}"))
                    if MOVED in f"{error}":
                        break
    return done


def write(urls: Sequence[str], stop: Event, known: Any, answers: Any) -> None:
    """Store texts."""
    numbers = random.Random(2)  # noqa: S311
    waiting = iter(f"stored {number} {text_of(numbers)}" for number in itertools.count())
    repeated = list[str]()

    def change(store: SessionMemoryStore) -> Done:
        text = repeated.pop() if repeated else next(waiting)
        repeated.append(text)
        try:
            stored = store.store_memory("report", text, session_id="s", agent_id="a").memory_id or 0
        except DuplicateMemoryError as error:
            stored = error.memory_id or 0
        repeated.clear()
        known.append(stored)
        return Done("store", stored, 0, 0, text)

    answers.put(keep_changing(urls, change, stop))


def edit(urls: Sequence[str], stop: Event, known: Any, answers: Any) -> None:
    """Tag, amend, pin and supersede memories whose ids are not multiples of three."""
    numbers = random.Random(3)  # noqa: S311
    turns = itertools.count()

    def change(store: SessionMemoryStore) -> Done:
        mine = [each for each in known[:] if each % 3]
        if len(mine) < 2:  # noqa: PLR2004 - one that supersedes the other
            time.sleep(0.05)
            return Done("wait", 0, 0, 0)
        older, newer = sorted(numbers.sample(mine, 2))
        turn = next(turns)
        if turn % 3 == 0:
            store.amend_memory(newer, title=f"title {turn}", tags=[f"tag{turn}"])
            return Done("title", newer, 0, 0, f"title {turn}")
        if turn % 3 == 1:
            store.pin(newer)
            return Done("pin", newer, 0, 0)
        store.supersede(newer, older)
        return Done("supersede", newer, 0, 0, f"{older}")

    answers.put(keep_changing(urls, change, stop))


def delete(urls: Sequence[str], stop: Event, known: Any, answers: Any) -> None:
    """Delete memories whose ids are multiples of three, a few each second."""
    gone = set[int]()

    def change(store: SessionMemoryStore) -> Done:
        time.sleep(0.05)
        mine = [each for each in known[:] if not each % 3 and each not in gone]
        if not mine:
            return Done("wait", 0, 0, 0)
        if store.delete_memory(mine[0]).success is False:
            return Done("wait", 0, 0, 0)
        gone.add(mine[0])
        return Done("delete", mine[0], 0, 0)

    answers.put(keep_changing(urls, change, stop))


def wrong_in(url: DatabaseUrl, done: Sequence[Done]) -> dict[str, int]:
    """Return how many changes that were acknowledged are not there, and how many texts are there twice."""
    last = {name: {each.memory_id: each.text for each in done if each.what == name} for name in ("title", "pin")}
    gone = {each.memory_id for each in done if each.what == "delete"}
    stored = {each.memory_id: each.text for each in done if each.what == "store" and each.memory_id not in gone}
    dimensions = SETTINGS.embedding_dim
    with closing(open_storage(url, dimensions=dimensions, read_only=True)) as storage, storage.read() as reader:
        there = reader.memories(list(stored))
        links = {(each.older_id, each.newer_id) for each in reader.upkeep.portions.lifetimes().links}
        texts = [each.memory.content for each in reader.upkeep.portions.memories(0, 1 << 30)]
        back = len(reader.memories(list(gone)))
    return {
        "lost": sum(number not in there or there[number].content != text for number, text in stored.items()),
        "doubled": len(texts) - len(set(texts)),
        "deleted but there": back,
        "titles lost": sum(there[number].title != text for number, text in last["title"].items()),
        "pins lost": sum(not there[number].pinned for number in last["pin"]),
        "links lost": sum((int(each.text), each.memory_id) not in links for each in done if each.what == "supersede"),
    }


def report(done: Sequence[Done], began: float, ended: float) -> None:
    """Print how long stores took, and for how long none was acknowledged."""
    stores = sorted(each.ended for each in done if each.what == "store")
    refused = [each for each in done if each.what == "refused" and MOVED in each.text]
    others = [each for each in done if each.what == "refused" and MOVED not in each.text]
    gaps = [later - earlier for earlier, later in itertools.pairwise(stores)]
    print(f"move: {ended - began:.1f} s; stores acknowledged meanwhile: {sum(began < each < ended for each in stores)}")
    print(f"longest time between two acknowledged stores: {max(gaps):.2f} s; "
          f"longest call that was then refused: {max((each.ended - each.began for each in refused), default=0):.2f} s; "
          f"refused for other reasons: {len(others)}", flush=True)  # fmt: skip


def main() -> None:
    """Fill the namespace, and move it while others use it."""
    parser = argparse.ArgumentParser(description="Move a namespace that others use.")
    parser.add_argument("url")
    parser.add_argument("other")
    parser.add_argument("--memories", type=int, default=10_000)
    arguments = parser.parse_args()
    urls = (arguments.url, arguments.other)
    for url in urls:
        prepare_database(DatabaseUrl.parse(url), dimensions=SETTINGS.embedding_dim)
    source, target = (DatabaseRegistry(DatabaseUrl.parse(url)) for url in urls)
    with closing(source), closing(target):
        began = time.time()
        if NAMESPACE not in source.names():
            source.create(NAMESPACE)
        with SessionMemoryStore(source.address(NAMESPACE), SETTINGS) as store:
            store.store_memory("report", f"begun at {began}", session_id="s", agent_id="a")
        fill(source.address(NAMESPACE), arguments.memories)
        spawning = multiprocessing.get_context("spawn")
        with spawning.Manager() as manager:
            stop, answers, known = spawning.Event(), manager.Queue(), manager.list()
            work = [spawning.Process(target=each, args=(urls, stop, known, answers)) for each in (write, edit, delete)]
            for process in work:
                process.start()
            time.sleep(LEAD)
            began = time.time()
            try:
                moved = move(source, target, NAMESPACE, lambda *_: None)
            except DatabaseError as error:
                moved = None
                print(f"not moved: {error}")
            ended = time.time()
            time.sleep(REST)
            stop.set()
            done = [each for _ in work for each in answers.get()]
            for process in work:
                process.join()
        print(f"{arguments.memories} memories: {moved}")
        report(done, began, ended)
        print(wrong_in((source if moved is None else target).address(NAMESPACE), done))


if __name__ == "__main__":
    main()
