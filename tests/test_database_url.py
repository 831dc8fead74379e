"""The address of a memory in PostgreSQL: what is accepted, how connections are guarded, and that no password shows."""

import sys
from pathlib import Path

import pytest

from forked import finished
from vector_memory import SessionMemoryStore
from vector_memory.errors import ConfigurationError
from vector_memory.settings import DatabaseLocation, DatabaseUrl, full_path
from vector_memory.settings.database_url import has_password

SECRET = "open-sesame"  # noqa: S105 - of no database


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def parameters(address: DatabaseUrl) -> set[str]:
    return {pair for pair in address.url.partition("?")[2].split("&") if pair}


def test_a_url_names_host_database_and_schema() -> None:
    address = DatabaseUrl.parse("postgresql://ada@localhost:5433/team?schema=research&connect_timeout=3")
    assert (address.hosts, address.database, address.schema) == (("localhost",), "team", "research")
    assert address.conninfo() == "postgresql://ada@localhost:5433/team?connect_timeout=3"
    assert str(address) == "postgresql://localhost/team?schema=research"


def test_the_schema_is_memory_unless_the_url_names_another() -> None:
    assert DatabaseUrl.parse("postgres:///team").schema == "memory"


def test_several_hosts_sockets_and_ipv6_addresses_are_read_as_libpq_reads_them() -> None:
    assert DatabaseUrl.parse("postgresql://[::1]:5432,localhost:5433/team").hosts == ("::1", "localhost")
    assert DatabaseUrl.parse("postgresql://%2Frun%2Fpg/team").hosts == ("/run/pg",)
    assert DatabaseUrl.parse("postgresql:///team?host=/run/pg").hosts == ("/run/pg",)
    assert DatabaseUrl.parse("postgresql://db.example.com/team?hostaddr=127.0.0.1").hosts == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("name", "value", "url"),
    [
        ("PGHOST", "db.example.com", "postgresql:///team"),
        ("PGHOSTADDR", "192.0.2.1", "postgresql://localhost/team"),
        ("PGSERVICE", "team", "postgresql:///team"),
        ("PGSERVICE", "team", "postgresql://localhost/team"),  # it may say where that is
    ],
)
def test_a_host_from_the_environment_counts_as_one_from_the_url(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, url: str
) -> None:
    assert "sslmode=verify-full" not in parameters(DatabaseUrl.parse(url))
    monkeypatch.setenv(name, value)
    assert "sslmode=verify-full" in parameters(DatabaseUrl.parse(url))


def test_a_url_says_how_many_connections_a_process_opens_at_most() -> None:
    address = DatabaseUrl.parse("postgresql:///team?connections=4&connect_timeout=3")
    assert (address.connections, address.of_namespace("a").connections) == (4, 4)
    assert "connections" not in address.conninfo()
    for wrong in ("1", "0", "-2", "1000", "many", ""):
        with pytest.raises(ConfigurationError, match="from 2 to 999"):
            DatabaseUrl.parse(f"postgresql:///team?connections={wrong}")


def test_a_url_says_that_a_pooler_carries_prepared_statements() -> None:
    assert DatabaseUrl.parse("postgresql:///team?pooler=prepared").of_namespace("a").hosts
    with pytest.raises(ConfigurationError, match="write prepared"):
        DatabaseUrl.parse("postgresql:///team?pooler=yes")


@pytest.mark.parametrize("schema", ["public; drop table x", "Memory", "pg_temp", "vector_memory", "a" * 64, ""])
def test_a_schema_that_is_no_plain_name_or_not_for_memories_is_refused(schema: str) -> None:
    with pytest.raises(ConfigurationError, match="schema"):
        DatabaseUrl.parse(f"postgresql:///team?schema={schema}")


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://ada:{SECRET}@host/team", f"postgresql://ada:{SECRET}/x@host/team", f"postgresql://ada:{SECRET}%zz@h/t",
        f"postgresql://ada:{SECRET}@db.example.com/team?sslmode=disable",
        f"postgresql://ada:{SECRET}@localhost/team?sslmode=perhaps",
        f"postgresql://ada:{SECRET}@localhost/team?schema=A",
    ],
)  # fmt: skip
def test_an_unusable_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        DatabaseUrl.parse(url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "%2Frun%2Fpg", ""])
def test_a_connection_within_this_machine_needs_no_tls(host: str) -> None:
    assert parameters(DatabaseUrl.parse(f"postgresql://{host}/team")) == set()


def test_a_connection_to_another_machine_is_encrypted_and_verified_with_the_systems_authorities() -> None:
    address = DatabaseUrl.parse("postgresql://db.example.com/team")
    assert parameters(address) == {"sslmode=verify-full", "sslrootcert=system"}
    assert "sslmode=verify-full" in parameters(DatabaseUrl.parse("postgresql://localhost,db.example.com/team"))


def test_named_authorities_are_used_instead_of_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = "postgresql://db.example.com/team"
    assert parameters(DatabaseUrl.parse(f"{remote}?sslrootcert=/ca.pem")) == {
        "sslmode=verify-full",
        "sslrootcert=/ca.pem",
    }
    monkeypatch.setenv("PGSSLROOTCERT", "/ca.pem")
    assert parameters(DatabaseUrl.parse(remote)) == {"sslmode=verify-full"}
    monkeypatch.delenv("PGSSLROOTCERT")
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql/root.crt").touch()
    assert parameters(DatabaseUrl.parse(remote)) == {"sslmode=verify-full"}


def test_a_mode_that_encrypts_wins_and_one_that_may_not_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote = "postgresql://db.example.com/team"
    assert parameters(DatabaseUrl.parse(f"{remote}?sslmode=require")) == {"sslmode=require"}
    for mode in ("disable", "allow", "prefer"):
        with pytest.raises(ConfigurationError, match=r"verify-full.*--database-unencrypted"):
            DatabaseUrl.parse(f"{remote}?sslmode={mode}")
        assert parameters(DatabaseUrl.parse(f"{remote}?sslmode={mode}", unencrypted=True)) == {f"sslmode={mode}"}
    assert parameters(DatabaseUrl.parse(remote, unencrypted=True)) == set()
    monkeypatch.setenv("PGSSLMODE", "prefer")
    with pytest.raises(ConfigurationError, match="sslmode=prefer"):
        DatabaseUrl.parse(remote)


def test_no_password_is_in_the_text_of_an_address() -> None:
    for url in (f"postgresql://ada:{SECRET}@localhost/team", f"postgresql://localhost/team?password={SECRET}"):
        address = DatabaseUrl.parse(url)
        assert SECRET not in f"{address} {address!r}"
        assert SECRET in address.conninfo()
        location = DatabaseLocation(database_url=url)
        assert SECRET not in f"{location} {location!r}"


def test_a_password_is_read_from_its_file_without_the_end_of_the_line(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a b/ü&?\n", encoding="utf-8")
    address = DatabaseUrl.parse("postgresql://ada@localhost/team", password_file=file)
    assert address.conninfo() == "postgresql://ada@localhost/team?password=a%20b%2F%C3%BC%26%3F"
    with pytest.raises(ConfigurationError, match="use one of them"):
        DatabaseUrl.parse(f"postgresql://ada:{SECRET}@localhost/team", password_file=file)


def test_a_password_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    address = DatabaseUrl.parse("postgresql:///team", password_file=tmp_path / "password")
    with pytest.raises(ConfigurationError, match="No such file"):
        address.conninfo()
    (tmp_path / "password").touch()
    with pytest.raises(ConfigurationError, match="empty"):
        address.conninfo()


def test_a_url_with_a_password_is_recognized() -> None:
    assert has_password(f"postgresql://ada:{SECRET}@localhost/team")
    assert has_password(f"postgresql://localhost/team?password={SECRET}")
    assert has_password(f"postgresql://ada:{SECRET}/@localhost/team")
    assert not has_password("postgresql://ada@localhost:5432/team?passfile=/x")
    assert not has_password("the password of ada@localhost")


def test_a_password_on_the_command_line_is_warned_of_and_repeated_nowhere(tmp_path: Path) -> None:
    url = f"postgresql://ada:{SECRET}@localhost/team?host={tmp_path}"
    for words in (["stats", "--database-url", url], ["copy", tmp_path / "memory.db", url]):
        ended = finished(*words)
        assert ended.returncode != 0
        assert "Every user of this machine can see the password" in ended.stderr
        assert SECRET not in ended.stderr + ended.stdout


def test_a_path_and_a_url_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        DatabaseLocation(database_path=tmp_path / "my.db", database_url="postgresql:///team")


def test_with_a_url_documents_are_written_in_the_folder_of_the_project(tmp_path: Path) -> None:
    place = DatabaseLocation(working_dir=tmp_path, database_url="postgresql:///team")
    assert str(place.address()) == "postgresql://localhost/team"
    assert place.folder() == tmp_path / "memory"


def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("vector_memory.extras.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r'pip install "psycopg\[binary\]"'):
        SessionMemoryStore("postgresql:///team")


@pytest.mark.parametrize(
    "given", [f"Postgresql://ada:{SECRET}@db/team", f"postgres:/ada:{SECRET}@db/team", f"https://ada:{SECRET}@db/team"]
)
def test_a_url_in_the_place_of_a_path_is_refused_and_not_repeated(given: str) -> None:
    for attempt in (lambda: SessionMemoryStore(given), lambda: full_path(Path(given))):
        with pytest.raises(ConfigurationError, match="A URL was given where a path") as refused:
            attempt()
        assert SECRET not in str(refused.value)


def test_a_url_given_as_the_path_of_a_file_is_in_no_output(tmp_path: Path) -> None:
    url = f"postgresql://ada:{SECRET}@127.0.0.1:1/team"
    for command in (["stats", "--database-path", url], ["copy", url.title(), "copy.db"], ["restore", url]):
        ended = finished(*command, cwd=tmp_path)
        assert ended.returncode == 2
        assert SECRET not in (ended.stdout + ended.stderr).lower()
    assert list(tmp_path.iterdir()) == []


def test_parameters_without_a_question_mark_are_not_taken_for_the_name_of_a_database() -> None:
    with pytest.raises(ConfigurationError, match="is invalid"):
        DatabaseUrl.parse(f"postgresql://ada@localhost/team&password={SECRET}")
    assert DatabaseUrl.parse("postgresql://ada@localhost/a%26b").database == "a&b"


def test_the_password_of_a_key_counts_as_a_password() -> None:
    assert has_password(f"postgresql://ada@db/team?sslpassword={SECRET}")
    assert has_password(f"POSTGRESQL://ada:{SECRET}@db/team")
