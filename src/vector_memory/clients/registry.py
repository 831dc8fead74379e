"""Every client by the name that commands take."""

from vector_memory.clients import (
    claude,
    cline,
    codex,
    continue_dev,
    copilot,
    documented,
    gemini,
    grok,
    opencode,
    qwen,
)
from vector_memory.clients.client import Client, Sessions

CLIENTS: dict[str, Client] = {
    "claude": claude.CLIENT,
    "codex": codex.CLIENT,
    "gemini": gemini.CLIENT,
    "qwen": qwen.CLIENT,
    "copilot": copilot.CLIENT,
    "opencode": opencode.CLIENT,
    "kilo": opencode.KILO,
    "cline": cline.CLIENT,
    "continue": continue_dev.CLIENT,
    "grok": grok.CLIENT,
    **documented.CLIENTS,
}

WITH_SESSIONS: dict[str, Sessions] = {name: one.sessions for name, one in CLIENTS.items() if one.sessions}
"""What the clients keep whose past sessions can be read."""
