"""What connections are refused, in which words, and that no secret is in them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster
from forked import finished
from tls_front import tls_front, write_certificate
from vector_memory.errors import CancelledCallError, ConfigurationError, DatabaseError
from vector_memory.extras.postgres import connecting
from vector_memory.extras.postgres.connecting import connect
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import UnreachableError
from vector_memory.settings import DatabaseUrl
from vector_memory.storage.cancellation import Call, current_call

SECRET = "open-sesame"  # noqa: S105 - of a server that lives for a moment


def answers(url: str, **options: object) -> bool:
    with connect(DatabaseUrl.parse(url, **options).conninfo()) as connection:
        return connection.execute("select 1").fetchall() == [(1,)]


def socket_of(cluster: Cluster) -> Path:
    return cluster.folder / ".s.PGSQL.5432"


@pytest.fixture
def guarded(cluster: Cluster) -> Iterator[str]:
    """Yields the address of a database for whose role `guarded` the server wants a password."""
    rules = cluster.data / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"create role guarded login password '{SECRET}'")
        try:
            rules.write_text(f"local all guarded scram-sha-256\n{before}")
            cluster.reload()
            yield cluster.url(user="guarded")
        finally:
            connection.execute("drop role guarded")
            rules.write_text(before)
            cluster.reload()


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_new_connection_that_nobody_waits_for_any_more_is_closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connection] = []
    ask = connecting.note_server
    monkeypatch.setattr(connecting, "note_server", lambda connection: (made.append(connection), ask(connection)))
    token = current_call.set(call := Call())
    call.cancelled = True
    try:
        with pytest.raises(CancelledCallError):
            connect(cluster.url())
    finally:
        current_call.reset(token)
    assert [connection.closed for connection in made] == [True]


def test_a_password_comes_from_the_environment_or_a_file(
    guarded: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(DatabaseError, match="refused the user or the password"):
        answers(guarded)
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    assert answers(guarded, password_file=file)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert answers(guarded)
    monkeypatch.delenv("PGPASSWORD")
    passes = tmp_path / "passes"
    passes.write_text(f"*:*:*:guarded:{SECRET}\n")
    passes.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passes))
    assert answers(guarded)


def test_a_wrong_password_is_in_no_part_of_the_error(guarded: str) -> None:
    with pytest.raises(DatabaseError) as refused:
        answers(f"{guarded}&password={SECRET}-of-another")
    said = f"{refused.value!r} {refused.value.__notes__} {refused.value.__cause__} {refused.value.__suppress_context__}"
    assert SECRET not in said
    assert "postgres at /" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda url: url.replace("postgres@", "nobody-here@"), "refused the user"),
        (lambda url: url.replace("/postgres?", "/nothing-here?"), "does not exist"),
    ],
    ids=["role", "database"],
)
def test_a_role_or_database_that_does_not_exist_is_said(
    cluster: Cluster, change: Callable[[str], str], said: str
) -> None:
    with pytest.raises(DatabaseError, match=said):
        answers(change(cluster.url()))


def test_of_several_hosts_the_one_that_has_refused_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for hosts in (f"/nowhere,{cluster.folder}", f"{cluster.folder},/nowhere"):
        with pytest.raises(DatabaseError, match="refused the user") as refused:
            answers(f"postgresql://nobody-here@/postgres?host={hosts}")
        assert refused.value.__notes__ == [f"The database is postgres at {cluster.folder}."]
    with pytest.raises(UnreachableError) as away:
        answers("postgresql:///x?host=/nowhere,/nowhere-else")
    assert away.value.__notes__ == ["The database is x at /nowhere."]  # the doctor names all of them
    monkeypatch.setenv("PGHOST", "/nowhere")
    with pytest.raises(UnreachableError) as away:
        answers("postgresql:///x")
    assert "The database is x at /nowhere" in away.value.__notes__[0]


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/x", "postgresql:///x?host=/nowhere"])
def test_a_server_that_does_not_answer_is_said_to_be_unreachable(url: str) -> None:
    with pytest.raises(UnreachableError, match="cannot be reached"):
        answers(url)


def test_a_parameter_that_libpq_does_not_know_is_a_mistake_in_the_url(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="unknown or invalid"):
        answers(f"{cluster.url()}&colour=blue")


def test_a_certificate_of_a_trusted_authority_for_the_host_is_accepted(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = write_certificate(tmp_path, "localhost")
    with tls_front(socket_of(cluster), certificate) as port:
        url = f"postgresql://postgres@localhost:{port}/postgres?sslmode=verify-full"
        assert answers(f"{url}&sslrootcert={certificate}")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # which OpenSSL takes for the system's
        assert answers(f"{url}&sslrootcert=system")


def test_a_certificate_of_a_strange_authority_or_for_another_host_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    certificate, other = write_certificate(tmp_path, "localhost"), write_certificate(tmp_path, "db.example.com")
    with tls_front(socket_of(cluster), certificate) as port:
        url = f"postgresql://postgres@localhost:{port}/postgres?sslmode=verify-full"
        for authority in ("system", other):
            with pytest.raises(DatabaseError, match="not from an authority"):
                answers(f"{url}&sslrootcert={authority}")
        with pytest.raises(DatabaseError, match="check sslrootcert"):
            answers(url)
    with tls_front(socket_of(cluster), other) as port:
        url = f"postgresql://postgres@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={other}"
        with pytest.raises(DatabaseError, match="not for this host"):
            answers(url)


def test_a_server_without_tls_is_refused_where_tls_is_required(cluster: Cluster) -> None:
    with tls_front(socket_of(cluster), None) as port:
        url = f"postgresql://postgres@localhost:{port}/postgres"
        assert answers(url)
        with pytest.raises(DatabaseError, match="--database-unencrypted"):
            answers(f"{url}?sslmode=require")


def test_no_password_is_in_the_list_of_processes_or_the_output_of_a_command(guarded: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET)
    words = ["vector-memory", "stats", "--database-url", guarded, "--database-password-file", str(file)]
    ended = finished(*words[1:])
    assert "prepare" in ended.stderr  # it came in, and may create nothing
    assert SECRET not in ended.stderr + ended.stdout + " ".join(words)
