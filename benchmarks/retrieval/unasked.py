"""How much of what an agent is told without asking is on the topic of its prompt, in the histories of a judged set.

uv run benchmarks/retrieval/unasked.py --set SET.json.gz [--scopes N] [--cache DIR]

The documents of the set are conversations, with turns that begin with **user:** and **assistant:**. For each scope the
long answers of its sessions are stored as hooks store them. Then a new session sends as its prompts the scope's own
questions, whose sessions are known, and the questions of all other scopes, which its user never talked about. Prints
how many memories were told with each, and how many of them are of a session that answers the question.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import CachedEmbedder
from judged import JudgedSet, load

from vector_memory.clients.reading.conversation import LEAST_ANSWER
from vector_memory.domain import MemoryKind
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

TURN = re.compile(r"^\*\*(user|assistant):\*\* ", re.MULTILINE)
NEW = "new"


@dataclass
class Told:
    """What was told with prompts of one sort. `right`: of a session that answers the question."""

    prompts: int = 0
    with_any: int = 0
    memories: int = 0
    right: int = 0

    def add(self, sessions: list[str | None], answering: set[str]) -> None:
        """Count what was told with one more prompt."""
        self.prompts += 1
        self.with_any += bool(sessions)
        self.memories += len(sessions)
        self.right += sum(session in answering for session in sessions)


def answers(conversation: str) -> Iterator[str]:
    """Yield the answers that hooks would store."""
    parts = TURN.split(conversation)[1:]
    for who, text in zip(parts[::2], parts[1::2], strict=True):
        if who == "assistant" and len(text.strip()) >= LEAST_ANSWER:
            yield text.strip()


def sessions_told(store: SessionMemoryStore, prompt: str) -> list[str | None]:
    """Return the sessions of the memories that are told with a prompt."""
    told = store.past.near(prompt, NEW, ())
    found = [store.get_memory_by_id(number).memory for number in (told.ids if told else ())]
    return [memory.session_id for memory in found if memory]


def measure(judged: JudgedSet, scope: str, store: SessionMemoryStore, own: Told, others: Told) -> None:
    """Fill a memory with the sessions of a scope, and send it all questions as prompts."""
    for session in judged.scopes[scope]:
        for text in dict.fromkeys(answers(judged.documents[session])):
            store.store_memory(MemoryKind.WORKING_MEMORY, text, session_id=session)
    for question in judged.questions:
        is_own = question.scope == scope
        (own if is_own else others).add(sessions_told(store, question.text), set(question.grades) if is_own else set())


def main() -> None:
    """Measure, and print a row for each sort of prompt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, required=True)
    parser.add_argument("--scopes", type=int, default=9)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    engine: Embedder = load_embedder(Settings())
    judged, own, others = load(given.set, None, 0), Told(), Told()
    opened = partial(SessionMemoryStore, embedder=CachedEmbedder(engine, given.cache) if given.cache else engine)
    for scope in list(judged.scopes)[: given.scopes]:
        with TemporaryDirectory() as folder, opened(Path(folder) / "memory.db") as store:
            measure(judged, scope, store, own, others)
    for name, told in (("own questions", own), ("questions of others", others)):
        print(f"{name}: {told.with_any} of {told.prompts} told of {told.memories} memories, {told.right} on the topic")


if __name__ == "__main__":
    main()
