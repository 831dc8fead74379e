"""The files that are searched: how they come to be, and which scopes they hold."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np
import sqlite_vec
from client import ROOT
from numpy.typing import NDArray
from texts import SENTENCE

from vector_memory.domain import Scope

SMALL_SESSION, LARGE_SESSION = 2_500, 50_000
SHARES = (0.5, 0.1, 0.01, 0.001)


class Part(NamedTuple):
    """A part of a file that is searched, and how many passages are in it."""

    scope: Scope
    passages: int


def make(path: Path, passages: int, documents: Path, cache: Path, checkout: Path = ROOT) -> None:
    """Create a file with this many passages of the documents in a folder; `cache`: a folder for their vectors."""
    sessions = [str(size) for size in (SMALL_SESSION, LARGE_SESSION) if size * 2 <= passages] or [str(passages)]
    options = ["--passages", str(passages), "--cache", str(cache), "--sessions", *sessions]
    command = [sys.executable, str(checkout / "benchmarks" / "scale.py"), str(path), str(documents), *options]
    subprocess.run(command, check=True, capture_output=True, env=environment(checkout))


def environment(checkout: Path) -> dict[str, str]:
    """Return variables with which a process uses the package of a checkout, and one thread for a product."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "OPENBLAS_NUM_THREADS": "1"}


def file_for(checkout: Path, passages: int, place: Path, documents: Path) -> Path:
    """Return a file with this many passages that the package of a checkout opens; it is made if there is none."""
    for path in (place / f"{passages}.db", place / f"{passages}-{checkout.name}.db"):
        if not path.exists():
            make(path, passages, documents, place / "documents", checkout)
        opens = "import sys; from vector_memory.store import SessionMemoryStore as S; S(sys.argv[1]).count_memories()"
        command = [sys.executable, "-c", opens, str(path)]
        if not subprocess.run(command, check=False, capture_output=True, env=environment(checkout)).returncode:
            return path
    raise SystemExit(f"The package in {checkout} does not open {path}: remove that file.")


def parts(connection: apsw.Connection) -> dict[str, Part]:
    """Return what is searched: the sessions nearest to 2,500 and 50,000 passages, an agent's, all of a kind.

    Every search is for one kind, so that all of the kind that is most of the file is everything.
    """
    main = main_kind(connection)
    of_main = f"memory_type = '{main}'"
    sessions = counted(connection, "session_id", of_main)
    agents = counted(connection, "agent_id", of_main)
    small, large = nearest(sessions, SMALL_SESSION), nearest(sessions, LARGE_SESSION)
    agent = nearest(agents, max(agents.values()))
    return {
        "session of about 2,500": Part(Scope(main, session_id=small), sessions[small]),
        "session of about 50,000": Part(Scope(main, session_id=large), sessions[large]),
        "one agent": Part(Scope(main, agent_id=agent), agents[agent]),
        "one kind, everything": Part(Scope(main), sum(agents.values())),
    }


def shares(connection: apsw.Connection) -> dict[str, Part]:
    """Return the filters, by any field, that let through nearest to 50 %, 10 %, 1 % and 0.1 % of the main kind."""
    main = main_kind(connection)
    whole = counted(connection, "memory_type", "true")[main]
    found: dict[str, Part] = {}
    choices = {
        (field, value): count
        for field in ("agent_id", "session_id", "task_code", "session_iter")
        for value, count in counted(connection, field, f"memory_type = '{main}'").items()
        if value is not None and count < whole
    }
    for share in SHARES:
        field, value = nearest(choices, round(share * whole))
        count = choices[field, value]
        found[f"{share:.1%}"] = Part(Scope(main, **{field: value}), count)
    return found


def sentences(connection: apsw.Connection, session_id: str | None) -> list[str]:
    """Return sentences that a session holds, in the same random order for everybody."""
    sql = """
        select distinct c.content from memory_chunks c join session_memories m on m.id = c.parent_id
        where m.session_id = ? order by c.content
    """
    texts = [content for (content,) in connection.execute(sql, (session_id,))]
    found = list(dict.fromkeys(" ".join(each.split()) for text in texts for each in SENTENCE.findall(text)))
    random.Random(1).shuffle(found)  # noqa: S311 - protects nothing
    return found


def main_kind(connection: apsw.Connection) -> str:
    """Return the kind of most passages."""
    kinds = counted(connection, "memory_type", "true")
    return max(kinds, key=kinds.__getitem__)


def counted(connection: apsw.Connection, field: str, condition: str) -> dict[str, int]:
    """Return the number of passages by the value of a field."""
    sql = f"""
        select m.{field}, count(*) from session_memories m join memory_passages p on p.memory_id = m.id
        where {condition} group by 1
    """  # noqa: S608 - field and condition are this module's own
    return dict(connection.execute(sql).fetchall())


def nearest(counts: dict[object, int], wanted: int) -> object:
    """Return the key whose count is nearest to the wanted one, by ratio."""
    return min(counts, key=lambda key: abs(np.log(counts[key] / wanted)))


def vectors_of(connection: apsw.Connection) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids and vectors of all passages of chunks, shapes (passages,) and (passages, dimensions)."""
    count = connection.execute("select count(*) from vec_chunk_search").get
    ids, vectors = np.empty(count, np.int64), np.empty((count, 384), np.float32)
    rows = connection.execute("select passage_id, embedding from vec_chunk_search")
    for position, (passage_id, vector) in enumerate(rows):
        ids[position], vectors[position] = passage_id, np.frombuffer(vector, np.float32)
    return ids, vectors


def opened(path: Path) -> apsw.Connection:
    """Open a file to be read, with the vector extension."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with_vectors(connection)
    return connection


def with_vectors(connection: apsw.Connection) -> None:
    """Load the vector extension."""
    connection.enable_load_extension(True)  # noqa: FBT003 - apsw takes it by position
    connection.load_extension(sqlite_vec.loadable_path())


def size_mb(path: Path) -> float:
    """Return the size of the file in MB (10**6), its log included."""
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*")) / 1e6
