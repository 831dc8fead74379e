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

NOT_THE_USERS = re.compile(
    r"<task-notification|<local-command|<command-|<bash-|<user-memory-input|\[Request interrupted by user"
    r"|Caveat: The messages below|/[A-Za-z][\w:.-]*(?=\s|$)"
)
"""How prompts begin that a user did not write: reports of background agents, and commands of the client."""

SCAFFOLDING = re.compile(r"<(system-reminder|ide_\w+|local-command-\w+)\b[^>]*>.*?</\1>", re.DOTALL)
"""What a client adds to a prompt."""

ANALYSIS = re.compile(r"<analysis>.*?(?:</analysis>|\Z)|</?summary>", re.DOTALL)
"""What a client's model writes around its summary, and before it to prepare it."""


def prompt_in(text: str) -> str:
    """Return what a user wrote; empty if it was not the user."""
    prompt = SCAFFOLDING.sub("", text).strip()
    return "" if NOT_THE_USERS.match(prompt) else prompt


def answer_in(text: str) -> str:
    """Return the text of an answer; empty if it is short."""
    answer = text.strip()
    return answer if len(answer) >= LEAST_ANSWER else ""


def report_in(text: str) -> str:
    """Return the text of a sub-agent's report; empty if it is short."""
    report = text.strip()
    return report if len(report) >= LEAST_REPORT else ""


def summary_in(text: str) -> str:
    """Return the summary of a compacted conversation."""
    return ANALYSIS.sub("", text).strip()


def storable(text: str, *, redacts: bool) -> Redacted:
    """Return a text as it is stored: without secrets and private parts if `redacts`, then cut to the maximum length."""
    text = without_halves(text)
    found = redact(text) if redacts else Redacted(text, 0)
    return replace(found, text=found.text[:MAX_CONTENT].strip())
