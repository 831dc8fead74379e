"""Real server processes: several workers, an end that loses nothing, TLS, and clients that misbehave."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forked import finished
from over_http.calling import called, post
from over_http.processes import Running, running, workers_of
from over_http.test_questions import INVALID, Question, error_of
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.server.tools.sessions import MAX_WAIT
from waiting import eventually

NAMES = map("n{}".format, itertools.count())
Call = Callable[..., dict[str, Any]]


def is_running(process: int) -> bool:
    """Return whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with three workers. A test has a namespace of its own, and leaves three workers."""
    with running(tmp_path_factory.mktemp("three"), "--workers", "3") as server:
        yield server
    assert workers_of(server) == []


@pytest.fixture
def namespace(three: Running) -> str:
    """A namespace that no other test has."""
    Registry(three.folder).create(name := next(NAMES))
    return name


@pytest.fixture
def call(three: Running, namespace: str) -> Call:
    """Call a tool in the namespace."""
    return partial(called, three.url, Registry(three.folder).tokens.create(namespace, namespace, Permission.ADMIN))


def kill_worker(server: Running, worker: int) -> None:
    """Kill a worker, and wait until another one has taken its place."""
    count = len(workers_of(server))
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: len(workers_of(server)) == count and worker not in workers_of(server))
    eventually(server.is_alive)


def test_workers_share_the_port_and_one_that_was_killed_is_started_again(three: Running, call: Call) -> None:
    stored = [call("store_report", agent_id="a", session_id="s", content=f"# {n}\n\nText.") for n in range(8)]
    assert sorted(one["memory_id"] for one in stored) == list(range(1, 9))
    first, *_ = before = workers_of(three)
    assert len(before) == 3
    kill_worker(three, first)
    assert call("list_sessions")["sessions"][0]["memory_count"] == 8


def test_each_worker_gets_as_many_connections_of_a_burst_as_any_other(three: Running) -> None:
    def shares() -> list[int]:
        with ExitStack() as kept:
            clients = [kept.enter_context(socket.create_connection(three.address)) for _ in range(15)]
            for client in clients:
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert all(b" 200 " in client.recv(100) for client in clients)
            return [connections_of(worker) for worker in workers_of(three)]

    eventually(lambda: shares() == [5, 5, 5])  # as soon as all have started


@pytest.mark.parametrize(
    ("quota", "tool"), [(Quota(memories=4), "store_report"), (Quota(calls_per_minute=4), "list_sessions")]
)
def test_workers_count_calls_and_memories_together_for_the_quota(
    three: Running, namespace: str, call: Call, quota: Quota, tool: str
) -> None:
    Registry(three.folder).set_quota(namespace, quota)
    contents = [{"session_id": "s", "content": f"# {number}\n\nText."} for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda report: call(tool, **(report if tool == "store_report" else {})), contents))
    assert sorted(answer["error"] or "answered" for answer in answers) == ["QuotaExceeded"] * 8 + ["answered"] * 4


def test_every_worker_reports_the_totals_of_all_including_a_killed_one(three: Running) -> None:
    bearer = {"Authorization": f"Bearer {three.secret}"}

    def counted() -> int:
        """Return the calls that every worker counts."""
        said = [httpx2.get(three.url.replace("/mcp", "/metrics"), headers=bearer, timeout=60).text for _ in range(6)]
        (count,) = {re.findall(r'calls_total\{error="",tool="list_sessions"\} (\d+)', text)[0] for text in said}
        return int(count)

    three.call("list_sessions")
    before = counted()
    for _ in range(8):
        three.call("list_sessions")
    assert counted() == before + 8
    for worker in workers_of(three)[:2]:
        kill_worker(three, worker)
        assert counted() == before + 8


def test_another_worker_can_take_the_answer_to_a_question_but_only_from_its_caller_and_for_its_call(
    three: Running,
) -> None:
    question, other, *more = [Question(three.url, three.secret) for _ in range(5)]
    own, state = question.secret, question.state
    for forged in (state[:-1], state[:-4] + state[-4:][::-1], "asked"):
        assert error_of(question.agree(own, forged)) == INVALID
    assert error_of(question.agree(three.token("stranger", "admin"), state)) == INVALID
    assert error_of(question.agree(own, state, arguments={"memory_id": other.memory_id})) == INVALID
    cleanup = {"tool": "cleanup_old_memories", "arguments": {"days_old": 0, "dry_run": False}}
    assert error_of(question.agree(own, state, **cleanup)) == INVALID
    assert other.is_there()
    # Workers get connections in turn, so whatever a call needs, some of these are asked at one and answered at another.
    for each in (question, other, *more):
        assert each.is_there()
        assert each.agree(own, each.state)["result"]["structuredContent"]["success"]
        if each is other:
            assert not each.is_there()


def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--workers", "2") as server:
        eventually(lambda: len(workers_of(server)) == 2)
        left = workers_of(server)
        server.process.kill()
        eventually(lambda: not any(map(is_running, left)))
        assert not server.is_alive()


def connections_of(process: int) -> int:
    """Return how many TCP connections a process has open."""
    open_here = {path.resolve().name for path in Path(f"/proc/{process}/fd").iterdir()}  # some are closed meanwhile
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(f"socket:[{line.split()[9]}]" in open_here for line in lines if line.split()[3] == "01")


def head(server: Running, length: int) -> bytes:
    """Return the headers of a call. The server answers them with 100 when it reads the body."""
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {server.secret}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        "Expect: 100-continue",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def body_of(tool: str, **arguments: object) -> bytes:
    """Return the body of a call."""
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


RUN_SERVER = """
import sys, time
from pathlib import Path
from over_http.processes import Running

print(Running(Path(sys.argv[1])).process.pid, flush=True)
time.sleep(600)
"""


def test_servers_of_tests_end_when_the_tests_are_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN_SERVER, tmp_path]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE) as tests:
        assert tests.stdout
        server = int(tests.stdout.readline())
        assert is_running(server)
        tests.kill()
    eventually(lambda: not is_running(server))


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
def test_a_server_that_is_told_to_end_answers_what_it_has_begun_and_refuses_the_rest(
    tmp_path: Path, told: signal.Signals
) -> None:
    body, refused = body_of("list_sessions"), []

    def is_refused() -> bool:
        refused.append(httpx2.post(server.url))
        return refused[-1].status_code == 503

    with running(tmp_path) as server, socket.create_connection(server.address) as client:
        client.sendall(head(server, len(body)))
        assert b" 100 " in client.recv(100)  # it waits for the body
        server.process.send_signal(told)
        eventually(is_refused)
        assert refused[-1].headers["retry-after"] == "5"
        client.sendall(body)
        assert b'"success":true' in b"".join(iter(lambda: client.recv(2**16), b""))
        assert server.process.wait(60) == 0


UNDER_NOHUP = """
import signal
from vector_memory.cli.main import main

signal.signal(signal.SIGHUP, signal.SIG_IGN)
main()
"""


def test_a_server_that_nohup_has_started_outlives_its_terminal(tmp_path: Path) -> None:
    server = Running(tmp_path, start=["-c", UNDER_NOHUP])
    server.process.send_signal(signal.SIGHUP)
    assert server.call("list_sessions")["success"]
    server.process.terminate()
    assert server.process.wait(60) == 0


def test_ctrl_c_lets_workers_answer_what_they_have_begun_and_what_waits_for_changes(tmp_path: Path) -> None:
    """A terminal and systemd send a signal to each process, and the supervisor sends its workers another one."""
    body = body_of("search_changes", session_id="s", since="now", wait=MAX_WAIT)
    with running(tmp_path, "--workers", "2") as server, socket.create_connection(server.address) as client:
        client.sendall(head(server, len(body)) + body)
        answer = b""
        while b" 200 " not in answer:  # until the tool has been called
            answer += client.recv(2**16)
        for process in (*workers_of(server), server.process.pid):
            os.kill(process, signal.SIGINT)
        answer += b"".join(iter(lambda: client.recv(2**16), b""))
        assert b'"success":true' in answer
        assert server.process.wait(60) == 0


def test_workers_that_nohup_has_started_outlive_the_terminal_and_a_second_signal_ends_them_at_once(
    tmp_path: Path,
) -> None:
    server = Running(tmp_path, "--workers", "2", start=["-c", UNDER_NOHUP])
    for process in (*workers_of(server), server.process.pid):
        os.kill(process, signal.SIGHUP)
    with socket.create_connection(server.address) as client:
        client.sendall(head(server, 9))
        assert b" 100 " in client.recv(100)  # its worker waits for the body
        left = workers_of(server)
        server.process.terminate()
        eventually(lambda: sum(map(is_running, left)) == 1)
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert not any(map(is_running, left))


def test_a_client_that_neither_sends_nor_reads_delays_no_other(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        strangers = [socket.create_connection(server.address) for _ in range(500)]
        for stranger in strangers[:250]:
            stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        assert server.call("list_sessions")["success"]
        for stranger in strangers:
            stranger.close()
        assert server.call("list_sessions")["success"]


def test_a_port_that_is_in_use_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = finished("serve", "--http", "--port", port, cwd=tmp_path)
    assert ended.returncode == 2
    assert f"Cannot listen on 127.0.0.1, port {port}" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["alone", "workers"])
@pytest.mark.parametrize("wrong", ["data-dir", "tokens", "tls-cert", "missing", "pipe"])
def test_files_that_cannot_be_used_are_an_error_and_not_tried_again(
    tmp_path: Path, wrong: str, flags: tuple[str, ...]
) -> None:
    nonsense, missing, pipe = tmp_path / "nonsense", tmp_path / "missing", tmp_path / "pipe"
    nonsense.write_text("nonsense")
    os.mkfifo(pipe)
    (tmp_path / "teams.db").write_text("nonsense")  # what is looked at last
    files = {"data-dir": tmp_path} | {
        "data-dir": {"data-dir": nonsense},
        "tokens": {},
        "tls-cert": {"tls-cert": nonsense, "tls-key": nonsense},
        "missing": {"tls-cert": missing, "tls-key": missing},
        "pipe": {"tls-cert": pipe, "tls-key": pipe},
    }[wrong]
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    ended = finished("serve", "--http", "--port", "0", *words, *flags, cwd=tmp_path)
    assert ended.returncode in (1, 2)
    assert re.search("cannot be (used|read)", ended.stderr)
    assert "Traceback" not in ended.stderr


def test_a_server_with_a_certificate_speaks_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with running(tmp_path / "data", "--tls-cert", str(certificate), "--tls-key", str(key)) as server:
        assert server.url.startswith("https://")
        assert post(server.url, server.secret, verify=False).status_code == 200


def test_no_token_is_in_the_log(tmp_path: Path) -> None:
    with running(tmp_path, VECTOR_MEMORY_LOG_LEVEL="DEBUG") as server:
        server.call("list_sessions")
        post(f"{server.url}?token={server.secret}", server.secret)
        post(server.url, "vm_wrong_token")
    log = server.log.read_text()
    assert server.secret not in log
    assert "vm_wrong_token" not in log
    assert json.dumps("list_sessions")[1:-1] in log
