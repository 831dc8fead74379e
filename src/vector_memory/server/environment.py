"""Settings of libraries that are read when they are imported; imported before FastMCP and numpy, for its effect.

When FastMCP is imported it reads every FASTMCP_* variable, and a `.env` file in the current folder: the folder of the
project that the client works on, which somebody else may have written. This server has settings of its own, and logs
through the standard library only.
"""

import os

for _name in [name for name in os.environ if name.upper().startswith("FASTMCP_")]:
    del os.environ[_name]
os.environ["FASTMCP_ENV_FILE"] = os.devnull
os.environ["FASTMCP_LOG_ENABLED"] = "false"
os.environ["FASTMCP_TELEMETRY_MODE"] = "off"

# A product of a matrix and a vector waits for memory: more threads gain nothing, and 8 ms are lost whenever another
# program keeps one of them from running.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Pydantic would read what is said of every installed package, to find plugins that somebody may have installed.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")
