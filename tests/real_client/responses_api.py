"""The Responses API, which Codex speaks: requests read as those of the Messages API, a turn as a stream of events."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from real_client.received import Request

PATH = "/v1/responses"

NAMESPACE = "mcp__vector_memory"
"""How Codex calls the tools of the server vector-memory, however Claude Code calls them."""

_numbers = itertools.count(1)


def request(body: dict[str, Any]) -> Request:
    """Return what the model would have received from Claude Code: the items of a turn are one message."""
    turns = itertools.groupby(map(_role_and_blocks, body["input"]), key=itemgetter(0))
    return Request({"messages": [{"role": role, "content": _joined(turn)} for role, turn in turns]})


def _joined(items: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [block for _, blocks in items for block in blocks]


def _role_and_blocks(item: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    match item["type"]:
        case "function_call":
            return "assistant", [{"type": "tool_use", "id": item["call_id"]}]
        case "function_call_output":
            before, _, text = item["output"].partition("Output:\n")  # after the time that a call of a server took
            return "user", [{"type": "tool_result", "tool_use_id": item["call_id"], "content": text or before}]
        case "message":
            return item["role"], [{"type": "text", "text": part["text"]} for part in item["content"]]
    return "system", []


def streamed(blocks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a response with these blocks."""
    response = {"id": f"resp_{next(_numbers)}"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": response}
    for index, block in enumerate(blocks):
        yield {"type": "response.output_item.done", "output_index": index, "item": _item(block)}
    yield {"type": "response.completed", "response": {**response, "usage": usage}}


def _item(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": block["text"]}]}
    namespace, _, name = block["name"].rpartition("__")
    arguments = json.dumps(block["input"])
    return {
        "type": "function_call",
        "namespace": NAMESPACE if namespace.startswith("mcp__") else namespace,
        "name": name,
        "call_id": block["id"],
        "arguments": arguments,
    }
