"""The calls that the documents show do what they show, on a real server and in the library.

The contract tests compare the tools with lists of parameters and keys; these run tests/data/documents/calls.md.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from servers import Server
from vector_memory import SessionMemoryStore
from vector_memory.server.tools import offered
from vector_memory.settings import Toolset

CALLS = Path(__file__).parent / "data" / "documents" / "calls.md"
MIGRATING = Path(__file__).parents[1] / "docs" / "migrating.md"
TOOLS = {tool.name: tool for tool in offered(tuple(Toolset))}
SEARCHES = [name for name in TOOLS if name.startswith("search_") and name not in {"search_memories", "search_changes"}]
NOT_HERE = ("db_path", "storage", "search", "maintenance", "chunking", "search_stats", "embedding_model")
"""What the documents' `SessionMemoryStore` has besides its calls."""

REPORT = "# Performance analysis\n\n" + "\n\n".join(
    f"## Part {number}\n\n" + f"The database connection is slow: bottleneck {number} of the service. " * 20
    for number in range(1, 12)
)
TEXTS = {
    "large_markdown_report": REPORT,
    "report_markdown": "# Database\n\nConnection issues: the pool is exhausted after a timeout.",
    "documentation_text": "# Go\n\nReturn errors, and wrap them where they gain context.",
    "query": "database connection",
    "agent_id": "a",
    "session_id": "s",
    "session_iter": None,
    "task_code": None,
    "content": "# Report\n\nThe first store.",
}


def run(kind: str, names: dict[str, Any]) -> None:
    """Run the blocks of a kind in order, so that a failure shows its line of the page."""
    for token in MarkdownIt().parse(CALLS.read_text(encoding="utf-8")):
        if token.type == "fence" and token.info == f"python {kind}":
            assert token.map
            padding = "\n" * (token.map[0] + 1)
            exec(compile(padding + token.content, CALLS, "exec"), names)  # noqa: S102 - the blocks are our own


def called(server: Server, name: str, *values: Any, **arguments: Any) -> dict[str, Any]:
    """Call a tool as the documents do: with keywords, by position, or with one object."""
    if values and isinstance(values[0], dict):
        arguments = values[0]
    else:
        arguments = dict(zip(TOOLS[name].parameters["properties"], values, strict=False)) | arguments
    answer = server.call(name, **arguments)
    assert answer["success"] or "already exists" in answer["message"], f"{name}: {answer['message']}"
    return answer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of all tools with the real model, in its default configuration."""
    variables = {"TOOLSETS": "all", "EMBEDDING_MODEL": "all-MiniLM-L6-v2"}
    with Server(tmp_path, **{f"VECTOR_MEMORY_{name}": value for name, value in variables.items()}) as server:
        yield server.hello()


def searches(tools: dict[str, Callable[..., Any]]) -> list[Callable[..., Any]]:
    """Return every search of the session tools, each with what finds something."""
    for name in ("store_input_prompt", "store_system_memory", "store_working_memory"):
        tools[name](session_id="s", content="A database of prompts and commands.")
    by_scope = {"search_session_context": "analyze-code-1234", "search_input_prompts": "s"}
    return [
        partial(tools[name], session_id=by_scope[name]) if name in by_scope else partial(tools[name], query="database")
        for name in SEARCHES
    ]


def test_the_calls_of_the_documents_hold_on_a_server(server: Server, tmp_path: Path) -> None:
    """Each block runs, and reads the keys that it reads."""
    tools = {name: partial(called, server, name) for name in TOOLS}
    exports = tmp_path / "exports"
    paths = {"output_path": str(exports / "report.md"), "other_output_path": str(exports / "other.md")}
    run("tools", tools | TEXTS | paths | {"every_session_search": searches(tools)})


def test_the_calls_of_the_documents_hold_in_the_library(store: SessionMemoryStore) -> None:
    """The same, of what they call in Python."""
    run("store", {"store": store, **TEXTS})


def test_what_the_library_lacks_is_said(store: SessionMemoryStore) -> None:
    """Attributes of the documents' store that this one has not are named where a caller of it looks."""
    page = MIGRATING.read_text(encoding="utf-8")
    for name in (*NOT_HERE, "search_with_granularity"):
        assert not hasattr(store, name)
        assert f"`{name}`" in page
