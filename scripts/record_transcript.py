"""Print a conversation of the real Claude Code with this memory: `uv run python scripts/record_transcript.py`.

The client is the one that `uv run python tests/from_npm.py real_client` installs. A scripted model plays the agent;
what the memory answers and adds is real. To tell another story, edit SESSIONS.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from from_npm import installed
from real_client.claude_code import User
from real_client.scripted_model import Say, Script, ScriptedModel, memory
from real_client.transcript import transcript

REPORT = """\
# Nightly import

The nightly import fails because the root partition of staging-2 is full: the job writes 40 GB of temporary files to \
/var/tmp, and 12 GB are left.

## What helps

Set IMPORT_SCRATCH=/data/scratch in /etc/import.env. The data partition has 900 GB left.
"""

SESSIONS: list[Script] = [
    {
        "Why does the nightly import fail?": [
            [memory("store_report", content=REPORT)],
            [
                Say(
                    "The root partition of staging-2 is full: the import writes 40 GB of temporary files to /var/tmp. "
                    "It should use the data partition instead: set IMPORT_SCRATCH=/data/scratch in /etc/import.env. "
                    "I have not changed the file, because the import runs until six."
                )
            ],
        ],
    },
    {
        "The import has failed again. Go on where we stopped.": [
            [memory("search_reports_specific_chunks", query="import runs out of disk space", limit=1)],
            [
                Say(
                    "IMPORT_SCRATCH is still to be set: yesterday the import was running. I will set it to "
                    "/data/scratch now."
                )
            ],
        ],
    },
]
"""What the user types in each session, with the agent's turns."""


def main() -> None:
    """Play the sessions one after the other, and print them."""
    command = installed("real_client", "claude")
    if command is None:
        sys.exit("Claude Code is not installed: uv run python tests/from_npm.py real_client")
    with tempfile.TemporaryDirectory() as folder, ScriptedModel() as model:
        user = User(command, Path(folder), model)
        for number, script in enumerate(SESSIONS, start=1):
            model.script |= script
            with user.session() as session:
                for prompt in script:
                    session.ask(prompt)
            print(f"Session {number}:\n\n```text\n{transcript(session.events)}\n```\n")


if __name__ == "__main__":
    main()
