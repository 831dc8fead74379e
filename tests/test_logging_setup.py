"""Log records: one line each, no stored content, never on standard output."""

import io
import logging
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.cli.logging_setup import OneLineFormatter, set_up_logging
from vector_memory.errors import ConfigurationError


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what set_up_logging does to the whole process."""
    root, ours = logging.getLogger(), logging.getLogger("vector_memory")
    levels = root.level, ours.level
    before = root.handlers[:], logging.raiseExceptions, threading.excepthook
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers, logging.raiseExceptions, threading.excepthook = before
    for logger, level in zip((root, ours), levels, strict=True):
        logger.setLevel(level)  # an assignment would leave what loggers below have cached
    logging.captureWarnings(capture=False)


def formatted(name: str, message: str, *values: object, error: BaseException | None = None) -> str:
    info = (type(error), error, error.__traceback__) if error else None
    return OneLineFormatter().format(logging.LogRecord(name, logging.WARNING, "/a/place.py", 7, message, values, info))


def raised(message: str) -> BaseException:
    with pytest.raises(ValueError, match=message) as caught:
        raise ValueError(message)
    return caught.value


def test_record_has_time_level_logger_and_message() -> None:
    """Each line says when (UTC), how bad, where and what."""
    line = formatted("vector_memory.server.app", "Closed after %d calls.", 3)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING vector_memory\.server\.app: Closed after 3 calls\.", line
    )


@pytest.mark.parametrize("breaker", ["\n", "\r", "\x1b[2J", "\x00", "\u2028", "\x85", "\t", "\u202e"])
def test_record_is_one_line_of_text(breaker: str) -> None:
    """Nothing in a message can start a line of its own or steer a terminal."""
    line = formatted("vector_memory.server.app", "before%safter", breaker)
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_an_exception_is_logged_by_type_and_line_but_not_quoted() -> None:
    """The words of an exception may hold stored content: its type and place are logged instead."""
    line = formatted("vector_memory.server.app", "It failed", error=raised("a stored secret"))
    assert "secret" not in line
    assert re.search(r"It failed \(ValueError < test_logging_setup\.py:\d+\)$", line)


def test_a_thread_that_crashes_is_logged_and_not_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    """Python itself would print the traceback with the words of the exception."""
    set_up_logging("INFO", None)
    thread = threading.Thread(target=lambda: {}["a stored secret"], name="backfill")
    thread.start()
    thread.join()
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(r"The thread backfill failed \(KeyError < test_logging_setup\.py:\d+", line)
    assert "secret" not in line


def test_library_is_not_quoted() -> None:
    """A library's message may hold the request: its place in the source is logged instead."""
    line = formatted("mcp.server", "Invalid request: %s", "a stored secret")
    assert line.endswith("WARNING mcp.server: place.py:7")


def test_logs_go_to_standard_error_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output belongs to the protocol."""
    set_up_logging("INFO", None)
    logging.getLogger("vector_memory.server.app").info("Hello.")
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.endswith(" INFO vector_memory.server.app: Hello.\n")


def test_log_file_gets_the_same_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--log-file has what standard error has, in a folder that is made when it is missing."""
    set_up_logging("INFO", tmp_path / "logs" / "server.log")
    logging.getLogger("vector_memory.server.app").info("Grüße")
    assert (tmp_path / "logs" / "server.log").read_text(encoding="utf-8") == capsys.readouterr().err


def test_the_level_applies_to_records_of_this_package(capsys: pytest.CaptureFixture[str]) -> None:
    """DEBUG shows our details, but not those of libraries, which hold whole requests."""
    set_up_logging("DEBUG", None)
    logging.getLogger("vector_memory.search").debug("ours")
    logging.getLogger("mcp.server").info("theirs")
    assert [line.rsplit(" ", 1)[-1] for line in capsys.readouterr().err.splitlines()] == ["ours"]
    set_up_logging("ERROR", None)
    logging.getLogger("vector_memory.search").warning("ours")
    assert capsys.readouterr().err == ""


class ClosedPipe(io.StringIO):
    """Standard error whose reader is gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_log_that_cannot_be_written_does_not_fail_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that closed standard error does not stop the server from answering."""
    monkeypatch.setattr(sys, "stderr", ClosedPipe())
    set_up_logging("INFO", None)
    logging.getLogger("vector_memory.server.app").info("Hello.")


def test_log_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    """A folder in the place of the file is an error at start."""
    with pytest.raises(ConfigurationError, match="choose another --log-file"):
        set_up_logging("INFO", tmp_path)


def test_log_file_and_its_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    """Whatever the umask allows."""
    before = os.umask(0)
    try:
        set_up_logging("INFO", tmp_path / "a" / "b" / "server.log")
    finally:
        os.umask(before)
    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "server.log"]
    assert [stat.S_IMODE(place.stat().st_mode) for place in made] == [0o700, 0o700, 0o600]


def test_the_log_is_not_written_to_standard_output(tmp_path: Path) -> None:
    """A client would take its lines for answers."""
    code = "from pathlib import Path; from vector_memory.cli.logging_setup import *; set_up_logging('INFO', Path({!r}))"
    for name in ("/dev/stdout", str(tmp_path / "out")):
        with (tmp_path / "out").open("wb") as out:
            ended = subprocess.run(
                [sys.executable, "-c", code.format(name)], stdout=out, stderr=subprocess.PIPE, check=False
            )
        assert b"is standard output" in ended.stderr


def test_a_log_pipe_without_a_reader_is_refused_without_waiting(tmp_path: Path) -> None:
    """The server would never start."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="choose another --log-file"):
        set_up_logging("INFO", tmp_path / "pipe")
