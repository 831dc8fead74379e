"""The Messages API, which Claude Code speaks: a turn as a stream of events."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

_messages = itertools.count(1)


def streamed(blocks: Sequence[dict[str, Any]], model: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a message with these blocks. Its id is new: Claude Code joins messages with the same id."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{next(_messages)}", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}
