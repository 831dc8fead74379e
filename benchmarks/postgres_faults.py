# ruff: noqa: S311 - what is chosen at random is no secret
"""Random faults over a primary and its synchronous standby, while processes store, search and follow changes.

    nice uv run benchmarks/postgres_faults.py [--minutes 60] [--seed 1]

Servers are killed, frozen, promoted and started again as an earlier primary that accepts changes; each process reaches
each server through a link of its own, directly or through PgBouncer, and links fall silent, poolers and processes are
killed and started again. A writer repeats each store until it is acknowledged. In the end the memory is compared with
what was acknowledged. The exit code is 1 if anything was lost, doubled or mixed up, or an answer was wrong.

What no client can prevent is left to cluster managers, as docs/postgresql.md says, so it does not happen here: no link
is silent while an earlier primary accepts changes.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import NamedTuple

import psycopg

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from clusters import Cluster, make_cluster, scratch_folder
from poolers import PORT, Pooler, running_pooler
from vector_memory.domain import Page, Scope
from vector_memory.errors import DuplicateMemoryError, NotFoundError, VectorMemoryError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

SETTINGS = Settings(embedding_model="toy", log_slow_query_threshold=60)
SESSION = Scope("report", session_id="s")
OPTIONS = {"synchronous_standby_names": "*", "hot_standby": "on"}
IN_SYNC = "select true from pg_stat_replication where sync_state = 'sync' and state = 'streaming'"
SOCKET = ".s.PGSQL.{port}"
PAUSE = 0.03
"""Seconds between two calls of a process."""

# What processes do. Each appends lines to a journal, which is complete up to the last line whenever it is killed.


def write(journal: Path, url: str) -> None:
    """Store one text after the other, and note the id and the text of each as `id text`, and failures as `- why`."""
    number = sum(not line.startswith("-") for line in lines_of(journal))
    with SessionMemoryStore(url, SETTINGS) as store, journal.open("a", buffering=1) as noted:
        while True:
            text = f"{journal.stem} wrote sentence number {journal.stem}n{number}"
            try:
                stored = store.store_memory("report", text, session_id="s", agent_id="a").memory_id
            except DuplicateMemoryError as error:
                stored = error.memory_id
            except VectorMemoryError as error:
                noted.write(f"- {time.time():.1f} {error}\n")
                time.sleep(PAUSE)
                continue
            noted.write(f"{stored} {text}\n")
            number += 1
            time.sleep(PAUSE)


def search(journal: Path, url: str) -> None:
    """Look for what was acknowledged, and note each wrong answer as `wrong ...`, the others as `right`."""
    with SessionMemoryStore(url, SETTINGS, read_only=True) as store, journal.open("a", buffering=1) as noted:
        while True:
            time.sleep(PAUSE)
            known = random.choice([*journal.parent.glob("writer*")] or [journal])
            acknowledged = [line for line in lines_of(known)[-200:] if line[0].isdigit()]
            if not acknowledged:
                continue
            expected, _, text = random.choice(acknowledged).partition(" ")
            try:
                found = [hit.id for hit in store.search_documents(text, SESSION).results]
                content = store.get_memory_by_id(expected).memory.content if found else ""
            except NotFoundError as error:
                content = f"{error}"
            except VectorMemoryError as error:
                noted.write(f"- {time.time():.1f} {error}\n")
                continue
            is_right = int(expected) in found and content == text
            noted.write("right\n" if is_right else f"wrong {time.time():.1f} {expected} {text}: {found} {content}\n")


def follow(journal: Path, url: str) -> None:
    """Ask for changes with a cursor, and note `cursor id id ...`."""
    lines = [line for line in lines_of(journal) if line[0].isdigit()]
    cursor = lines[-1].split()[0] if lines else None
    with SessionMemoryStore(url, SETTINGS, read_only=True) as store, journal.open("a", buffering=1) as noted:
        while True:
            time.sleep(PAUSE)
            try:
                answer = store.search_changes(SESSION, since=cursor, page=Page(limit=100))
            except VectorMemoryError as error:
                noted.write(f"- {time.time():.1f} {error}\n")
                continue
            if answer.results:
                cursor = answer.cursor
                noted.write(" ".join([cursor, *(str(hit.id) for hit in answer.results)]) + "\n")


def lines_of(journal: Path) -> list[str]:
    """Return the complete lines of a journal."""
    text = journal.read_text() if journal.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


class Link:
    """A port of this machine that leads to a socket. While it is silent, it accepts connections and passes nothing."""

    def __init__(self, target: Callable[[], Path]) -> None:
        self.target = target
        self.port = 0
        self.heard = asyncio.Event()

    async def start(self) -> None:
        """Listen."""
        self.heard.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.heard.wait()
        with suppress(OSError):
            beyond, to_beyond = await asyncio.open_unix_connection(str(self.target()))
            await asyncio.gather(self._pass(reader, to_beyond), self._pass(beyond, writer), return_exceptions=True)
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self.heard.wait()
                writer.write(data)
                await writer.drain()
            await self.heard.wait()
        finally:
            writer.close()


class Job(NamedTuple):
    """A process, its links and what starts it again."""

    start: Callable[[], SpawnProcess]
    links: list[Link]


class Trial:
    """A primary and a standby, which exchange their parts, poolers before both, and processes that use them."""

    def __init__(self, stack: ExitStack, journals: Path) -> None:
        self.stack, self.journals = stack, journals
        folders = [stack.enter_context(scratch_folder()) for _ in range(2)]
        self.primary = make_cluster(folders[0], **OPTIONS)
        self.primary.start()
        self.primary.set("synchronous_commit", "local")
        self.primary.create_database("team")
        self.primary.set("synchronous_commit", "on")
        self.standby = Cluster(folders[1], self.primary.programs, self.primary.options)
        self.rebuild()
        self.servers = [self.primary, self.standby]
        self.pooling = [ExitStack(), ExitStack()]
        self.poolers: list[Pooler] = [self.pooler(number) for number in range(2)]
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.whole = threading.Lock()  # held while a link is silent, or an earlier primary accepts changes
        self.running: dict[str, SpawnProcess] = {}
        self.jobs = dict(self._jobs())
        self.happened: Counter[str] = Counter()

    def _jobs(self) -> Iterator[tuple[str, Job]]:
        spawn = get_context("spawn").Process
        for name, work, pooled in (
            ("writer0", write, False), ("writer1", write, False), ("writer2", write, True),
            ("searcher0", search, False), ("searcher1", search, True),
            ("searcher2", search, False), ("follower0", follow, False), ("follower1", follow, False),
        ):  # fmt: skip
            links = [Link(self._target(number, pooled=pooled)) for number in range(2)]
            for link in links:
                asyncio.run_coroutine_threadsafe(link.start(), self.loop).result()
            ports = ",".join(str(link.port) for link in links)
            url = f"postgresql://postgres@/team?host=127.0.0.1,127.0.0.1&port={ports}&target_session_attrs=read-write"
            arguments = (self.journals / name, url)
            yield name, Job(lambda work=work, args=arguments: spawn(target=work, args=args, daemon=True), links)

    def _target(self, number: int, *, pooled: bool) -> Callable[[], Path]:
        if pooled:
            return lambda: self.poolers[number].folder / SOCKET.format(port=PORT)
        return lambda: self.servers[number].folder / SOCKET.format(port=5432)

    def pooler(self, number: int) -> Pooler:
        """Start a pooler before a server, instead of the one there."""
        self.pooling[number].close()
        return self.pooling[number].enter_context(running_pooler(self.servers[number], "transaction", 10))

    def start(self, name: str) -> None:
        """Start a process, instead of the running one."""
        self.stop(name)
        self.running[name] = self.jobs[name].start()
        self.running[name].start()

    def stop(self, name: str) -> None:
        """Kill a process if it runs."""
        if process := self.running.pop(name, None):
            process.kill()
            process.join()

    # Faults of servers

    def kill_primary(self) -> None:
        """Let the primary crash; it recovers, and no other takes over."""
        self.primary.stop(SIGKILL)
        time.sleep(random.uniform(0, 5))
        self.primary.start()

    def freeze_primary(self) -> None:
        """Let the primary stand still."""
        self.primary.pause()
        time.sleep(random.uniform(0.2, 15))
        self.primary.resume()

    def freeze_standby(self) -> None:
        """Let no standby confirm, sometimes for longer than a store waits."""
        self.standby.pause()
        time.sleep(random.uniform(1, 45))
        self.standby.resume()

    def kill_standby(self) -> None:
        """Let the standby crash."""
        self.standby.stop(SIGKILL)
        time.sleep(random.uniform(1, 10))
        self.standby.start()

    def switch_over(self) -> None:
        """Stop the primary, and promote the standby."""
        self.primary.stop(SIGINT)
        self.promote()
        self.rebuild()

    def fail_over(self) -> None:
        """Let the primary crash, and promote the standby; the earlier primary may come back and accept changes."""
        self.primary.stop(SIGKILL)
        time.sleep(random.uniform(0, 5))
        self.promote()
        if random.choice((True, True, False)):
            with self.whole:
                time.sleep(random.uniform(0, 5))
                self.standby.start()
                time.sleep(random.uniform(0, 20))
                self.standby.stop(SIGINT)
        self.rebuild()

    def fail_over_from_frozen(self) -> None:
        """Promote the standby while the primary stands still, and let that one continue as if nothing had happened."""
        with self.whole:
            self.primary.pause()
            time.sleep(random.uniform(3, 10))
            self.promote()
            time.sleep(random.uniform(0, 5))
            self.standby.resume()
            time.sleep(random.uniform(0, 20))
            self.standby.stop(SIGINT)
        self.rebuild()

    def promote(self) -> None:
        """Let the standby take over. The earlier primary is the standby from then on."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self) -> None:
        """Make a new standby of the primary in the folder of the other server, and wait until it confirms."""
        if self.standby.data.exists():
            shutil.rmtree(self.standby.data)
        self.primary.copy(self.standby.folder)
        self.standby.start()
        self.confirm()

    def confirm(self) -> None:
        """Wait until the standby has everything that was acknowledged."""

        def is_in_sync() -> bool:
            with suppress(psycopg.Error), psycopg.connect(self.primary.url(), autocommit=True) as connection:
                return bool(connection.execute(IN_SYNC).fetchall())
            return False

        eventually(is_in_sync)

    # Faults between processes and servers

    def silence(self) -> None:
        """Let one process or several not hear of one server."""
        with self.whole:
            number = random.randrange(2)
            links = [job.links[number] for job in random.sample([*self.jobs.values()], random.choice((1, 2, 8)))]
            for link in links:
                self.loop.call_soon_threadsafe(link.heard.clear)
            time.sleep(random.uniform(0.5, 15))
            for link in links:
                self.loop.call_soon_threadsafe(link.heard.set)

    def restart_pooler(self) -> None:
        """Kill a pooler and start it again."""
        number = random.randrange(2)
        self.poolers[number] = self.pooler(number)

    def restart_process(self) -> None:
        """Kill a process and start it again."""
        self.start(random.choice([*self.jobs]))

    # A trial

    def inject(self, faults: list[Callable[[], None]], until: float, log: Path) -> None:
        """Let one of the faults happen after the other."""
        while time.time() < until:
            time.sleep(random.uniform(0.5, 8))
            fault = random.choice(faults)
            began = time.time()
            fault()
            if fault in self.of_servers:
                self.confirm()
            self.happened[fault.__name__] += 1
            with log.open("a") as noted:
                noted.write(f"{began:.1f} {time.time():.1f} {fault.__name__}\n")

    @property
    def of_servers(self) -> list[Callable[[], None]]:
        """Faults after which the standby has to catch up."""
        return [
            self.kill_primary, self.freeze_primary, self.freeze_standby, self.kill_standby, self.switch_over,
            self.fail_over, self.fail_over_from_frozen,
        ]  # fmt: skip

    def run(self, seconds: float) -> None:
        """Let the processes work and faults happen for so long, and both settle."""
        with SessionMemoryStore(self.primary.url("team"), SETTINGS):
            pass  # creates the tables
        for name in self.jobs:
            self.start(name)
        until, log = time.time() + seconds, self.journals / "faults"
        between = [self.silence, self.restart_pooler, self.restart_process]
        other = threading.Thread(target=self.inject, args=(between, until, log), daemon=True)
        other.start()
        self.inject(self.of_servers, until, log)
        other.join()
        self.settle()

    def settle(self) -> None:
        """Stop the writers once they store again, wait until the followers have seen all that they did, and stop."""
        writers = [name for name in self.jobs if name.startswith("writer")]
        journals = [self.journals / name for name in writers]
        before = [acknowledged(journal)[-1:] for journal in journals]
        eventually(lambda: all(acknowledged(each)[-1:] != last for each, last in zip(journals, before, strict=True)))
        for name in writers:
            self.stop(name)
        newest = max(number for journal in journals for number, _ in acknowledged(journal)[-1:])
        followers = [self.journals / name for name in self.jobs if name.startswith("follower")]
        with suppress(AssertionError):
            eventually(lambda: all(newest in seen(journal) for journal in followers))
        for name in [*self.running]:
            self.stop(name)


def acknowledged(journal: Path) -> list[tuple[int, str]]:
    """Return the ids and texts of acknowledged stores."""
    parts = [line.partition(" ") for line in lines_of(journal) if not line.startswith("-")]
    return [(int(number), text) for number, _, text in parts]


def seen(journal: Path) -> list[int]:
    """Return the ids that a follower got."""
    return [int(word) for line in lines_of(journal) if not line.startswith("-") for word in line.split()[1:]]


def verdict(trial: Trial) -> dict[str, int]:
    """Compare what the memory has with what the processes were told."""
    with psycopg.connect(trial.primary.url("team")) as connection:
        rows = connection.execute("select id, content from memory.session_memories order by id").fetchall()
    there, texts = dict(rows), Counter(text for _, text in rows)
    journals = {name: trial.journals / name for name in trial.jobs}
    told = [each for name, journal in journals.items() if name.startswith("writer") for each in acknowledged(journal)]
    lines = [line for name, journal in journals.items() if name.startswith("searcher") for line in lines_of(journal)]
    follower_ids = [seen(journal) for name, journal in journals.items() if name.startswith("follower")]
    return {
        "acknowledged": len(told),
        "searches": sum(not line.startswith("-") for line in lines),
        "lost": sum(text not in texts for _, text in told),
        "doubled": sum(count > 1 for count in texts.values()) + len(told) - len({number for number, _ in told}),
        "mixed": sum(there.get(number) != text for number, text in told if text in texts),
        "wrong answers": sum(line.startswith("wrong") for line in lines),
        "changes skipped": sum(len({number for number, _ in told} - {*ids}) for ids in follower_ids),
        "changes twice": sum(len(ids) - len({*ids}) for ids in follower_ids),
    }


def main() -> None:
    """Run a trial, and print what happened and what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    journals = Path(tempfile.mkdtemp(prefix="faults"))
    print(f"seed {arguments.seed}, journals in {journals}", flush=True)
    with ExitStack() as stack:
        trial = Trial(stack, journals)
        for pooling in trial.pooling:
            stack.enter_context(pooling)
        try:
            trial.run(arguments.minutes * 60)
            found = verdict(trial)
        finally:
            for server in (trial.primary, trial.standby):
                server.stop(SIGKILL)
    print(", ".join(f"{name} {count}" for name, count in sorted(trial.happened.items())))
    print(", ".join(f"{name} {count:,}" for name, count in found.items()))
    failures = Counter(
        line.split(" ", 2)[2] for journal in journals.iterdir() for line in lines_of(journal) if line.startswith("-")
    )
    for failure, count in failures.most_common():
        print(f"  {count:6} x {failure}")
    sys.exit(any(count for name, count in found.items() if name not in {"acknowledged", "searches"}))


if __name__ == "__main__":
    main()
