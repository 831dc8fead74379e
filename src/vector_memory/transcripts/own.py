"""Reads the transcript of one session, where a client says that it is."""

from pathlib import Path

from vector_memory.transcripts.conversation import Transcript
from vector_memory.transcripts.importing import CLIENTS, is_within
from vector_memory.transcripts.lines import COMPRESSED

MAX_BYTES = 32 * 1024 * 1024
"""Longer transcripts are left to an import: reading this one takes a quarter of a second."""


def read_own(path: Path, session_id: str, project: Path) -> Transcript | None:
    """Return the transcript of a session of a project; None if the path names any other file, or a longer one.

    Only a file in the folder of a client is opened, whose name ends in the session's id. Raises FormatError, OSError.
    """
    path = path.resolve()
    if not path.name.removesuffix(COMPRESSED).endswith(f"{session_id}.jsonl"):
        return None
    for client in CLIENTS.values():
        if path.is_relative_to(client.home().resolve()) and path.is_file() and path.stat().st_size <= MAX_BYTES:
            transcript = client.read(path)
            is_own = transcript is not None and transcript.session_id == session_id and is_within(transcript, project)
            return transcript if is_own else None
    return None


def is_of_subagent(path: Path, session_id: str) -> bool:
    """Return whether a transcript is that of a sub-agent: in Codex it has an id of its own, in the user's session."""
    return path.name.startswith("rollout-") and not path.name.removesuffix(COMPRESSED).endswith(f"{session_id}.jsonl")
