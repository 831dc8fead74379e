"""What Claude Code sends to the model: the conversation so far, as a request of the Messages API."""

import json
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from typing import Any

COMPACT = "/compact"
SUMMARY_REQUEST = "Your task is to create a detailed summary of the conversation"
"""What Claude Code asks the model when the user types the command above."""


@dataclass(frozen=True)
class Answer:
    """What the model receives for a call."""

    call_id: str
    text: str
    failed: bool

    @property
    def fields(self) -> dict[str, Any]:
        """The structured answer of a tool of the memory."""
        return dict(json.loads(self.text))


@dataclass(frozen=True)
class Request:
    """A request for the model's next turn."""

    body: dict[str, Any]

    @cached_property
    def messages(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The role and the blocks of each message."""
        return [(message["role"], _blocks(message["content"])) for message in self.body["messages"]]

    @cached_property
    def answers(self) -> list[Answer]:
        """What the calls returned."""
        return [answer for _, blocks in self.messages for answer in answers_in(blocks)]

    @cached_property
    def text(self) -> str:
        """What the model reads besides the answers: instructions, prompts, what hooks add, its own words."""
        return "\n".join([_text(_blocks(self.body.get("system", ""))), *(_text(blocks) for _, blocks in self.messages)])

    def newest(self, prompts: Container[str]) -> tuple[str | None, int]:
        """Return the last of these prompts in the conversation, and how many turns the model has had since."""
        turns = 0
        for role, blocks in reversed(self.messages):
            typed = [_typed(block["text"]) for block in blocks if role == "user" and block["type"] == "text"]
            for text in reversed(typed):
                if text in prompts:
                    return text, turns
            turns += role == "assistant"
        return None, turns


def answers_in(content: str | list[dict[str, Any]]) -> list[Answer]:
    """Return the results of calls that a message holds."""
    return [
        Answer(block["tool_use_id"], _text(_blocks(block.get("content", ""))), bool(block.get("is_error")))
        for block in _blocks(content)
        if block["type"] == "tool_result"
    ]


def _typed(text: str) -> str:
    return COMPACT if SUMMARY_REQUEST in text else text.strip()


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block.get("text") or block.get("tool_name", "") for block in blocks)
