"""Start vector-memory from a clone: `uv run main.py --help`, or in the MCP Inspector: `uv run mcp dev main.py`."""

import sys

from vector_memory.__main__ import main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp.server import MCPServer


def __getattr__(name: str) -> "MCPServer":
    """Return what the SDK's `mcp` looks for in a file, an object `mcp` that can be run."""
    if name != "mcp":
        raise AttributeError(name)
    from mcp.server import MCPServer  # noqa: PLC0415 (half a second)

    class Server(MCPServer):
        """Has only the methods that `mcp` calls."""

        def run(self, *_: object, **__: object) -> None:
            sys.argv[1:] = ["serve"]
            main()

    return Server("vector-memory")


if __name__ == "__main__":
    main()
