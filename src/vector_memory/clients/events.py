"""The events that clients report to the server through hooks, each described once.

The server's hook tools, what `install` writes, the plugin's hooks and the tables of docs/hooks.md are made of them.
"""

from typing import NamedTuple

TIMEOUT_SECONDS = 5
"""A server that is starting does not keep the user waiting for longer."""

TIMEOUT_OF_REPORTS_SECONDS = 60
"""Codex starts a server for each sub-agent, which on a busy machine may be ready after the report is."""


class HookEvent(NamedTuple):
    """An event. `tool`: what its hook calls, a function of `server/hooks/capture.py`; `fields`: what that reads.

    For the docs: `when` it happens, what is `stored`, and what the agent receives.
    """

    tool: str
    fields: tuple[str, ...]
    when: str
    stored: str
    received: str = ""
    timeout: int = TIMEOUT_SECONDS


EVENTS = {
    "UserPromptSubmit": HookEvent(
        "hook_prompt",
        ("session_id", "transcript_path", "prompt"),
        "you send a prompt",
        "the prompt (`input_prompt`)",
        "with the first prompt of a session: a recap of the project's last session",
    ),
    "SubagentStop": HookEvent(
        "hook_subagent",
        ("session_id", "agent_type", "last_assistant_message"),
        "a sub-agent ends",
        "its last message (`report`, under the sub-agent's type), from 80 characters",
        timeout=TIMEOUT_OF_REPORTS_SECONDS,
    ),
    "Stop": HookEvent(
        "hook_answer",
        ("session_id", "transcript_path", "last_assistant_message"),
        "the agent has answered",
        "the answer (`working_memory`), from 200 characters",
    ),
    "PostCompact": HookEvent(
        "hook_compaction",
        ("session_id", "compact_summary"),
        "the conversation was compacted",
        "the summary that the client wrote (`session_context`); Codex does not report it",
    ),
}

HOOKS = {event.tool: name for name, event in EVENTS.items()}
"""The tools that hooks call, and their events."""
