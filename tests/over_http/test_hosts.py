"""Several hosts over one PostgreSQL database: they share namespaces, quotas, tokens and memories."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from clusters import Cluster, running_cluster
from over_http.calling import called, post
from over_http.conftest import ALL_TOOLS, SETTINGS, running
from vector_memory.cli import arguments, commands
from vector_memory.domain.callers import Permission
from vector_memory.errors import ConfigurationError, NotFoundError, ValidationError
from vector_memory.extras.postgres.engine import prepare_database
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.server.http.serving import application
from vector_memory.settings import DatabaseUrl, HttpOptions, ServerOptions


@dataclass
class Hosts:
    """Servers of one database. `registry`: that of the role that owns it; the servers have a role that serves."""

    cluster: Cluster
    registry: Registry
    folder: Path
    running: ExitStack
    urls: list[str] = field(default_factory=list)

    def start(self, role: str = "server", offer: ServerOptions = ALL_TOOLS) -> str:
        """Start one more server, with a data folder of its own."""
        folder = self.folder / f"host-{len(self.urls)}"
        address = DatabaseUrl.parse(self.cluster.url("team", role))
        app = application(address, SETTINGS, [folder], offer, HttpOptions(http=True, data_dir=folder))
        self.urls.append(self.running.enter_context(running(app)))
        return self.urls[-1]

    def token(self, name: str, namespace: str = "red", permission: str = "admin", **limits: Any) -> str:
        return self.registry.tokens.create(name, namespace, Permission(permission), **limits)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Two running hosts over a database with the namespaces red and blue."""
    with ExitStack() as stack, running_cluster() as cluster:
        url = cluster.create_database("team")
        with psycopg.connect(cluster.url(), autocommit=True) as connection:
            for role in ("server", "reader"):
                connection.execute(f"create role {role} login")
        prepare_database(DatabaseUrl.parse(url), dimensions=384, serving=["server"], reading=["reader"])
        registry = stack.enter_context(closing(Registry(DatabaseUrl.parse(url))))
        registry.create("red")
        registry.create("blue")
        made = Hosts(cluster, registry, tmp_path_factory.mktemp("hosts"), stack)
        made.start()
        made.start()
        yield made
        stack.close()


def test_what_one_host_stores_another_finds_and_another_namespace_does_not(hosts: Hosts) -> None:
    one, other = hosts.urls[:2]
    ada, bob = hosts.token("ada"), hosts.token("bob", "blue")
    report = {"agent_id": "a", "session_id": "shared", "content": "# Outage\n\nThe ledger was locked."}
    assert called(one, ada, "store_report", **report)["success"]
    found = called(other, ada, "search_reports_specific_chunks", query="ledger", session_id="shared")
    assert len(found["results"]) == 1
    assert not called(other, bob, "search_reports_specific_chunks", query="ledger")["results"]
    assert called(other, bob, "get_memory_by_id", memory_id=found["results"][0]["memory_id"])["error"]


def test_a_revoked_token_is_refused_by_every_host_at_the_next_call(hosts: Hosts) -> None:
    secret = hosts.token("brief")
    assert [post(url, secret).status_code for url in hosts.urls[:2]] == [200, 200]
    hosts.registry.tokens.revoke("brief")
    assert [post(url, secret).status_code for url in hosts.urls[:2]] == [401, 401]
    with pytest.raises(NotFoundError):
        hosts.registry.tokens.revoke("brief")


def test_tokens_keep_their_limits_in_the_database(hosts: Hosts) -> None:
    limited = hosts.token("limited", permission="write", sessions=("mine",), agent_id="only-me", expires_at=4e9)
    token = next(token for token in hosts.registry.tokens.tokens() if token.name == "limited")
    assert (token.sessions, token.agent_id, token.expires_at) == (("mine",), "only-me", 4e9)
    report = {"agent_id": "only-me", "content": "# X\n\nText."}
    assert called(hosts.urls[0], limited, "store_report", session_id="mine", **report)["success"]
    assert called(hosts.urls[1], limited, "store_report", session_id="other", **report)["error"] == "AccessDenied"
    with psycopg.connect(hosts.cluster.url("team")) as connection:
        assert limited not in str(connection.execute("select * from vector_memory.tokens").fetchall())
    with pytest.raises(ValidationError, match="already"):
        hosts.token("limited")
    assert post(hosts.urls[0], hosts.token("expired", expires_at=1.0)).status_code == 401


def test_a_quota_holds_on_every_host(hosts: Hosts) -> None:
    hosts.registry.create("small")
    hosts.registry.set_quota("small", Quota(memories=1))
    secret = hosts.token("smith", "small")
    report = {"agent_id": "a", "session_id": "s"}
    assert called(hosts.urls[0], secret, "store_report", content="# 1\n\nText.", **report)["success"]
    assert called(hosts.urls[1], secret, "store_report", content="# 2\n\nText.", **report)["error"] == "QuotaExceeded"
    hosts.registry.create("tiny")
    hosts.registry.set_quota("tiny", Quota(megabytes=0))
    tiny = hosts.token("tim", "tiny")
    assert called(hosts.urls[0], tiny, "store_report", content="# 1\n\nText.", **report)["error"] == "QuotaExceeded"


def test_names_of_namespaces_are_checked_like_names_of_schemas(hosts: Hosts) -> None:
    for name in ("", "Red", "x" * 61, 'a"b', "../x"):
        with pytest.raises(ValidationError, match="up to 60"):
            hosts.registry.create(name)
    with pytest.raises(ValidationError, match="already"):
        hosts.registry.create("red")
    hosts.registry.create("a-b_" + "x" * 56)
    with pytest.raises(NotFoundError, match="namespace create gone"):
        hosts.registry.require("gone")
    with pytest.raises(NotFoundError):
        hosts.registry.set_quota("gone", Quota())
    assert {"red", "blue"} <= set(hosts.registry.names())


def test_all_hosts_seal_questions_with_the_same_key_and_keep_a_signed_audit_log_each(hosts: Hosts) -> None:
    assert len(hosts.registry.key()) == 32
    secret = hosts.token("carol")
    for url in hosts.urls[:2]:
        called(url, secret)
    for number in range(2):
        log = AuditLog(hosts.folder / f"host-{number}")
        assert log.verify().broken is None
        assert ("carol", "list_sessions") in [(line["token"], line["call"]) for line in log.lines()]


def test_a_read_only_host_reads_and_stores_nothing(hosts: Hosts) -> None:
    url, secret = hosts.start(offer=ServerOptions(read_only=True)), hosts.token("dora")
    report = {"agent_id": "a", "session_id": "readable", "content": "# Outage\n\nThe ledger was locked."}
    assert called(hosts.urls[0], secret, "store_report", **report)["success"]
    found = called(url, secret, "search_reports_specific_chunks", query="ledger", session_id="readable")
    assert len(found["results"]) == 1
    assert called(url, secret, "get_memory_by_id", memory_id=found["results"][0]["memory_id"])["success"]
    assert called(url, secret, "store_report", content="x")["error"]


def test_a_host_whose_role_may_not_read_the_tokens_does_not_start_and_says_what_to_do(hosts: Hosts) -> None:
    with pytest.raises(ConfigurationError, match="database prepare --database-url URL --serve ROLE"):
        hosts.start("reader", ServerOptions(read_only=True))


def test_figures_name_the_sizes_of_namespaces(hosts: Hosts) -> None:
    bearer = {"Authorization": f"Bearer {hosts.token('erin')}"}
    said = httpx2.get(hosts.urls[0].replace("/mcp", "/metrics"), headers=bearer).text
    assert 'vector_memory_database_bytes{namespace="red"} ' in said


def test_while_the_database_is_away_hosts_say_so_and_go_on_when_it_is_back(hosts: Hosts) -> None:
    one, other = hosts.urls[:2]
    secret, unseen = hosts.token("frank"), hosts.token("gina")
    bearer = {"Authorization": f"Bearer {secret}"}
    ready, alive = one.replace("/mcp", "/readyz"), one.replace("/mcp", "/healthz")
    assert httpx2.get(ready, headers=bearer).status_code == 200
    hosts.cluster.stop()
    try:
        refused = httpx2.get(ready, headers=bearer)
        assert (refused.status_code, "cannot be reached" in refused.text) == (503, True)
        assert httpx2.get(alive).status_code == 200
        assert called(one, secret)["error"] == "DatabaseError"
        stranger = post(other, unseen)
        assert (stranger.status_code, "retry-after" in stranger.headers) == (503, True)
        assert "vector_memory_calls_total" in httpx2.get(one.replace("/mcp", "/metrics"), headers=bearer).text
    finally:
        hosts.cluster.start()
    assert httpx2.get(ready, headers=bearer).status_code == 200
    assert called(one, secret)["success"]
    assert called(other, unseen)["success"]


def test_commands_manage_the_namespaces_and_tokens_of_a_database(
    hosts: Hosts, capsys: pytest.CaptureFixture[str]
) -> None:
    url = hosts.cluster.url("team")

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            arguments.run(commands.app, [*words, "--database-url", url])
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert "schemas: memory, ns_" in run("database", "prepare", "--serve", "server")
    assert "Created the namespace green" in run("namespace", "create", "green", "--max-memories", "5")
    assert "green" in run("namespace", "list").split()
    secret = run("token", "create", "hal", "--namespace", "green", "--scope", "write").strip()
    assert "hal" in run("token", "list")
    assert called(hosts.urls[0], secret)["success"]
    run("token", "revoke", "hal")
    assert post(hosts.urls[0], secret).status_code == 401


def test_a_database_without_namespaces_says_how_to_make_them(hosts: Hosts) -> None:
    url = hosts.cluster.create_database("bare")
    with (
        closing(Registry(DatabaseUrl.parse(url))) as registry,
        pytest.raises(ConfigurationError, match="vector-memory database prepare"),
    ):
        registry.names()
