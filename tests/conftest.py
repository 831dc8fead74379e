"""Stores that need no model, and how many examples a property is tried with."""

import gc
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import hypothesis
import numpy as np
import pytest
from cyclopts.argument import _collection
from hypothesis import HealthCheck

from clusters import MEMORY, SERVER, stop_shared_cluster
from engines import ON_BOTH, schemas_instead_of_files
from eras import ERAS
from faults.effort import effort
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.settings import SPECIFIED, Settings
from vector_memory.storage.sqlite import database
from vector_memory.store import SessionMemoryStore

PREFIXES = ("VECTOR_MEMORY_", "CWE_", "FASTMCP_", "GIT_", "HF_", "PG")
VARIABLES = {
    *map(str.upper, SPECIFIED),
    *("CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TIKTOKEN_CACHE_DIR"),
    *("PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS"),
    # Where nothing is compiled ahead, as in many containers, every server would compile all libraries: for seconds.
    "PYTHONDONTWRITEBYTECODE",
}
"""What commands, servers and their libraries would take from the environment of whoever runs the tests."""

TESTS = Path(__file__).parent

UNMEASURED = (
    "embedding/test_language_confidence.py", "embedding/test_onnx_engine.py", "faults", "over_http/test_attacks.py",
    "over_http/test_walls.py", "search/test_engines.py", "search/test_exact.py", "search/test_hybrid.py",
    "search/test_late_interaction.py", "search/test_tail.py", "search/test_two_processes.py",
    "search/test_unread_scripts.py", "test_cli.py::test_e", "test_docs.py", "test_own_docs.py", "test_ratchet.py",
    "test_redacted_tokens.py", "test_redaction.py::test_a_hostile", "test_state_machine.py", "tools/test_caps.py",
    "tools/test_tool_failures.py", *(f"tools/test_injection.py::test_{name}" for name in ("a_", "ev", "m")),
    *(f"tools/test_answers.py::test_{name}" for name in ("a_ti", "e", "no_", "one_n", "s", "what_n", "whe")),
)  # fmt: skip
"""Tests that compute for long and reach little that others do not: counting branches more than doubles their time."""

ALL_MEASURED = ("commands/connecting", "doctor", "file_memory", "outbox", "storage/test_", "test_", "transcripts")
"""Tests whose further cases reach much that the first does not."""

UNCOUNTED = pytest.StashKey[bool]()

ENOUGH_MEMORY = 4 * 2**30
WORKERS_PER_CORE, MEMORY_PER_WORKER = 3, 2**30  # tests wait half of the time; a worker was seen to take 700 MB

kept = (SERVER, "PGPASSWORD") if SERVER in os.environ else ()
for name in [name for name in os.environ if name not in kept and (name in VARIABLES or name.startswith(PREFIXES))]:
    del os.environ[name]
os.environ |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")
os.umask(0o022)
sys.dont_write_bytecode = False
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup lets it be ignored, also by what the tests start
signal.signal(signal.SIGINT, signal.default_int_handler)  # so does a shell in the background
# Otherwise each command that runs in this process would read the sources of the classes of its flags again.
_collection.extract_docstring_help = cache(_collection.extract_docstring_help)
gc.disable()  # until all tests are collected: what they import and are stays

# A busy machine is slow, and the fixtures that properties share are not changed by them.
hypothesis.settings.register_profile(
    "quick",
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("quick"), max_examples=1_000)
hypothesis.settings.load_profile(effort(quick="quick", long="long"))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory if there is enough, but not those of real clients: their sandboxes forbid it.

    What tests claim of a disk they try on one that fails, that is full, or that loses what was not synchronized.
    """
    has_room = Path(MEMORY).is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH_MEMORY
    if "not real_client" in config.option.markexpr and has_room and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        os.environ.setdefault("TMPDIR", MEMORY)
        tempfile.tempdir = None  # pytest has asked already


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Share the tests out, but for a few files, which can be debugged here, and those that share what they build."""
    is_little = all(Path(argument.partition("::")[0]).is_file() for argument in config.args)
    if is_little or config.option.markexpr == "distribution":
        return 0
    cores, memory = os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(cores + 1, min(WORKERS_PER_CORE * cores, memory // MEMORY_PER_WORKER))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests be run on another engine, and fail where something is missing that they need."""
    parser.addoption("--engine", choices=["sqlite", "postgres"], default="sqlite", help="what keeps memories")
    parser.addoption("--must-run", metavar="REGEX", help="fail tests that are skipped for a reason that matches")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what does not depend on the engine."""
    if config.option.engine == "sqlite" or not collection_path.name.startswith("test_"):
        return None
    place = collection_path.relative_to(TESTS)
    return None if any(place.is_relative_to(one) for one in ON_BOTH) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin each file with what is measured; on PostgreSQL, leave out what is not about the engine.

    That is the older protocol, and files.
    """
    begun, files = set[str](), dict[Path, int]()
    for item in items:
        test, place = item.nodeid.partition("[")[0], item.nodeid.removeprefix("tests/")
        item.stash[UNCOUNTED] = place.startswith(UNMEASURED) or (test in begun and not place.startswith(ALL_MEASURED))
        begun.add(test)
        files.setdefault(item.path, len(files))
    items.sort(key=lambda item: (files[item.path], item.stash[UNCOUNTED]))  # threads are counted until the first pause
    if config.option.engine == "sqlite":
        return
    older = ERAS["2025-11-25"]
    items[:] = [one for one in items if getattr(getattr(one, "callspec", None), "params", {}).get("era") != older]
    for item in items:
        if marker := item.get_closest_marker("sqlite"):
            item.add_marker(pytest.mark.skip(f"SQLite only: {marker.args[0]}"))


def counting(config: pytest.Config) -> Any:
    """Return what lets branches be counted: something only if `--cov` is given."""
    return getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Count what is imported while tests are collected once: in the first worker, or where there is none."""
    worker, others = getattr(session.config, "workerinput", {}).get("workerid"), session.config.option.numprocesses
    if (controller := counting(session.config)) and (worker or others) and worker != "gw0":
        controller.pause()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Count branches in what is measured, with its fixtures."""
    if (controller := counting(item.config)) and controller.started == item.stash[UNCOUNTED]:
        (controller.pause if item.stash[UNCOUNTED] else controller.resume)()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test fail that is skipped for want of something that has to be there."""
    report = yield
    if report.skipped and item.config.option.must_run and re.search(item.config.option.must_run, str(report.longrepr)):
        report.outcome = "failed"
    return report


def pytest_collection_finish() -> None:
    """Spare the collector what lasts as long as the process: a quarter of the time in which tests are collected."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Leave the folder of this user alone in which texts wait, and what this user's agents remember."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("VECTOR_MEMORY_OWN_MEMORIES", "false")
        yield


@pytest.fixture(autouse=True, scope="session")
def chosen_engine(pytestconfig: pytest.Config) -> Iterator[None]:
    """Keep the memories of all tests where `--engine` says."""
    with nullcontext() if pytestconfig.option.engine == "sqlite" else schemas_instead_of_files():
        yield


@pytest.fixture(autouse=True, scope="session")
def no_numpy_in_statements() -> Iterator[None]:
    """Fail at each statement that binds a NumPy number: apsw sends most of them as bytes, which equal no number."""
    watch = database.stop_when_unwanted

    def checked(_cursor: Any, sql: str, bindings: Any) -> bool:
        values = bindings.values() if isinstance(bindings, Mapping) else bindings or ()
        wrong = [value for value in values if isinstance(value, np.generic)]
        assert not wrong, f"{sql} binds {wrong}"
        return True

    def traced(connection: apsw.Connection) -> None:
        watch(connection)
        connection.exec_trace = checked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "stop_when_unwanted", traced)
        yield


def pytest_sessionfinish() -> None:
    """Stop the database server that tests of the engines have started."""
    stop_shared_cluster()


@pytest.fixture(autouse=True)
def _long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a busy machine may let them run out."""
    monkeypatch.setattr("vector_memory.writing.background.LEASE_SECONDS", 40.0)


@pytest.fixture
def _short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often for what others have left behind, and try again often."""
    monkeypatch.setattr("vector_memory.writing.background.LEASE_SECONDS", 0.5)


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """Leave the levels of loggers as they were: commands that run in this process set them."""
    loggers = logging.getLogger(), logging.getLogger("vector_memory")
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def settings() -> Settings:
    """Small chunks, so that short texts have several."""
    return Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> Iterator[SessionMemoryStore]:
    """An open store; a token is a word."""
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=LatticeEmbedder()) as opened:
        yield opened
