"""namespace, token and audit: what they do, print and refuse."""

import json
import re
from pathlib import Path

import pytest

from commands.conftest import Run
from vector_memory.domain.callers import Caller, Permission
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.registry import Quota, Registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the namespace web, named by the variable."""
    monkeypatch.setenv("VECTOR_MEMORY_DATA_DIR", str(tmp_path / "data"))
    Registry(tmp_path / "data").create("web")
    return tmp_path / "data"


def test_a_namespace_is_created_with_limits_listed_and_limited_again(run: Run, folder: Path) -> None:
    created = run("namespace", "create", "api", "--max-memories", "10")
    assert "Created the namespace api. Next: `vector-memory token create" in created.out
    assert run("namespace", "list").out == "api\nweb\n"
    assert json.loads(run("namespace", "list", "--json").out) == {"namespaces": ["api", "web"]}
    assert json.loads(run("namespace", "create", "ops", "--json").out) == {"namespace": "ops"}
    run("namespace", "limit", "api", "--calls-per-minute", "5", "--max-mb", "7")
    assert Registry(folder).quota("api") == Quota(calls_per_minute=5, megabytes=7)


@pytest.mark.parametrize("name", ["", "../web", "Web", "a/b", "x" * 65, "-web", "web.db"])
def test_a_name_that_is_no_name_of_a_namespace_is_refused(run: Run, folder: Path, name: str) -> None:
    assert run("namespace", "create", "--", name).code != 0
    assert Registry(folder).names() == ["web"]


def test_a_name_in_use_is_refused(run: Run, folder: Path) -> None:  # noqa: ARG001
    assert "A namespace named web already exists" in run("namespace", "create", "web").err
    run("token", "create", "ada", "--namespace", "web")
    assert "A token named ada already exists" in run("token", "create", "ada", "--namespace", "web").err


@pytest.mark.parametrize("name", ["teams.db", "namespaces/web"])
def test_a_data_folder_that_lacks_a_part_says_how_to_go_on(run: Run, folder: Path, name: str) -> None:
    """As one of an earlier version: it had no teams.db."""
    (folder / name).rename(folder / "gone")
    assert "namespace create " in run("token", "create", "ada", "--namespace", "web").err
    assert run("namespace", "create", "web", "--max-mb", "7").code == 0
    assert Registry(folder).quota("web") == Quota(megabytes=7)


def test_a_token_is_shown_once_and_only_its_hash_is_kept(run: Run, folder: Path) -> None:
    made = run(
        "token", "create", "ada", "--namespace", "web", "--scope", "write", "--expires", "90d", "--agent", "scout"
    )
    secret = made.out.strip()
    assert re.fullmatch(r"vm_[\w-]{43}", secret)
    assert "shown once" in made.err
    assert secret.encode() not in (folder / "teams.db").read_bytes()
    assert (folder / "teams.db").stat().st_mode & 0o077 == 0
    found = Registry(folder).tokens.find(secret)
    assert (found.permission, found.agent_id, found.sessions) == ("write", "scout", None)
    listed = run("token", "list").out
    assert secret not in listed
    assert re.search(r"ada\s+web\s+write\s+all\s+scout\s+20\d\d-", listed)


def test_tokens_are_listed_and_revoked(run: Run, folder: Path) -> None:
    secret = json.loads(run("token", "create", "bob", "--namespace", "web", "--session", "s1", "--json").out)["token"]
    listed = json.loads(run("token", "list", "--json").out)["tokens"]
    assert [(one["name"], one["scope"], one["sessions"], one["expired"]) for one in listed] == [
        ("bob", "read", ["s1"], False)
    ]
    assert "Revoked bob" in run("token", "revoke", "bob").out
    assert Registry(folder).tokens.find(secret) is None
    assert "There is no token bob" in run("token", "revoke", "bob").err
    assert run("token", "list").out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["token", "create", "ada"], "`vector-memory token create ada --namespace NAMESPACE`"),
        (["token", "create", "ada", "--namespace", "nope"], "There is no namespace nope"),
        (["token", "create", "Ada", "--namespace", "web"], "A token's name has"),
        (["token", "create", "ada", "--namespace", "web", "--expires", "soon"], '--expires is "soon"'),
        (["token", "create", "ada", "--namespace", "web", "--scope", "root"], "read, write or admin"),
        (["token", "revoke"], "`vector-memory token revoke NAME`"),
        (["namespace", "create"], "`vector-memory namespace create NAME`"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_to_do(run: Run, folder: Path, words: list[str], said: str) -> None:
    ended = run(*words)
    assert ended.code in (1, 2)
    assert said in ended.err
    assert Registry(folder).tokens.tokens() == ()


def test_without_a_data_folder_the_flag_is_named(run: Run) -> None:
    for command in (["namespace", "list"], ["token", "list"]):
        ended = run(*command)
        assert (ended.code, "--data-dir" in ended.err) == (2, True)


def test_a_damaged_file_of_tokens_is_an_error_that_says_what_to_do(run: Run, folder: Path) -> None:
    (folder / "teams.db").write_text("[{")
    assert "restore teams.db" in run("token", "list").err


def test_the_audit_log_is_printed_filtered_and_checked(run: Run, folder: Path) -> None:
    log = AuditLog(folder)
    log.prepare()
    for name in ("ada", "bob"):
        caller = Caller(name=name, namespace="web", permission=Permission.READ)
        log.record(caller, "get_memory_by_id", ids={"memory_id": [7]})
    assert re.search(r"ada web get_memory_by_id memory_id=7", run("audit").out)
    assert "ada" not in run("audit", "--token", "bob").out
    assert run("audit", "--namespace", "api").out == ""
    assert json.loads(run("audit", "--token", "ada", "--json").out)["ids"] == {"memory_id": [7]}
    assert run("audit", "--verify").out == "The audit log is intact.\n"
    newest = list(log.lines())[-1]["signature"]
    facts = {"intact": True, "lines": 2, "missing": 0, "newest": newest, "unfinished": False}
    assert json.loads(run("audit", "--verify", "--json").out) == facts
    path = log.files()[0]
    path.write_bytes(path.read_bytes().replace(b"ada", b"eve"))
    ended = run("audit", "--verify")
    assert ended.code == 1
    assert f"{path.name}, line 1: it does not follow from the line before" in ended.err


def test_what_the_audit_log_lacks_is_said_and_is_no_alarm(run: Run, folder: Path) -> None:
    log, caller = AuditLog(folder), Caller(name="ada", namespace="web", permission=Permission.READ)
    log.prepare()
    log.record(caller, "list_sessions", ids={"session_id": ["s\ud800"]})
    with log.files()[0].open("ab") as stream:
        stream.write(b'{"at')
    said = run("audit", "--verify")
    assert (said.code, "intact. The last line is incomplete: a full disk" in said.out) == (0, True)
    log.record(caller, "list_sessions", ids={})
    assert "intact. It notes that 1 call could not be recorded." in run("audit", "--verify").out
    printed = run("audit").out.splitlines()
    assert [line.endswith("after 1 missing call") for line in printed] == [False, True]
    assert "session_id=s\\ud800" in printed[0]


def test_the_audit_log_is_checked_with_the_key_of_its_server_only(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("audit", "--verify").out == "The audit log is intact.\n"
    own, other = (AuditLog(folder, tmp_path / name) for name in ("own", "other"))
    for log in (own, other):
        log.prepare()
    own.record(Caller(name="ada", namespace="web", permission=Permission.READ), "list_sessions", ids={})
    monkeypatch.setenv("VECTOR_MEMORY_AUDIT_KEY", str(other.key_file))
    assert "--audit-key names another key than the server's" in run("audit", "--verify").err
    assert run("audit", "--verify", "--audit-key", str(own.key_file)).out == "The audit log is intact.\n"
    own.key_file.unlink()
    assert "cannot be read: No such file" in run("audit", "--verify", "--audit-key", str(own.key_file)).err
    assert "must not be in the data folder" in run("audit", "--audit-key", str(folder / "key")).err
