"""Answers a client's first requests while FastMCP is imported, which takes longer than some clients wait.

`early.json` has the answers for each combination of options; scripts/early_answers.py writes it. The client's lines are
kept and passed on to the server, unchanged. Unusual requests are left to the server. Whatever this module imports
delays the first answer.
"""

import io
import json
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from vector_memory.settings import ServerOptions

DESCRIPTION = os.path.join(os.path.dirname(__file__), "early.json")  # noqa: PTH118, PTH120 - pathlib takes 10 ms

PIECE = 2**16
"""Bytes that are read at once. Longer lines are left to the server."""

MOST_BYTES = 2**20
"""No more is read before the server is ready."""

SECONDS_TO_ASK = 0.1
"""How long imports wait for the first request: doing both at once would be slower."""

LARGEST, DEEP = 2**53, 100
"""Limits within which all JSON parsers agree: smaller integers, and shallower nesting."""

ENVELOPE = "io.modelcontextprotocol/"
VERSION, CLIENT = f"{ENVELOPE}protocolVersion", f"{ENVELOPE}clientInfo"
CAPABILITIES = f"{ENVELOPE}clientCapabilities"

STDIN, STDOUT, STDERR = range(3)

PREFIX = "VECTOR_MEMORY_"
OPTIONS = {
    "PROFILE": ("full", "core", "all"),
    "ANSWERS": ("", "full", "lean"),
    "TOOLSETS": ("session", "tagged", "session,tagged"),
    "READ_ONLY": ("false", "true"),
}
"""The accepted values, the default first. Memory files have locations of their own, which need a full check."""

TOOLSETS = ("session", "tagged", "files")
LOCATIONS = ("DATABASE_PATH", "WORKING_DIR")


def key_of_offer(offer: "ServerOptions") -> str:
    """Return the name of a combination of options in the description."""
    return key(offer.chosen(), offer.profile, is_lean=offer.is_lean, read_only=offer.read_only)


def key(toolsets: Iterable[str], profile: str, *, is_lean: bool, read_only: bool) -> str:
    """Return the name of these options in the description."""
    return " ".join([*toolsets, profile, *["lean"] * is_lean, *["read-only"] * read_only])


@cache
def description() -> dict[str, Any]:
    """Return the recorded answers; none if other releases of the libraries, which may differ, are installed."""
    with open(DESCRIPTION, encoding="utf-8") as file:  # noqa: PTH123
        described: dict[str, Any] = json.load(file)
    if not all(map(is_installed, described["libraries"])):
        described["configurations"] = {}
    return described


def is_installed(distribution: str) -> bool:
    """Return whether a release such as `fastmcp-4.2.3` is installed. `importlib.metadata` would take 30 ms."""
    return any(os.path.isdir(f"{folder}/{distribution}.dist-info") for folder in sys.path)  # noqa: PTH112


def tools_of(described: Mapping[str, Any], offered: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that a server offers, as it lists them: schemas are recorded separately."""
    values = described["values"]
    return [
        {name: values[part] if name.endswith("Schema") else part for name, part in values[tool].items()}
        for tool in offered["tools"]
    ]


@cache
def all_tools() -> dict[str, dict[str, Any]]:
    """Return each tool with all its parameters, by name. Empty if none is recorded."""
    described = description()
    offered = described["configurations"].get(key(TOOLSETS, "all", is_lean=False, read_only=False), {"tools": ()})
    return {tool["name"]: tool for tool in tools_of(described, offered)}


class EarlyAnswers:
    """Answers line by line as the server would; after the first doubt, answers nothing more."""

    def __init__(self, described: Mapping[str, Any], offered: str) -> None:
        self._described, self._offered = described, described["configurations"][offered]
        self._asked: set[str] = set()
        self._era: str | None = None
        self._is_initialized = False
        self.is_silent = False

    def to(self, line: bytes) -> bytes | None:
        """Return the answer to a line, which ends with a line end; None: it needs none, or the server answers it."""
        if self.is_silent or line.isspace():
            return None
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            message = None
        match message:
            case {"jsonrpc": "2.0", "method": str(method), "id": request_id} if is_safe_id(request_id):
                return self._to_request(line, message, method)
            case {"jsonrpc": "2.0", "method": str(method)} if "id" not in message:
                return None
        self.is_silent = True
        return None

    def _to_request(self, line: bytes, message: dict[str, Any], method: str) -> bytes | None:
        params = message.get("params", {})
        is_plain = isinstance(params, dict) and message.keys() <= {"jsonrpc", "method", "id", "params"}
        if self._era is None:
            meta = params.get("_meta") if is_plain else None
            is_modern = method != "initialize" and isinstance(meta, dict) and VERSION in meta
            self._era = "modern" if is_modern else "legacy"
            self.is_silent = not is_plain
        # Some clients reuse an id: the server's answers could not be told apart.
        is_new = str(message["id"]) not in self._asked
        self._asked.add(str(message["id"]))
        if not is_plain or not is_new or not is_common(line):
            return None
        result = self._modern(method, params) if self._era == "modern" else self._legacy(method, params)
        if result is None:
            return None
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _legacy(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if not has_only_token(params.get("_meta", {})):
            return None
        match method, params:
            case "initialize", {"protocolVersion": str(version), "capabilities": given, "clientInfo": client, **others}:
                if not (are_capabilities(given) and is_client(client) and others.keys() <= {"_meta"}):
                    return None
                self._is_initialized = True
                agreed = version if version in self._described["handshakes"] else self._described["handshakes"][-1]
                return {"protocolVersion": agreed, **(self._result("initialize") or {})}
            case "ping", _ if params.keys() <= {"_meta"}:
                return {}
        return self._result(method) if params.keys() <= {"_meta"} and self._is_initialized else None

    def _modern(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match params:
            case {"_meta": {**meta}} if len(params) == 1:
                version, given = meta.pop(VERSION, None), meta.pop(CAPABILITIES, None)
                client = meta.pop(CLIENT, None)
                if version != self._described["modern"] or not are_capabilities(given) or not has_only_token(meta):
                    return None
                if client is None or is_client(client):
                    return self._result(method)
        return None

    def _result(self, method: str) -> dict[str, Any] | None:
        if (number := self._offered[self._era].get(method)) is None:
            return None
        result: dict[str, Any] = self._described["values"][number]
        if method != "tools/list":
            return result
        tools = tools_of(self._described, self._offered)
        if self._era == "modern":  # the SDK puts the type first there, and nowhere else
            tools = [tool | {"inputSchema": {"type": "object"} | tool["inputSchema"]} for tool in tools]
        return {**result, "tools": tools}


def is_common(line: bytes) -> bool:
    """Return whether all JSON parsers read a line alike: it has no escapes, no NaN, no deep nesting."""
    return not any(odd in line for odd in (b"\\u", b"NaN", b"Infinity")) and line.count(b"{") + line.count(b"[") < DEEP


def is_safe_id(value: object) -> bool:
    """Return whether a value is an id that all JSON parsers read alike."""
    return isinstance(value, str) or (
        isinstance(value, int) and not isinstance(value, bool) and -LARGEST < value < LARGEST
    )


def has_only_token(meta: object) -> bool:
    """Return whether the metadata of a request has at most a progress token."""
    return isinstance(meta, dict) and meta.keys() <= {"progressToken"} and all(map(is_safe_id, meta.values()))


def are_capabilities(given: object) -> bool:
    """Return whether a client's capabilities are nested objects; extensions may contain anything."""
    if not isinstance(given, dict):
        return False
    known = {name: value for name, value in given.items() if name not in ("experimental", "extensions")}
    others = [given[name] for name in given.keys() - known.keys()]
    are_extensions = all(isinstance(it, dict) and {dict}.issuperset(map(type, it.values())) for it in others)
    return are_objects(known) and are_extensions


def are_objects(given: object) -> bool:
    """Return whether a value is an object of such objects."""
    return isinstance(given, dict) and all(
        isinstance(value, bool) if name == "listChanged" else are_objects(value) for name, value in given.items()
    )


def is_client(given: object) -> bool:
    """Return whether a client's description of itself has a name and a version, and only texts."""
    return isinstance(given, dict) and given.keys() >= {"name", "version"} and set(map(type, given.values())) == {str}


class EarlyClient(io.RawIOBase):
    """A client's lines: answered until the server reads them, then replayed from the first.

    `source`: replays the lines. `sink`: where answers go. `answered`: the answered lines with their answers.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, answers: EarlyAnswers | None = None) -> None:
        self._source, self.sink, self._answers = source, sink, answers
        self.source = io.BufferedReader(self, PIECE)
        self.answered: deque[tuple[bytes, bytes]] = deque()
        self._lines = bytearray()
        self._handed_on, self._is_mine = 0, True
        self._taking, self._sending = threading.Lock(), threading.Lock()
        self._asked = threading.Event()
        threading.Thread(target=self._answer, name="early", daemon=True).start()

    def wait_for_request(self) -> None:
        """Wait, but not long, until the first request is answered or left to the server."""
        self._asked.wait(SECONDS_TO_ASK)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the client's bytes, first those that were read already. From now on, nothing is answered here."""
        with self._taking:
            self._is_mine = False
        rest = bytes(self._lines[self._handed_on : self._handed_on + len(buffer)])
        self._handed_on += len(rest)
        if not rest:
            self._lines.clear()
            wait_for(self._source.fileno())  # some clients hand over a pipe that does not block
            rest = os.read(self._source.fileno(), len(buffer))
        buffer[: len(rest)] = rest
        return len(rest)

    def written(self) -> None:
        """Return when all early answers are written."""
        with self._sending:
            pass

    def _answer(self) -> None:
        begin = 0
        while self._answers and len(self._lines) < MOST_BYTES:
            wait_for(self._source.fileno())
            with self._taking:
                piece = os.read(self._source.fileno(), PIECE) if self._is_mine else b""
                self._lines += piece
            if not piece:
                break
            while end := self._lines.find(b"\n", begin) + 1:
                self._take(bytes(self._lines[begin:end]), self._answers)
                begin = end
        self._asked.set()

    def _take(self, line: bytes, answers: EarlyAnswers) -> None:
        with self._taking:
            answer = answers.to(line) if self._is_mine and len(line) < PIECE else None
            if answer:
                self.answered.append((line, answer))
                self._sending.acquire()
        if answer:
            try:
                self.sink.write(answer)
                self.sink.flush()
            except OSError:  # nobody reads any more, and nothing was stored
                os._exit(0)
            self._sending.release()
        self._asked.set()


def wait_for(descriptor: int) -> None:
    """Wait until this can be read or has ended."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    poller.poll()


_client: EarlyClient | None = None


def early_client(offered: str) -> EarlyClient:
    """Return the process's client over standard input and output. `offered`: the key of its options."""
    global _client  # noqa: PLW0603 - a process has one
    if _client is None:
        described = description()
        answers = EarlyAnswers(described, offered) if offered in described["configurations"] else None
        _client = EarlyClient(*take_standard_streams(), answers)
        _client.wait_for_request()
    return _client


def answer_early(words: Sequence[str]) -> None:
    """Answer the client of a server that is about to start, if the command line is certainly valid."""
    if words[:1] not in ([], ["serve"]) and not words[0].startswith("-"):
        return
    offered = plain_options(words[words[:1] == ["serve"] :], os.environ)
    if offered is not None and not os.isatty(STDIN):
        early_client(offered)


def plain_options(words: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Return the key for flags and variables; None if they need a full check.

    Variables of settings do not matter: invalid ones are ignored.
    """
    own = {name: value for name, value in variables.items() if value and name.startswith((PREFIX, "CWE_"))}
    given = {name.removeprefix(PREFIX): value for name, value in own.items() if name not in description()["ignored"]}
    flags: dict[str, str] = {}
    rest = deque(words)
    while rest:
        flag, is_joined, value = rest.popleft().partition("=")
        if flag == "--read-only" and not is_joined and (not rest or rest[0].startswith("--")):
            value = "true"
        elif not is_joined and rest:
            value = rest.popleft()
        name = flag.removeprefix("--").replace("-", "_").upper()
        if not value or value.startswith("-") or name in flags or flag != f"--{name.lower().replace('_', '-')}":
            return None
        flags[name] = value
    if not flags.keys().isdisjoint(LOCATIONS):
        given = {name: value for name, value in given.items() if name not in LOCATIONS}
    given |= flags
    if not given.keys() <= {*OPTIONS, *LOCATIONS} or not is_plain_location(given, variables.get("CLAUDE_PROJECT_DIR")):
        return None
    profile, answers, toolsets, read_only = (given.get(name, default) for name, (default, *_) in OPTIONS.items())
    if any(given.get(name, choices[0]) not in choices for name, choices in OPTIONS.items()):
        return None
    is_lean = (answers or ("lean" if profile == "core" else "full")) == "lean"
    offered = key(toolsets.split(","), profile, is_lean=is_lean, read_only=read_only == "true")
    return offered if offered in description()["configurations"] else None


def is_plain_location(given: Mapping[str, str], project: str | None) -> bool:
    """Return whether a memory is in an existing folder, or will be created in one."""
    path, *others = [given[name] for name in LOCATIONS if name in given] or [project or "."]
    folder = (os.path.dirname(path) or ".") if "DATABASE_PATH" in given else path  # noqa: PTH120
    return not others and not path.startswith("~") and not {"$", ":"} & {*path} and os.path.isdir(folder)  # noqa: PTH112


def take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the protocol only.

    From now on, reading standard input returns end of file, and printing goes to standard error.
    """
    # The next file opened would get the number of a closed standard descriptor: occupy it.
    while (nothing := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    source, sink = os.fdopen(os.dup(STDIN), "rb", PIECE), os.fdopen(os.dup(STDOUT), "wb")
    os.dup2(nothing, STDIN)
    os.dup2(STDERR, STDOUT)
    return source, sink
