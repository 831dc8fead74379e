"""Every setting, documented once for the command line, the environment and docs/configuration.md."""

import os
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from vector_memory.domain import SearchMode
from vector_memory.errors import ConfigurationError

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_DIM = 384
MAX_RESPONSE_TOKENS = 1_000_000

MEMORY_FOLDER = "memory"
"""Folder of a project that holds its memory and its memory files."""

EXPORT_FOLDER = "exports"
"""Folder beside a memory that documents are written to."""

DATABASE_NAME = "agent_session_memory.db"
"""Name of the memory there."""


def full_path(path: Path) -> Path:
    """Return `path` as an absolute path. No shell reads a client's settings file, so `~` is expanded here."""
    if "${" in str(path):
        raise ValueError("it contains a ${variable} that the client did not expand")
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("its ~ cannot be expanded to a home folder") from None


def _upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


FullPath = Annotated[Path, AfterValidator(full_path)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper_case)]
Synchronous = Annotated[Literal["FULL", "NORMAL"], BeforeValidator(_upper_case)]


class Settings(BaseModel):
    """What can be configured. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`; the flag wins.

    `--help` and docs/configuration.md show the descriptions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    embedding_model: str = Field(
        default=DEFAULT_MODEL,
        min_length=1,
        description="Embedding model; any other than the default needs the sentence-transformers extra.",
    )
    embedding_model_path: FullPath | None = Field(
        default=None,
        description="Folder with the model's files; default: the Hugging Face cache or the installed weights package.",
    )
    embedding_dim: int = Field(default=DEFAULT_DIM, ge=1, le=8192, description="Length of the model's vectors.")
    warm_start_embedding_model: bool = Field(
        default=True, description="Load the model in the background at start instead of at first use."
    )
    embedding_idle_seconds: float = Field(
        default=600,
        ge=0,
        description="Unload the model after this many seconds without use; the next use loads it again. 0: never.",
    )
    embed_in_background: bool = Field(
        default=True,
        description="Acknowledge a memory as soon as its text is stored, and compute its vectors in the background; "
        "otherwise the receipt waits for them.",
    )
    default_chunk_size: int = Field(default=450, ge=32, le=8192, description="Target size of a chunk, in tokens.")
    default_chunk_overlap: int = Field(
        default=50, ge=0, le=4096, description="Tokens that neighbouring chunks of one section share."
    )
    enable_enrichment: bool = Field(
        default=False,
        description="Embed the title, heading path and position together with each passage of reports and "
        "knowledge-base entries.",
    )
    search_mode: SearchMode = Field(
        default=SearchMode.HYBRID,
        description="What searches compare: meaning and words (hybrid), meaning only (vector), words only (keyword).",
    )
    vector_search_batch_size: int = Field(
        default=100,
        ge=1,
        le=4096,
        description="Number of candidates fetched first when results are filtered after the vector search.",
    )
    use_iterative_fetching: bool = Field(
        default=True,
        description="Fetch candidates in growing batches instead of scanning the filtered set; same results.",
    )
    use_threshold_filtering: bool = Field(
        default=False, description="Drop results whose similarity is below the similarity threshold."
    )
    similarity_threshold: float = Field(
        default=0.4, ge=0, le=1, description="Minimum similarity that threshold filtering keeps."
    )
    memory_limit: int = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="Maximum number of tagged memories; clear_old_memories makes room for more.",
    )
    auto_backfill_threshold: int = Field(
        default=1000,
        ge=0,
        description="At start, compute missing vectors in the background if fewer memories than this lack them; "
        "0: never.",
    )
    max_response_tokens: int = Field(
        default=15_000,
        ge=500,
        le=MAX_RESPONSE_TOKENS,
        description="Maximum length of a tool's answer, in tokens. Longer text is cut and marked; read on from an "
        "offset.",
    )
    log_slow_query_threshold: float = Field(
        default=2.0, ge=0, description="Log searches that take longer than this many seconds, and count them as slow."
    )
    log_level: LogLevel = Field(
        default="INFO", description="Minimum level of log records. Logs never contain stored content."
    )
    log_file: FullPath | None = Field(default=None, description="Log to this file in addition to standard error.")
    sqlite_synchronous: Synchronous = Field(
        default="FULL",
        description="FULL survives a power failure. NORMAL is faster and may lose the last few seconds.",
    )

    @model_validator(mode="after")
    def _length_is_the_models(self) -> "Settings":
        if self.embedding_model == DEFAULT_MODEL and self.embedding_dim != DEFAULT_DIM:
            raise refused_together(
                f"embedding_dim ({self.embedding_dim}) must be {DEFAULT_DIM}, the length of {DEFAULT_MODEL}'s vectors",
                "embedding_dim",
            )
        return self

    @model_validator(mode="after")
    def _overlap_leaves_room(self) -> "Settings":
        if self.default_chunk_overlap * 2 > self.default_chunk_size:
            raise refused_together(
                f"default_chunk_overlap ({self.default_chunk_overlap}) must be at most half of "
                f"default_chunk_size ({self.default_chunk_size})",
                "default_chunk_overlap",
                "default_chunk_size",
            )
        return self


SPECIFIED = frozenset((
    "embedding_model", "embedding_dim", "warm_start_embedding_model", "default_chunk_size", "default_chunk_overlap",
    "vector_search_batch_size", "use_iterative_fetching", "use_threshold_filtering", "auto_backfill_threshold",
    "log_slow_query_threshold", "log_level",
))  # fmt: skip
"""Settings whose variables also work without the prefix, as the specification names them."""


def refused_together(message: str, *names: str) -> PydanticCustomError:
    """Return the error for settings that contradict each other; `names` are the ones to change."""
    return PydanticCustomError("together", "{message}", {"message": message, "names": names})


def project_folder() -> Path:
    """Return the folder of the client's project. Raises ConfigurationError if the client's path is invalid."""
    try:
        return full_path(Path(os.environ.get("CLAUDE_PROJECT_DIR") or Path.cwd()))
    except ValueError as error:
        raise ConfigurationError(f"CLAUDE_PROJECT_DIR is invalid: {error}.") from None


class DatabaseLocation(BaseModel):
    """Where the database is. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    database_path: FullPath | None = Field(
        default=None, description="Database file of the memory; created when something is stored."
    )
    working_dir: FullPath | None = Field(
        default=None,
        description="Folder that contains the database, memory/agent_session_memory.db. Default: CLAUDE_PROJECT_DIR "
        "if set, else the current folder.",
    )

    @model_validator(mode="after")
    def _one_location(self) -> "DatabaseLocation":
        if self.database_path is not None and self.working_dir is not None:
            raise ValueError("Use either --database-path or --working-dir (or one of their variables), not both")
        return self

    def file(self) -> Path:
        """Return the path of the database."""
        if self.database_path is not None:
            return self.database_path
        return (self.working_dir or project_folder()) / MEMORY_FOLDER / DATABASE_NAME


class ServerLocations(DatabaseLocation):
    """Where the server keeps the database and may write documents."""

    export_dir: list[FullPath] | None = Field(
        default=None,
        description="Folder that documents may be written to; repeatable, in the variable separated by colons. "
        "Default: exports/ next to the database.",
    )


class FileLocations(BaseModel):
    """Where the Markdown files of `--toolsets files` and their index are.

    A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`, or `CWE_NAME` as in the specification.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    memory_dir: FullPath | None = Field(
        default=None,
        description="Folder of Markdown files; need not exist. Default: memory/ in CLAUDE_PROJECT_DIR if set, else in "
        "the current folder.",
    )
    db_dir: FullPath = Field(
        default=Path("~/.claude/cwe/memory"),
        description="Folder for the index of the Markdown files; it should be outside the project.",
        validate_default=True,
    )

    def folder(self) -> Path:
        """Return the folder of Markdown files."""
        return self.memory_dir or project_folder() / MEMORY_FOLDER


class Toolset(StrEnum):
    """The groups of tools; each works without the others."""

    SESSION = "session"
    TAGGED = "tagged"
    FILES = "files"


class Profile(StrEnum):
    """How many of the tools are offered: all, or a few that cost little."""

    FULL = "full"
    CORE = "core"


def chosen_toolsets(names: str) -> tuple[Toolset, ...]:
    """Return the toolsets in a comma-separated list, in their fixed order; `all` means all of them."""
    wanted = {name.strip() for name in names.split(",")}
    if "all" in wanted:
        return tuple(Toolset)
    if wanted - set(Toolset):
        raise ValueError(f"choose from {', '.join(Toolset)}, separated by commas, or all")
    return tuple(toolset for toolset in Toolset if toolset in wanted)


def _known_toolsets(names: str) -> str:
    chosen_toolsets(names)
    return names


class HttpOptions(BaseModel):
    """How clients reach the server. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    http: bool = Field(default=False, description="Serve many clients over HTTP instead of one over standard input.")
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8765, ge=0, le=65_535, description="Port to listen on.")
    data_dir: FullPath | None = Field(
        default=None,
        description="Folder of the namespaces and tokens of several teams. Without it, the server has one memory, "
        "needs no token, and listens on this machine only.",
    )
    workers: int = Field(default=1, ge=1, le=64, description="Number of processes that share the port.")
    public_url: str | None = Field(
        default=None,
        description="URL by which clients reach the server, such as https://memory.example.com; required beyond this "
        "machine.",
    )
    jwt_issuer: str | None = Field(
        default=None, description="Also accept the JSON web tokens of this issuer, the URL of an identity provider."
    )
    jwt_audience: str | None = Field(
        default=None, description="Audience that these tokens must be for: this server's URL as the provider knows it."
    )
    jwt_jwks_url: str | None = Field(default=None, description="URL of the issuer's keys (JWKS).")
    remote: str | None = Field(
        default=None,
        description="Serve over standard input, but answer from the shared memory at this URL. What cannot be stored "
        "there for now is kept on this machine and sent later.",
    )
    token_file: FullPath | None = Field(default=None, description="File with the token for the shared memory.")
    tls_cert: FullPath | None = Field(default=None, description="File with the TLS certificate chain, in PEM format.")
    tls_key: FullPath | None = Field(default=None, description="File with the TLS private key, in PEM format.")

    @model_validator(mode="after")
    def _is_guarded(self) -> "HttpOptions":
        if self.remote is not None and (self.http or self.token_file is None):
            raise refused_together("remote needs token_file, and serves standard input only", "remote", "token_file")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise refused_together("tls_cert and tls_key are needed together", "tls_cert", "tls_key")
        jwt = (self.jwt_issuer, self.jwt_audience, self.jwt_jwks_url)
        if any(jwt) and not all((*jwt, self.public_url, self.data_dir)):
            raise refused_together(
                "jwt_issuer, jwt_audience and jwt_jwks_url are needed together, and with public_url and data_dir",
                "jwt_issuer",
                "jwt_audience",
                "jwt_jwks_url",
            )
        if self.workers > 1 and self.data_dir is None:
            raise refused_together("workers need data_dir, where they keep what they share", "workers", "data_dir")
        if self.http and not is_loopback(self.host):
            if self.data_dir is None:
                raise refused_together(
                    f"host ({self.host}) can be reached from other machines, and without data_dir there are no tokens",
                    "host",
                    "data_dir",
                )
            if self.public_url is None:
                raise refused_together(
                    f"host ({self.host}) can be reached from other machines, so public_url must say by which name",
                    "host",
                    "public_url",
                )
        return self

    def hosts(self) -> list[str]:
        """Return the names by which clients reach the server, besides those of this machine."""
        return [name] if (name := urlsplit(self.public_url or "").hostname) else []

    def origins(self) -> list[str]:
        """Return the origin of pages that this server would serve: browsers may call it from nowhere else."""
        parts = urlsplit(self.public_url or "")
        return [f"{parts.scheme}://{parts.netloc}"] if parts.netloc else []

    def address(self, port: int) -> str:
        """Return the URL of a server that listens on a port."""
        base = self.public_url or f"{'https' if self.tls_cert else 'http'}://{self.host}:{port}"
        return f"{base.rstrip('/')}/mcp"


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class ServerOptions(BaseModel):
    """What a server offers its client. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    toolsets: Annotated[str, AfterValidator(_known_toolsets)] = Field(
        default=Toolset.SESSION.value,
        description="Groups of tools, separated by commas: session (reports, findings and knowledge of "
        "sessions), tagged (notes with tags and categories), files (a folder of Markdown files), or all.",
    )
    profile: Profile = Field(
        default=Profile.FULL,
        description="full: all tools of the toolsets; core: eight session tools with short schemas.",
    )
    read_only: bool = Field(
        default=False,
        description="Offer only the tools that read. Nothing is written, except to upgrade an older file.",
    )

    @model_validator(mode="after")
    def _core_is_of_sessions(self) -> "ServerOptions":
        if self.profile is Profile.CORE and self.chosen() != (Toolset.SESSION,):
            raise ValueError("The profile core consists of session tools: omit --toolsets (and its variable)")
        return self

    def chosen(self) -> tuple[Toolset, ...]:
        """Return the toolsets in their fixed order."""
        return chosen_toolsets(self.toolsets)
