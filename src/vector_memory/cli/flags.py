"""Flags that several commands share, each described once, and the memory that they name."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter
from pydantic import BaseModel, create_model

from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import print_json, say
from vector_memory.domain import ANY, MemoryKind, Scope, Window
from vector_memory.domain.fields import FILTERS, FieldType, MemoryField
from vector_memory.domain.text import near
from vector_memory.domain.times import beginning_of, end_of
from vector_memory.errors import ConfigurationError, NotFoundError, ValidationError
from vector_memory.settings import DEFAULT_DIM, DatabaseLocation, DatabaseServer, MemoryAddress, Settings, full_path
from vector_memory.settings.locations import checkout_folder
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import open_storage

if TYPE_CHECKING:
    from vector_memory.store import SessionMemoryStore

M = TypeVar("M", bound=BaseModel)

Flags = Parameter(name="*")
"""Makes a flag of each field of a class."""

LocationFlags = Annotated[DatabaseLocation, Parameter(name="*", show=False)]
"""The memory that a command uses: a line below its flags names them, and `serve --help` describes them."""

DatabaseFlags = Annotated[DatabaseServer, Parameter(name="*")]
SettingsFlags = Annotated[Settings, Parameter(name="*")]
HiddenSettingsFlags = Annotated[Settings, Parameter(name="*", show=False)]
"""Settings that a command accepts but does not list: `serve --help` lists them."""

OF_MODEL = ("embedding_model", "embedding_model_path", "embedding_dim")


def listing(*names: str) -> type[Settings]:
    """Return settings whose listing is limited to these."""
    fields = {name: Settings.model_fields[name] for name in names}
    shown = {name: (Annotated[field.annotation, Parameter(show=True)], field) for name, field in fields.items()}
    return create_model("ListedSettings", __base__=Settings, **shown)  # type: ignore[call-overload, no-any-return]


if TYPE_CHECKING:
    ModelSettings = Settings
    RetentionSettings = Settings
else:
    ModelSettings = listing(*OF_MODEL)
    RetentionSettings = listing("retention")

ModelSettingsFlags = Annotated[ModelSettings, Parameter(name="*", show=False)]
"""Settings for commands that need the model: the others are accepted but not listed."""

DEFAULTS = ModelSettings()
WITH_RETENTION = RetentionSettings()

Switch = partial(Parameter, negative=(), show_default=False)
"""A flag that is off by default."""

AsJson = Annotated[bool, Switch(name="--json", help="Print the result, or the error, as JSON.")]
Overwrite = Annotated[bool, Switch(help="Replace an existing file.")]


@Flags
@dataclass(frozen=True)
class OutputFlags:
    """How a command prints its result."""

    as_json: AsJson = False

    def tell(self, body: Any, message: str) -> None:
        """Print a result: for programs or for people."""
        if self.as_json:
            print_json(body)
        else:
            say(message)

    def show(self, result: M, printed: Callable[[M], None]) -> None:
        """Print a result: as JSON, or with a function."""
        if self.as_json:
            print_json(result.model_dump())
        else:
            printed(result)


@Flags
@dataclass(frozen=True)
class MemoryFlags(OutputFlags):
    """The flags of a command that uses a memory."""

    place: LocationFlags = DatabaseLocation()

    def opened(self, *, read_only: bool = True) -> AbstractContextManager[Storage]:
        """Open the memory. Raises ConfigurationError if it does not exist."""
        return closing(open_storage(existing(self.place), dimensions=DEFAULT_DIM, read_only=read_only))


@Flags
@dataclass(frozen=True)
class StoreFlags(MemoryFlags):
    """The flags of a command that uses a memory and settings."""

    settings: HiddenSettingsFlags = Settings()

    def log(self, address: MemoryAddress, level: str = "ERROR") -> MemoryAddress:
        """Set up logging beside the memory at an address, and return the address."""
        set_up_logging(level, self.settings.log_file, files_of(address))
        return address

    def store(
        self, address: MemoryAddress | None = None, *, level: str = "ERROR", read_only: bool = False
    ) -> "SessionMemoryStore":
        """Set up logging, and open the memory at an address, or the one that exists. Raises ConfigurationError."""
        from vector_memory.store import SessionMemoryStore

        address = self.log(address or existing(self.place), level)
        store = SessionMemoryStore(address, self.settings, read_only=read_only)
        store.work_in(checkout_folder())
        return store


@Flags
@dataclass(frozen=True)
class ModelFlags(StoreFlags):
    """The flags of a command that needs the model."""

    settings: ModelSettingsFlags = DEFAULTS


@Flags
@dataclass(frozen=True)
class RetentionFlags(StoreFlags):
    """The flags of the command that applies policies."""

    settings: Annotated[RetentionSettings, Parameter(name="*", show=False)] = WITH_RETENTION


if TYPE_CHECKING:
    Kind = MemoryKind
    KindOfFiles = MemoryKind
else:  # cyclopts would offer an enumeration's names, not its values
    Kind = Literal[tuple(kind.value for kind in MemoryKind)]
    # Only agents store tagged memories.
    KindOfFiles = Literal[tuple(kind.value for kind in MemoryKind if kind is not MemoryKind.TAGGED)]

GIVEN_AS: dict[FieldType, Any] = {FieldType.NUMBER: int, FieldType.LABELS: list[str]}
"""Types of flags of fields; all others are text."""


def flag_of(one: MemoryField) -> Any:
    """Return the annotation of the flag that filters by a field."""
    flag, said = one.flag or ("", "")
    given = Literal[tuple(map(str, one.choices))] if one.choices else GIVEN_AS.get(one.values, str)
    return Annotated[given | None, Parameter(name=f"--{flag}", help=said)]


FLAGS = {name: flag_of(one) for name, one in FILTERS.items() if one.flag}

if TYPE_CHECKING:
    OfAgent = str | None
    Since = str | None
    Until = str | None
    AsOfTime = str | None
else:
    OfAgent, Since, Until = (FLAGS[name] for name in ("agent_id", "created_after", "created_before"))
    AsOfTime = FLAGS["as_of"]


def window(since: str | None, until: str | None, as_of: str | None = None) -> Window:
    """Return the time between --since and --until, and --as-of, as filters. Raises ValidationError."""
    after = None if since is None else beginning_of("--since", since)
    before = None if until is None else end_of("--until", until)
    if after and before and after > before:
        raise ValidationError("--since is later than --until: nothing can be between them.")
    then = as_of if as_of in (None, ANY) else end_of("--as-of", as_of, or_else=f'"{ANY}"')
    return Window(created_after=after, created_before=before, as_of=then)


@dataclass(frozen=True)
class ScopeFlags:
    """Which memories are searched or listed."""

    if TYPE_CHECKING:
        kind: MemoryKind | None = None
        session_id: str | None = None

    def scope(self, kind: MemoryKind | None, **more: Any) -> Scope:
        """Return the memories of a kind that pass. Raises ValidationError."""
        given: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "kind"}
        times = window(given.pop("created_after"), given.pop("created_before"), given.pop("as_of"))
        return Scope(kind, **{**given, **times, **more})


def scope_flags(*left_out: str) -> type[ScopeFlags]:
    """Return the flags of all filters but these."""
    flags = [(name, flag, field(default=None)) for name, flag in FLAGS.items() if name not in left_out]
    return Flags(make_dataclass("Filters", flags, bases=(ScopeFlags,), namespace={"__module__": __name__}, frozen=True))


if TYPE_CHECKING:
    Filters = ScopeFlags
    FiltersInSession = ScopeFlags
else:
    Filters = scope_flags()
    FiltersInSession = scope_flags("session_id", "category", "tags", "containing", "project", "state")


MemoryId = Annotated[str, Parameter(help="Id of a memory, as printed by search and timeline.")]


TO_BEGIN = 'To begin: `vector-memory store "TEXT"`, `ingest FOLDER`, or `install` for your agents.'


def existing(place: DatabaseLocation) -> MemoryAddress:
    """Return where the memory is. Raises ConfigurationError if its file does not exist."""
    address = place.address()
    if isinstance(address, Path) and not is_file(address):
        raise ConfigurationError(
            f"There is no memory at {address}. {TO_BEGIN} Is it elsewhere? Name its file with --database-path."
        )
    return address


def given_path(path: Path) -> Path:
    """Return a path as an absolute one. Raises ConfigurationError if it cannot be one."""
    try:
        return full_path(path)
    except ValueError as error:
        raise ConfigurationError(f'"{path}" is not a usable path: {error}.') from None


def is_file(path: Path) -> bool:
    """Return whether a file exists. Raises ConfigurationError if this user may not look."""
    try:
        return path.is_file()
    except PermissionError:
        raise ConfigurationError(f"No permission to open {path}: check the permissions of its folders.") from None


def creatable(place: DatabaseLocation) -> MemoryAddress:
    """Return where the memory is; its file is created if it does not exist."""
    address = place.address()
    if isinstance(address, Path):
        require_folder(address.parent if place.database_path else address.parent.parent)
    return address


def require_folder(folder: Path) -> None:
    """Raise ConfigurationError if a folder that the user named does not exist.

    A mistyped path would otherwise make an empty memory, and the agent would seem to have forgotten everything.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"The folder {folder} does not exist: check the path, or create the folder first.")


def files_of(address: MemoryAddress) -> list[Path]:
    """Return the database files that nothing else may be written to."""
    return [address] if isinstance(address, Path) else []


NAMES_COMPARED = 10_000


def require_session(storage: Storage, session: str) -> None:
    """Raise NotFoundError if nothing is stored in a session, with the most similar name that is in use."""
    with storage.read() as reader:
        if reader.memories.count(Scope(session_id=session, as_of=ANY)):
            return
        names, _ = reader.sessions.find_names("session_id", "", Scope(as_of=ANY), NAMES_COMPARED)
    by_lower_case = {name.lower(): name for name in names}
    similar = near(session.lower(), by_lower_case)
    advice = f'did you mean "{by_lower_case[similar[0]]}"?' if similar else "run `vector-memory sessions` to list them."
    raise NotFoundError(f'There is no session "{session}": {advice}')
