"""What of a conversation is worth remembering.

Hooks and readers of transcripts both ask here: what one of them has stored, the other recognizes.
"""

import re
from dataclasses import replace

from vector_memory.domain.text import without_halves
from vector_memory.domain.validation import MAX_CONTENT
from vector_memory.redaction import Redacted, redact

LEAST_REPORT, LEAST_ANSWER = 80, 200
"""Shorter texts say only that something is done."""

SENDERS = (
    "task-notification|agent-message|teammate-message|cross-session-message|coordinator-relay|channel|remote-review"
    "|slack-ping|slack-tag-message|tick|mcp-resource-update|mcp-polling-update"
)
"""Tags around what others than the user write to an agent."""

COMMANDS = (
    "add-dir|agents|branch|clear|color|compact|config|context|copy|cost|doctor|effort|exit|export|fast|fork|help|hooks"
    "|ide|init|login|logout|mcp|memory|model|output-style|permissions|plan|plugin|plugins|quit|release-notes"
    "|reload-plugins|rename|resume|rewind|sandbox|skills|status|statusline|terminal-setup|theme|undo|usage|vim"
)
"""Commands of clients. Other texts that begin with a slash can be of a path, or ask for the work of a skill."""

NOT_THE_USERS = re.compile(
    rf"<(?:{SENDERS})\b|<local-command|<command-|<bash-|<user-memory-input|\[Request interrupted by user"
    rf"|Caveat: The messages below|/(?:[A-Za-z][\w.-]*\s*\Z|[A-Za-z][\w.-]*:[A-Za-z]|(?:{COMMANDS})\s)"
)
"""How prompts begin that a user did not write: messages of agents and of programs, and commands of the client."""

SCAFFOLDING = re.compile(r"<(system-reminder|ide_\w+|local-command-\w+)\b[^>]*>.*?</\1>", re.DOTALL)
"""What a client adds to a prompt."""

BEFORE_REQUEST = re.compile(
    r"\A\s*# (?:Context from my IDE setup|Files mentioned by the user):.*?^## My request for Codex:",
    re.DOTALL | re.MULTILINE,
)
"""What an editor writes before the prompt, such as its open tabs."""

NO_ANSWER = re.compile(r"API Error(?::|\s*\()|No response requested\.\s*\Z")
"""How texts begin that a client writes in place of an answer."""

ANALYSIS = re.compile(r"<analysis>.*?(?:</analysis>|\Z)|</?summary>", re.DOTALL)
"""What a client's model writes around its summary, and before it to prepare it."""


def prompt_in(text: str) -> str:
    """Return what a user wrote; empty if it was not the user."""
    prompt = SCAFFOLDING.sub("", BEFORE_REQUEST.sub("", text, count=1)).strip()
    return "" if NOT_THE_USERS.match(prompt) else prompt


def answer_in(text: str) -> str:
    """Return the text of an answer; empty if it is short, or none."""
    answer = text.strip()
    return answer if len(answer) >= LEAST_ANSWER and not NO_ANSWER.match(answer) else ""


def report_in(text: str) -> str:
    """Return the text of a sub-agent's report; empty if it is short, or none."""
    report = text.strip()
    return report if len(report) >= LEAST_REPORT and not NO_ANSWER.match(report) else ""


def summary_in(text: str) -> str:
    """Return the summary of a compacted conversation."""
    return ANALYSIS.sub("", text).strip()


def storable(text: str, *, redacts: bool) -> Redacted:
    """Return a text as it is stored: without secrets and private parts if `redacts`, then cut to the maximum length."""
    text = without_halves(text)
    found = redact(text) if redacts else Redacted(text, 0)
    return replace(found, text=found.text[:MAX_CONTENT].strip())
