"""The MCP server: tools, prompts and resources over the facade.

It sets the environment variables that libraries read at import, so import it before FastMCP, pydantic and numpy.
At import FastMCP reads every FASTMCP_* variable, and a `.env` file in the current folder: the folder of the project
that the client works on, which somebody else may have written. This server has its own settings and logs through the
standard library only.
"""

import os

for _name in [name for name in os.environ if name.upper().startswith("FASTMCP_")]:
    del os.environ[_name]
os.environ["FASTMCP_ENV_FILE"] = os.devnull
os.environ["FASTMCP_LOG_ENABLED"] = "false"
os.environ["FASTMCP_TELEMETRY_MODE"] = "off"


def can_be_home(home: str) -> bool:
    """Return whether a user can have a home here: an absolute path that leads through no folder closed to the user."""
    try:
        os.stat(f"{home}/.")  # noqa: PTH116 - a command starts without pathlib
    except PermissionError:
        return False
    except OSError:  # it does not exist yet
        pass
    return home.startswith("/")


if not can_be_home(os.environ.get("HOME", "")):
    os.environ.pop("HOME", None)  # an empty one would be the root folder; without one, the user's own is looked up
if os.path.expanduser("~") == "~":  # noqa: PTH111
    os.environ.setdefault("XDG_DATA_HOME", os.devnull)  # FastMCP wants to know a folder for files, which it never has

# Multiplying a matrix by a vector is limited by memory bandwidth: more threads gain nothing, and cost 8 ms whenever
# another program keeps one of them from running.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Otherwise pydantic reads the metadata of every installed package to find plugins.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")
