"""The settings: what they are, what they refuse, where the memory is."""

from pathlib import Path

import pydantic
import pytest

from vector_memory.cli.arguments import accepted
from vector_memory.settings import DatabaseLocation, ServerLocations, Settings

SEED_DEFAULTS = {
    "embedding_model": "all-MiniLM-L6-v2",
    "embedding_dim": 384,
    "default_chunk_size": 450,
    "default_chunk_overlap": 50,
    "vector_search_batch_size": 100,
    "log_slow_query_threshold": 2.0,
    "use_iterative_fetching": True,
    "use_threshold_filtering": False,
    "auto_backfill_threshold": 1000,
    "warm_start_embedding_model": True,
}

NOT_ACCEPTED = [
    {"embedding_model": ""},
    {"embedding_dim": 0},
    {"embedding_dim": 384.5},
    {"default_chunk_size": 31},
    {"default_chunk_overlap": -1},
    {"vector_search_batch_size": 0},
    {"similarity_threshold": 1.01},
    {"similarity_threshold": float("nan")},
    {"auto_backfill_threshold": -1},
    {"max_response_tokens": 499},
    {"log_slow_query_threshold": -0.1},
    {"log_level": "LOUD"},
    {"sqlite_synchronous": "OFF"},
    {"warm_start_embedding_model": "perhaps"},
    {"log_file": "~no-such-user/log"},
    {"embedding_model_path": "${MODEL_FOLDER}"},
    {"no_such_setting": 1},
]


def memory_in(folder: Path) -> Path:
    return folder / "memory" / "agent_session_memory.db"


def test_defaults_are_those_of_the_specification() -> None:
    """Each setting that the specification names has its name and default."""
    assert {name: getattr(Settings(), name) for name in SEED_DEFAULTS} == SEED_DEFAULTS


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_description_and_its_accepted_values(name: str) -> None:
    """Help, docs and error messages have words for every setting."""
    assert Settings.model_fields[name].description
    assert accepted(name)


@pytest.mark.parametrize("values", NOT_ACCEPTED, ids=str)
def test_impossible_settings_are_refused(values: dict[str, object]) -> None:
    """A value out of range or of the wrong kind, and an unknown name, is an error and not a guess."""
    with pytest.raises(pydantic.ValidationError):
        Settings(**values)  # type: ignore[arg-type]


def test_overlap_over_half_a_chunk_is_refused_by_both_names() -> None:
    """Chunks that would hardly advance are refused, and the message names both settings with their values."""
    with pytest.raises(pydantic.ValidationError, match=r"default_chunk_overlap \(51\).*default_chunk_size \(100\)"):
        Settings(default_chunk_size=100, default_chunk_overlap=51)
    assert Settings(default_chunk_size=100, default_chunk_overlap=50).default_chunk_overlap == 50


def test_lower_case_values_are_accepted() -> None:
    """A log level or durability in small letters is the same one."""
    settings = Settings(log_level="debug", sqlite_synchronous="normal")  # type: ignore[arg-type]
    assert (settings.log_level, settings.sqlite_synchronous) == ("DEBUG", "NORMAL")


def test_settings_cannot_be_changed() -> None:
    """Settings that were checked at start cannot change."""
    with pytest.raises(pydantic.ValidationError):
        Settings().embedding_dim = 1


def test_paths_are_full_whatever_the_current_folder_becomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder, and a relative path is meant from where the process was started."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    settings = Settings(log_file=Path("log"), embedding_model_path=Path("~/model"))
    assert settings.log_file == tmp_path / "log"
    assert settings.embedding_model_path == tmp_path / "home" / "model"


def test_database_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named file is the file, whatever project the client has open."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    assert DatabaseLocation(database_path=tmp_path / "my.db").address() == tmp_path / "my.db"


def test_working_dir_contains_the_memory_in_a_subfolder(tmp_path: Path) -> None:
    """A named folder has the memory under memory/agent_session_memory.db."""
    assert DatabaseLocation(working_dir=tmp_path).address() == memory_in(tmp_path)


def test_without_a_location_the_memory_is_in_the_clients_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLAUDE_PROJECT_DIR is where the memory goes if nothing else is said."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    assert DatabaseLocation().address() == memory_in(tmp_path / "project")


@pytest.mark.parametrize("project", [None, ""])
def test_without_a_project_the_memory_is_in_the_current_folder(
    project: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No CLAUDE_PROJECT_DIR, or an empty one, means the current folder."""
    if project is not None:
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", project)
    monkeypatch.chdir(tmp_path)
    assert DatabaseLocation().address() == memory_in(tmp_path)


def test_two_locations_are_refused(tmp_path: Path) -> None:
    """A file and a folder at once is a mistake that is said and not resolved silently."""
    with pytest.raises(pydantic.ValidationError, match="not both"):
        DatabaseLocation(database_path=tmp_path / "my.db", working_dir=tmp_path)


def test_export_folders_are_full_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative export folders are meant from where the server was started."""
    monkeypatch.chdir(tmp_path)
    assert ServerLocations(export_dir=[Path("out")]).export_dir == [tmp_path / "out"]


def test_another_length_than_the_default_models_is_refused_at_once() -> None:
    """A wrong EMBEDDING_DIM shows at start and not at the first search."""
    with pytest.raises(ValueError, match="embedding_dim \\(512\\) must be 384"):
        Settings(embedding_dim=512)
