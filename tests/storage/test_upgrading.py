"""A file that an upgrade has left outdated can be opened, whatever other processes do."""

from pathlib import Path

import pytest

from engine_memories import new_memory, open_sqlite
from old_words import add_old
from vector_memory.storage.sqlite import upgrading


def test_a_file_opens_while_another_process_keeps_it_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrading, "SECONDS_AT_OPENING", 0.5)
    locking = open_sqlite(tmp_path)
    (memory_id,) = add_old(locking, new_memory(title="Title"))
    with locking.write():
        opened = open_sqlite(tmp_path)
        with opened.read() as reader:
            assert reader.memory(memory_id).content == "x"
            assert reader.upkeep.portions.count_outdated() == 1
    opened.close()
    locking.close()
