"""The doctor examines the file of a page that is open."""

from functools import partial
from pathlib import Path

from ui.conftest import serving
from vector_memory.extras.window.page_state import examine
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore


def test_the_doctor_examines_once_until_asked_again_while_the_page_keeps_its_locks(
    store: SessionMemoryStore, tmp_path: Path, settings: Settings
) -> None:
    """It opens the file again, and closing that must not end the locks of this process: it is another process."""
    store.store_memory("working_memory", "The writer is slow.", agent_id="bob", session_id="one")
    database = tmp_path / "memory.db"
    database.chmod(0o644)
    before = store.version()
    with serving(store, examine=partial(examine, database, settings)) as ui:
        ui.enter()
        found = ui.get("checkup")
        [wrong] = [one for one in found["findings"] if one["name"] == "permissions"]
        assert (wrong["state"], wrong["advice"]) == ("problem", "Run `vector-memory doctor --fix`.")
        assert found["checks"] > len(found["findings"])
        database.chmod(0o600)
        assert ui.get("checkup") == found
        assert "permissions" not in [one["name"] for one in ui.get("checkup?again=1")["findings"]]
    assert store.version() == before
