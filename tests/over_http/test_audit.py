"""The audit log: what is recorded, and what shows when lines are changed, removed, cut or forged."""

import hmac
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import PromptReference

from faults.conftest import mounted
from forked import Forked, finished
from over_http.calling import answer_in, post, send_bytes
from over_http.conftest import ALL_TOOLS, SETTINGS, Team
from servers import ENVELOPE
from vector_memory.domain.callers import Caller, Permission
from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.extras.teams.audit import AuditLog, Broken
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.server.http.serving import application, require_usable
from vector_memory.settings import HttpOptions
from waiting import eventually

NAMES = map("audited-{}".format, itertools.count())
CALLER = Caller(name="ada", namespace="red", permission=Permission.WRITE)


def facts(log: AuditLog) -> tuple[Broken | None, bool, int, int]:
    """Return whether a log is broken or its end unfinished, and how many lines it has and lacks."""
    checked = log.verify()
    return checked.broken, checked.unfinished, checked.lines, checked.missing


def lines_of(team: Team, name: str) -> list[dict[str, Any]]:
    """Return what was recorded of a token."""
    return [line for line in AuditLog(team.folder).lines() if line["token"] == name]


@pytest.fixture
def empty(tmp_path: Path) -> AuditLog:
    log = AuditLog(tmp_path)
    log.prepare()
    return log


def test_each_call_is_recorded_by_the_name_of_its_token_without_content(team: Team) -> None:
    name = next(NAMES)
    secret = team.token(name)
    report = {"agent_id": "a", "session_id": "audited", "content": "# Plans\n\nThe launch is on Friday."}
    stored = answer_in(post(team.url, secret, tool="store_report", arguments=report))
    post(team.url, secret, tool="get_memory_by_id", arguments={"memory_id": stored["memory_id"]})
    post(team.url, secret, tool="search_reports_specific_chunks", arguments={"query": "when is the launch"})
    log, lines = AuditLog(team.folder), lines_of(team, name)
    assert [line["call"] for line in lines] == ["store_report", "get_memory_by_id", "search_reports_specific_chunks"]
    assert [line["error"] for line in lines] == [None, None, None]
    assert [line["ids"].get("memory_id") for line in lines] == [[stored["memory_id"]], [stored["memory_id"]], None]
    assert stored["memory_id"] in lines[2]["ids"]["shown"]
    assert not any(re.search("launch|Plans|Friday", json.dumps(line)) for line in lines)
    assert secret not in b"".join(path.read_bytes() for path in log.files()).decode()
    assert log.verify().broken is None


@pytest.mark.parametrize("value", ["9" * 5_000, [1], {"a": [1]}, "\n", "\u0664", 1.5, True])
def test_a_call_is_recorded_whatever_it_names_as_an_id(team: Team, value: object) -> None:
    name = next(NAMES)
    answer = post(team.url, team.token(name), tool="get_memory_by_id", arguments={"memory_id": value})
    assert answer_in(answer)["error"] == "ValidationError"
    [line] = lines_of(team, name)
    assert (line["call"], line["ids"], line["error"]) == ("get_memory_by_id", {}, "ValidationError")


WRITE_LINES = """
import sys
from pathlib import Path
from typing import Any
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.domain.callers import Caller, Permission

log = AuditLog(Path(sys.argv[1]), rotate_bytes=2_000)
caller = Caller(name="ada", namespace="red", permission=Permission.WRITE)
for number in range(int(sys.argv[2])):
    log.record(caller, "get_memory_by_id", ids={"memory_id": [number]})
"""


def writer(folder: Path, count: int) -> Forked:
    """Start a process that writes so many lines."""
    writing = Forked("-c", WRITE_LINES, folder, count)
    writing.hang_up()
    return writing


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log of a process that has written several files."""
    folder = tmp_path_factory.mktemp("written")
    AuditLog(folder).prepare()
    assert writer(folder, 40).wait() == 0
    return folder


@pytest.fixture
def log(tmp_path: Path, written: Path) -> AuditLog:
    """A log of several files, and its key, that a test may change."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    copied = AuditLog(tmp_path)
    shutil.copy(AuditLog(written).key_file, copied.key_file)
    assert copied.verify().broken is None
    return copied


def test_the_chain_holds_over_several_files_and_processes(tmp_path: Path, empty: AuditLog) -> None:
    writers = [writer(tmp_path, 30) for _ in range(3)]
    assert [process.wait() for process in writers] == [0, 0, 0]
    assert len(list(empty.lines())) == 90
    assert len(empty.files()) > 3
    assert empty.verify().broken is None


@pytest.mark.parametrize(("file", "line"), [*itertools.product([0, 1], [0, 1, 2])])
@pytest.mark.parametrize("change", ["remove", "edit", "repeat", "name twice"])
def test_a_line_that_was_removed_or_changed_shows(log: AuditLog, file: int, line: int, change: str) -> None:
    path = log.files()[file]
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "remove": [],
        "edit": [lines[line].replace(b"ada", b"eve")],
        "repeat": [lines[line]] * 2,
        "name twice": [lines[line].replace(b"{", b'{"token":"eve",', 1)],
    }[change]
    path.write_bytes(b"".join([*lines[:line], *changed, *lines[line + 1 :]]))
    assert log.verify().broken


@pytest.mark.parametrize("file", [0, 1])
def test_a_file_that_was_removed_shows(log: AuditLog, file: int) -> None:
    log.files()[file].unlink()
    assert log.verify().broken


def test_lines_and_files_in_another_order_show(log: AuditLog) -> None:
    first, second = log.files()[:2]
    before = first.read_bytes()
    lines = before.splitlines(keepends=True)
    first.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    assert log.verify().broken
    first.write_bytes(second.read_bytes())
    second.write_bytes(before)
    assert log.verify().broken


def test_a_kill_at_any_moment_leaves_a_log_that_holds_and_goes_on(tmp_path: Path, empty: AuditLog) -> None:
    for number in range(12):
        lines = empty.verify().lines
        killed = writer(tmp_path, 100_000)
        eventually(lambda lines=lines, number=number: empty.verify().lines > lines + number)
        killed.kill()
        killed.wait()
        assert empty.verify().broken is None


def test_files_are_numbered_so_that_a_clock_that_goes_back_changes_nothing(log: AuditLog) -> None:
    assert [int(path.stem) for path in log.files()] == list(range(1, len(log.files()) + 1))


def next_file(log: AuditLog) -> Path:
    """Return the file after those that there are."""
    newest = log.files()[-1]
    return newest.with_name(f"{int(newest.stem) + 1:08}.jsonl")


@pytest.mark.parametrize("place", [lambda log: log.files()[-1], next_file], ids=["after others", "in a new file"])
@pytest.mark.parametrize("half", [b'{"at":"2026', b'{"at":"' + b"x" * 10_000, b"\0\0\0"])
def test_half_a_line_is_told_from_tampering_and_the_next_line_says_that_a_call_is_missing(
    log: AuditLog, place: Callable[[AuditLog], Path], half: bytes
) -> None:
    """A killed process leaves one, and a power failure."""
    before = log.verify().lines
    with place(log).open("ab") as stream:
        stream.write(half)
    assert facts(log) == (None, True, before, 0)
    log.record(CALLER, "list_sessions", ids={})
    log.record(CALLER, "list_sessions", ids={})
    assert facts(log) == (None, False, before + 2, 1)
    assert [line.get("missing") for line in log.lines()][-2:] == [1, None]


def test_half_a_line_before_others_is_tampering(log: AuditLog) -> None:
    path = log.files()[0]
    path.write_bytes(path.read_bytes()[:-5])
    broken = log.verify().broken
    assert (broken.file, broken.reason) == (path, "this line is damaged")


def recorded_until_full(log: AuditLog) -> int:
    """Record calls until five could not be; return how many were."""
    failures = 0
    for number in itertools.count():
        try:
            log.record(CALLER, "get_memory_by_id", ids={"memory_id": [number]})
        except DatabaseError:
            failures += 1
            if failures == 5:
                return number - 4
    raise AssertionError


@pytest.mark.parametrize("rotate_bytes", [1_000, 2**20])
def test_a_full_disk_leaves_no_false_alarm_and_the_next_line_counts_what_is_missing(
    tmp_path: Path, rotate_bytes: int
) -> None:
    with mounted(tmp_path / "small", "size=64k") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(32 * 2**10))
        log = AuditLog(disk, tmp_path / "key", rotate_bytes)
        log.prepare()
        count = recorded_until_full(log)
        assert facts(log) == (None, False, count, 0)
        ballast.unlink()
        log.record(CALLER, "list_sessions", ids={})
        assert facts(log) == (None, False, count + 1, 5)


RECORD_TO_A_LIMIT = """
import resource
import sys
from pathlib import Path
from typing import Any
from over_http.test_audit import CALLER, AuditLog, recorded_until_full

log, (soft, hard) = AuditLog(Path(sys.argv[1])), resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
print(recorded_until_full(log))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
log.record(CALLER, "list_sessions", ids={})
"""


def test_a_write_that_ends_in_the_middle_leaves_nothing_of_its_line(tmp_path: Path, empty: AuditLog) -> None:
    """The system ends the write at the limit, as it does where a disk is full."""
    ended = finished("-c", RECORD_TO_A_LIMIT, tmp_path)
    assert facts(empty) == (None, False, int(ended.stdout) + 1, 5)


def test_a_lone_surrogate_keeps_no_call_out_of_the_log(team: Team) -> None:
    name = next(NAMES)
    arguments = {"session_id": "s\ud800"}
    params = {"name": "search_reports_specific_chunks", "arguments": {"query": "x"} | arguments, "_meta": ENVELOPE}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    send_bytes(team.url, team.token(name), "tools/call", params, body)
    assert [line["ids"] for line in lines_of(team, name)] == [{"session_id": ["s\ud800"]}]
    assert AuditLog(team.folder).verify().broken is None


def resigned(log: AuditLog, key_file: Path) -> None:
    """Write the log again as somebody does who knows how, and has this key."""
    key, before = bytes.fromhex(key_file.read_text()), b""
    for path in log.files():
        forged = b""
        for line in map(json.loads, path.read_bytes().splitlines()):
            facts = line | {"token": "eve"}
            del facts["signature"]
            data = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
            facts["signature"] = hmac.new(key, before + data, "sha256").hexdigest()
            before = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
            forged += before
        path.write_bytes(forged)


def test_a_log_that_was_written_again_without_its_key_does_not_hold(log: AuditLog, tmp_path: Path) -> None:
    other = AuditLog(tmp_path, tmp_path.with_suffix(".key"))
    other.prepare()
    resigned(log, other.key_file)
    broken = log.verify().broken
    assert (broken.line, "--audit-key names another key" in broken.reason) == (1, True)
    resigned(log, log.key_file)  # the key is all that a forger lacks
    assert log.verify().broken is None


def test_the_server_makes_the_key_once_for_its_owner_only_and_outside_the_data_folder(tmp_path: Path) -> None:
    options = HttpOptions(http=True, data_dir=tmp_path / "data", audit_key=tmp_path / "keys" / "audit.key")
    require_usable(tmp_path, options)
    path = tmp_path / "keys" / "audit.key"
    made = path.read_bytes()
    application(tmp_path / "memory.db", SETTINGS, [], ALL_TOOLS, options)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (made, 0o600)
    assert not AuditLog(tmp_path / "data").key_file.is_relative_to(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "content", "mode", "message"),
    [
        ("data/audit.key", None, 0o600, "must not be in the data folder"),
        ("link/audit.key", None, 0o600, "must not be in the data folder"),
        ("audit.key", "00" * 32, 0o640, "Others can use the key .*chmod 600"),
        ("audit.key", "", 0o600, "holds no key"),
        ("audit.key", "00" * 31, 0o600, "holds no key"),
        ("audit.key", "secret", 0o600, "holds no key"),
        ("data", None, 0o700, "must not be"),
        ("folder", None, 0o700, "cannot be read"),
        ("file/audit.key", None, 0o600, "cannot be kept in .*: name another file"),
    ],
)
def test_a_key_that_protects_nothing_stops_the_start(
    tmp_path: Path, name: str, content: str | None, mode: int, message: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    if content is not None:
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    with pytest.raises(ConfigurationError, match=message):
        require_usable(tmp_path, HttpOptions(http=True, data_dir=tmp_path / "data", audit_key=tmp_path / name))


def test_without_its_key_nothing_is_recorded_and_nothing_fails(tmp_path: Path, empty: AuditLog) -> None:
    secret = empty.key_file.rename(tmp_path / "away")
    with pytest.raises(DatabaseError, match="its key cannot be used"):
        empty.record(CALLER, "list_sessions", ids={})
    secret.rename(empty.key_file)
    empty.record(CALLER, "list_sessions", ids={})
    assert empty.verify().missing == 1


@pytest.mark.anyio
async def test_resources_and_prompts_are_recorded_with_how_they_ended(team: Team) -> None:
    name = next(NAMES)
    async with team.client(team.token(name)) as client:
        await client.read_resource("memory://sessions")
        with pytest.raises(MCPError):
            await client.read_resource("memory://memories/987654")
        with pytest.raises(MCPError):
            await client.get_prompt("continue_session", {"session_id": "nobody"})
    lines = lines_of(team, name)
    assert [(line["call"], line["error"] is None) for line in lines] == [
        ("resources/read", True),
        ("resources/read", False),
        ("prompts/get", False),
    ]
    assert lines[1]["ids"] == {"uri": ["memory://memories/987654"]}


@pytest.mark.anyio
async def test_completions_count_and_are_recorded_without_what_was_typed(team: Team) -> None:
    spaces, name = Registry(team.folder), next(NAMES)
    spaces.create("typing")
    spaces.set_quota("typing", Quota(calls_per_minute=1))
    asked = PromptReference(name="continue_session"), {"name": "session_id", "value": "secret"}
    async with team.client(team.token(name, "typing")) as client:
        await client.complete(*asked)
        with pytest.raises(MCPError, match="try again in"):
            await client.complete(*asked)
    lines = lines_of(team, name)
    assert [(line["call"], line["error"] is None) for line in lines] == [
        ("completion/complete", is_answered) for is_answered in (True, False)
    ]
    assert "secret" not in json.dumps(lines)
