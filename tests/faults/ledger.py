"""A ledger of acknowledged calls, and what a file must and must not contain according to it."""

import copy
from collections import Counter
from pathlib import Path

import apsw

from faults.workload import content, open_store


class Ledger:
    """Numbers of the memories that are stored, by id; ids of those that are deleted; the call that is under way."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.deleted: set[int] = set()
        self.under_way: tuple[str, int] | None = None

    def note(self, event: str, *numbers: int) -> None:
        """Write down what `workload` tells."""
        self.under_way = None
        if event == "stored":
            number, memory_id = numbers
            self.live[memory_id] = number
        elif event == "deleted":
            del self.live[numbers[0]]
            self.deleted.add(numbers[0])
        else:
            self.under_way = (event, numbers[0])

    def copy(self) -> "Ledger":
        """Return the book as it is now."""
        return copy.deepcopy(self)

    def losses(self, path: Path) -> list[str]:
        """Return how the file differs from the ledger: missing, altered and deleted memories, memories stored twice.

        The call that was under way may have been carried out or not; the book is brought up to date with it.
        """
        found = texts(path)
        self._settle(found)
        expected = {memory_id: content(number) for memory_id, number in self.live.items()}
        return [
            *(f"memory {number} is lost" for number in expected.keys() - found.keys()),
            *(f"memory {number} came back" for number in self.deleted & found.keys()),
            *(f"memory {number} was never stored" for number in found.keys() - expected.keys() - self.deleted),
            *(
                f"memory {number} reads otherwise"
                for number in found.keys() & expected.keys()
                if found[number] != expected[number]
            ),
            *(f"{text[:12]!r} is stored {count} times" for text, count in Counter(found.values()).items() if count > 1),
        ]

    def _settle(self, found: dict[int, str]) -> None:
        match self.under_way:
            case ("deleting", memory_id) if memory_id not in found:
                self.note("deleted", memory_id)
            case ("storing", number):
                new = [memory_id for memory_id, text in found.items() if text == content(number)]
                if new:
                    self.note("stored", number, new[0])
        self.under_way = None


def texts(path: Path) -> dict[int, str]:
    """Return every text of a file by its id, as a store that is opened now hands it out."""
    if not path.exists():  # the process was killed before it stored anything
        return {}
    with open_store(path) as store:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        ids = [row[0] for row in connection.execute("select id from session_memories order by id")]
        connection.close()
        memories = [store.get_memory_by_id(memory_id).memory for memory_id in ids]
    return {memory.id: memory.content for memory in memories if memory is not None}
