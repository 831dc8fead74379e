"""A recorded session as a transcript that people can read, as the client's own window shows it."""

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from real_client.received import Answer, answers_in

WIDTH = 100
SHOWN = 280
"""How many characters of the arguments of a call and of each text that is found are shown."""

ANSWER = "  ⎿ "


def transcript(events: Iterable[dict[str, Any]]) -> str:
    """Return what was typed, what the memory added to it, and what the model said, called and received."""
    blocks = [block for event in events for block in _shown(event)]
    return "".join(("\n" if ANSWER in block else "\n\n") + block for block in blocks).lstrip()


def _shown(event: dict[str, Any]) -> Iterator[str]:
    margin = "    " if event.get("parent_tool_use_id") else ""  # what a sub-agent does is indented
    match event:
        case {"type": "typed", "text": text}:
            yield _wrapped("> ", text)
        case {"subtype": "hook_response", "hook_event": "UserPromptSubmit", "output": output}:
            added = json.loads(output or "{}").get("hookSpecificOutput", {}).get("additionalContext", "")
            if added:
                yield _wrapped("  + ", added)
        case {"type": "assistant", "message": {"content": blocks}}:
            for block in blocks:
                yield _wrapped(margin + "● ", block["text"] if block["type"] == "text" else _called(block))
        case {"type": "user", "message": {"content": content}}:
            for answer in answers_in(content):
                yield _wrapped(margin + ANSWER, "\n".join(_said(answer)))


def _called(block: dict[str, Any]) -> str:
    arguments = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in block["input"].items())
    return f"{block['name'].split('__')[-1]}({_shortened(arguments)})"


def _said(answer: Answer) -> Iterator[str]:
    """Yield the message of an answer, and the texts that it found."""
    try:
        fields = answer.fields
    except json.JSONDecodeError:
        yield _shortened(answer.text)
        return
    yield from filter(None, [fields.get("message")])
    for result in fields.get("results", ()):
        yield _shortened(f"[{result['memory_id']}] {result['content']}")


def _shortened(text: str) -> str:
    return textwrap.shorten(text, SHOWN, placeholder=" ...")


def _wrapped(first: str, text: str) -> str:
    """Return the lines of a text, broken and indented, behind a sign."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH - len(first)) or [""]]
    return "\n".join(
        (" " * len(first) + line if number else first + line).rstrip() for number, line in enumerate(lines)
    )
