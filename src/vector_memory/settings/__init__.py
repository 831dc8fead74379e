"""Every setting, documented once for the command line, the environment and docs/configuration.md."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from vector_memory.domain import MemoryKind, SearchMode, Trust
from vector_memory.settings.database_url import DEFAULT_SCHEMA as DEFAULT_SCHEMA
from vector_memory.settings.database_url import MANY_NAMESPACES as MANY_NAMESPACES
from vector_memory.settings.database_url import MOST_CONNECTIONS as MOST_CONNECTIONS
from vector_memory.settings.database_url import NAMESPACE_PREFIX as NAMESPACE_PREFIX
from vector_memory.settings.database_url import SHARED_SCHEMA as SHARED_SCHEMA
from vector_memory.settings.database_url import DatabaseUrl as DatabaseUrl
from vector_memory.settings.database_url import MemoryAddress as MemoryAddress
from vector_memory.settings.database_url import SettingsModel, refused_together
from vector_memory.settings.database_url import has_password as has_password
from vector_memory.settings.database_url import memory_address as memory_address
from vector_memory.settings.http import HttpOptions as HttpOptions
from vector_memory.settings.locations import ALTERNATIVES as ALTERNATIVES
from vector_memory.settings.locations import DATABASE_NAME as DATABASE_NAME
from vector_memory.settings.locations import EXPORT_FOLDER as EXPORT_FOLDER
from vector_memory.settings.locations import MEMORY_FOLDER as MEMORY_FOLDER
from vector_memory.settings.locations import DatabaseLocation as DatabaseLocation
from vector_memory.settings.locations import DatabaseServer as DatabaseServer
from vector_memory.settings.locations import FileLocations as FileLocations
from vector_memory.settings.locations import FullPath as FullPath
from vector_memory.settings.locations import ServerLocations as ServerLocations
from vector_memory.settings.locations import export_folder_of as export_folder_of
from vector_memory.settings.locations import full_path as full_path
from vector_memory.settings.locations import project_folder as project_folder
from vector_memory.settings.locations import project_of as project_of
from vector_memory.settings.locations import state_folder as state_folder


def checked_by(parse: Callable[[str], object]) -> AfterValidator:
    """Return what validates a setting that stays a text: `parse` raises ValueError for what is not valid."""

    def checked(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(checked)


RULE = re.compile(r"(?P<of>[^=]+)=\s*(?P<days>\d{1,5})\s*d")

EXAMPLE = "working_memory=30d; agent:scout=7d; session:tmp-*=2d"


HELD_BY = ("all", "by", "client", "token", "agent", "kind", "source", "instructions", "person")
"""What a rule for pending memories, and for trust, can name; the last two and the first stand alone."""

ALONE = ("all", "instructions", "person")

HELD_EXAMPLE = "by:hook; agent:scout-*; source:https://*; instructions"


def pending_rules(text: str) -> list[tuple[str, str]]:
    """Return the rules of the setting `pending`: what each names, and the pattern for it. Raises ValueError."""
    rules = [(name.strip(), value.strip()) for name, _, value in (one.partition(":") for one in text.split(";"))]
    for name, value in (rules := [one for one in rules if any(one)]):
        if name not in HELD_BY or bool(value) is (name in ALONE):
            others = ", ".join(one for one in HELD_BY if one not in ALONE)
            raise ValueError(f"a rule names {', '.join(ALONE)}, or one of {others}: {HELD_EXAMPLE}")
    return rules


BY_DEFAULT = "instructions=low; source:http://*=low; source:https://*=low; person=high"
"""The rules for trust that follow those of the setting."""

TRUST_EXAMPLE = "token:ci=low; source:https://docs.example.org/*=normal"


def trust_rules(text: str) -> list[tuple[str, str, Trust]]:
    """Return the rules of the setting `trust`, then the others: what each names, and the level. Raises ValueError."""
    rules = []
    for part in filter(str.strip, f"{text}; {BY_DEFAULT}".split(";")):
        of, _, level = (one.strip() for one in part.rpartition("="))
        if not of or level not in set(Trust):
            raise ValueError(f"a rule ends with one of {', '.join(f'={one}' for one in Trust)}: {TRUST_EXAMPLE}")
        rules += [(*rule, Trust(level)) for rule in pending_rules(of)]
    return rules


class RetentionRule(NamedTuple):
    """Memories of a kind, of an agent or of sessions (a pattern with * and ?) are kept for this many days."""

    days: int
    kind: MemoryKind | None = None
    agent: str | None = None
    session: str | None = None

    def __str__(self) -> str:
        named = f"session:{self.session}" if self.session else f"agent:{self.agent}" if self.agent else self.kind
        return f"{named}={self.days}d"


def retention_rules(text: str) -> list[RetentionRule]:
    """Return the rules of a setting, which semicolons separate. Raises ValueError."""
    return [_rule(part.strip()) for part in text.split(";") if part.strip()]


def _rule(part: str) -> RetentionRule:
    found = RULE.fullmatch(part)
    if found is None or not int(found["days"]):
        raise ValueError(
            f'"{part}" is not a rule: write KIND=DAYSd, agent:NAME=DAYSd or session:PATTERN=DAYSd, such as {EXAMPLE}'
        )
    of, days = found["of"].strip(), int(found["days"])
    field, _, name = (part.strip() for part in of.partition(":"))
    if field == "agent" and name:
        return RetentionRule(days, agent=name)
    if field == "session" and name:
        return RetentionRule(days, session=name)
    if of not in set(MemoryKind):
        raise ValueError(
            f'"{of}" is not a kind of memory: choose from {", ".join(MemoryKind)}, or write agent: or session:'
        )
    return RetentionRule(days, MemoryKind(of))


DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_DIM = 384
MAX_RESPONSE_TOKENS = 1_000_000


def _upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper_case)]
Synchronous = Annotated[Literal["FULL", "NORMAL"], BeforeValidator(_upper_case)]


class Recall(StrEnum):
    """What a client receives when its user sends a prompt."""

    OFF = "off"
    RECAP = "recap"
    ALL = "all"


class Redact(StrEnum):
    """Which texts lose their private parts and secrets before they are stored."""

    CAPTURED = "captured"
    ALL = "all"
    OFF = "off"


class Settings(SettingsModel):
    """What can be configured. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`; the flag wins.

    `--help` and docs/configuration.md show the descriptions.
    """

    model_config = ConfigDict(validate_default=True)

    embedding_model: str = Field(
        default=DEFAULT_MODEL,
        min_length=1,
        description="Embedding model: a name that `vector-memory models` lists, or the path of a folder with a model; "
        "any other name needs the sentence-transformers extra.",
    )
    embedding_model_path: FullPath | None = Field(
        default=None,
        description="Folder with the model's files; default: the Hugging Face cache or an installed weights package.",
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
    max_pending_vectors: int = Field(
        default=100,
        ge=0,
        description="While more memories than this wait for vectors, acknowledge each store up to 40 seconds later, so "
        "that the backlog stays small; 0: never delay.",
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
    late_interaction: bool = Field(
        default=True,
        description="Rerank the best results by comparing single words in context. Takes about 3 kB more for each "
        "passage, and a model suited to it, such as the default or multilingual-e5-small.",
    )
    later: bool = Field(
        default=True,
        description="With each result, list later memories on the same subject. They are linked when vectors are "
        "computed, with a model suited to it, such as the default or multilingual-e5-small.",
    )
    vector_search_batch_size: int = Field(
        default=100,
        ge=1,
        le=4096,
        description="Minimum number of passages compared first in a large scope; at least 500, by meaning alone 1,000.",
    )
    use_iterative_fetching: bool = Field(
        default=True,
        description="Compare the likeliest passages of a large scope, in growing batches, instead of all.",
    )
    use_threshold_filtering: bool = Field(
        default=False, description="Drop results whose similarity is below the similarity threshold."
    )
    similarity_threshold: float = Field(
        default=0.4, ge=0, le=1, description="Minimum similarity that threshold filtering keeps."
    )
    fold_copies: bool = Field(default=True, description="Merge near copies into one result, with the ids of all.")
    memory_limit: int = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="Maximum number of tagged memories; clear_old_memories makes room for more.",
    )
    capture: bool = Field(
        default=True,
        description="Store what a client's hooks report: prompts, long answers, reports of sub-agents, summaries.",
    )
    recall: Recall = Field(
        default=Recall.RECAP,
        description="What a client's hooks add to prompts: nothing (off), a recap of the project's last session to the "
        "first prompt of a session (recap), and to later prompts also related memories (all).",
    )
    own_memories: bool = Field(
        default=True,
        description="Find what other agents on this machine (Claude Code, Qwen, Codex, Gemini, Grok) remember by "
        "themselves, of this project and of all. Their files are followed, and never written.",
    )
    redact: Redact = Field(
        default=Redact.CAPTURED,
        description="Remove <private> parts and likely secrets before storing: from what hooks and imports store "
        "(captured), from everything (all), or not (off).",
    )
    evidence_in_text: bool = Field(
        default=False,
        description="Keep paths with line numbers in the texts that agents store, such as `src/auth.py:42`, as "
        "evidence: results then say whether these lines have changed.",
    )
    retention: Annotated[str, checked_by(retention_rules)] = Field(
        default="",
        description="Days to keep memories, by kind, agent and session, such as "
        f"`{EXAMPLE}`. Only `vector-memory cleanup --policy` deletes older ones.",
    )
    pending: Annotated[str, checked_by(pending_rules)] = Field(
        default="",
        description="Hold these memories back until a person accepts them with `vector-memory review`: by how they "
        f"came, client, token, agent, kind, source or likely instructions, such as `{HELD_EXAMPLE}`, or `all`.",
    )
    undo_hours: int = Field(
        default=24, ge=0, le=8_760, description="Hours to undo what agents delete; 0: it is erased."
    )
    trust: Annotated[str, checked_by(trust_rules)] = Field(
        default="",
        description="How far new memories are trusted: rules as for `pending`, each with =low, =normal or =high, such "
        f"as `{TRUST_EXAMPLE}`. The first that fits counts; `{BY_DEFAULT}` follow yours.",
    )
    audit: bool = Field(default=False, description="Record who reads, finds or changes what, for `audit --memory ID`.")
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
        default="FULL", description="FULL survives a power failure. NORMAL is faster and may lose the last few seconds."
    )

    @model_validator(mode="after")
    def _lengths_fit(self) -> "Settings":
        if self.embedding_model == DEFAULT_MODEL and self.embedding_dim != DEFAULT_DIM:
            raise refused_together(
                f"embedding_dim ({self.embedding_dim}) must be {DEFAULT_DIM}, the length of {DEFAULT_MODEL}'s vectors",
                "embedding_dim",
            )
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


class Toolset(StrEnum):
    """The groups of tools; each works without the others."""

    SESSION = "session"
    TAGGED = "tagged"
    FILES = "files"


class Profile(StrEnum):
    """How many of the tools are offered, and with which of their parameters."""

    FULL = "full"
    CORE = "core"
    ALL = "all"


class Answers(StrEnum):
    """How much an answer contains."""

    FULL = "full"
    LEAN = "lean"


def chosen_toolsets(names: str) -> tuple[Toolset, ...]:
    """Return the toolsets in a comma-separated list, in their fixed order; `all` means all of them."""
    wanted = {name.strip() for name in names.split(",")}
    if "all" in wanted:
        return tuple(Toolset)
    if wanted - set(Toolset):
        raise ValueError(f"choose from {', '.join(Toolset)}, separated by commas, or all")
    return tuple(toolset for toolset in Toolset if toolset in wanted)


class ServerOptions(SettingsModel):
    """What a server offers its client. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    toolsets: Annotated[str, checked_by(chosen_toolsets)] = Field(
        default=Toolset.SESSION.value,
        description="Groups of tools, separated by commas: session (reports, findings and knowledge of "
        "sessions), tagged (notes with tags and categories), files (a folder of Markdown files), or all.",
    )
    profile: Profile = Field(
        default=Profile.FULL,
        description="full: all tools of the toolsets; core: eight session tools with short schemas; all: like full, "
        "with the parameters for finding out why a search did not find something.",
    )
    answers: Answers | None = Field(
        default=None,
        description="full: all keys of the specification, for programs; lean: what a model needs, with long results "
        "cut around the question. Default: lean with --profile core, else full.",
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

    @property
    def is_lean(self) -> bool:
        """Whether answers are lean."""
        return (self.answers or (Answers.LEAN if self.profile is Profile.CORE else Answers.FULL)) is Answers.LEAN

    def chosen(self) -> tuple[Toolset, ...]:
        """Return the toolsets in their fixed order."""
        return chosen_toolsets(self.toolsets)
