"""A model that plays a script over four APIs: chat completions, which most clients speak, and those of three vendors.

A script maps a prompt to turns, as `real_client.scripted_model` does: each is a text or a call, and after the last one
the model says "Done." A request belongs to the prompt that appears last in it.
"""

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from real_client import messages_api, responses_api


@dataclass(frozen=True)
class Call:
    """A call of the tool whose name, with the client's prefix, ends in this one."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Messages = Sequence[Mapping[str, Any]]
Turn = Callable[[Messages], str | Call]
"""Decides on a turn when it is due."""

Script = dict[str, Sequence[str | Call] | Turn]
DONE = "Done."


def prompts_in(messages: Messages, script: Script) -> tuple[Sequence[str | Call] | Turn, int]:
    """Return the turns of the last prompt, and how many the model has had since."""
    turns = 0
    for message in reversed(messages):
        if message["role"] == "user":
            text = json.dumps(message, ensure_ascii=False)
            found = [prompt for prompt in script if prompt in text]
            if found:
                return script[max(found, key=text.rfind)], turns
        turns += message["role"] in ("assistant", "model")
    return (), 0


class Model:
    """Serves a script on 127.0.0.1, and keeps what it received."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.tokens = 1
        """How many each request has, as the chat API says, so that a client compacts its conversation."""
        self.numbers = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def tools(self) -> set[str]:
        """The names of the tools in any request."""
        return {name for body in list(self.requests) for name in tool_names(body)}

    def due(self, messages: Messages, names: Sequence[str]) -> str | tuple[str, dict[str, Any]]:
        """Return the turn that is due: a text, or the name of a tool and its arguments."""
        turns, number = prompts_in(messages, self.script)
        turn = turns(messages) if callable(turns) else turns[number] if number < len(turns) else DONE
        if isinstance(turn, str):
            return turn
        called = min((name for name in names if name.endswith(turn.tool)), key=len, default=turn.tool)
        return called, dict(turn.arguments)


def tool_names(body: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    found = []
    for tool in body.get("tools") or ():
        declared = tool.get("functionDeclarations") or [tool.get("function") or tool]
        found += [one["name"] for one in declared if "name" in one]
    return found


def event_of(chunk: Mapping[str, Any]) -> str:
    """Return a part of a streamed answer, named if it has a type."""
    return (f"event: {chunk['type']}\n" if "type" in chunk else "") + f"data: {json.dumps(chunk)}\n\n"


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the name is inherited
        pass

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        chunks: Iterator[dict[str, Any]]
        if ":countTokens" in self.path or "/count_tokens" in self.path:
            self._send(b'{"totalTokens": 10, "input_tokens": 10}')
            return
        self.model.requests.append(body)
        if self.path.startswith(responses_api.PATH):
            chunks = responses_api.streamed(self._blocks(body, responses_api.request(body).body["messages"]))
            streams, end = True, ""
        elif "/messages" in self.path:
            chunks = messages_api.streamed(self._blocks(body, body["messages"]), body["model"])
            streams, end = True, ""
        elif "GenerateContent" in self.path or "generateContent" in self.path:
            chunks = iter([self._of_gemini(body)])
            streams, end = "stream" in self.path, ""
        else:
            turn = self.model.due(body.get("messages", []), tool_names(body))
            streams, end = bool(body.get("stream")), "data: [DONE]\n\n"
            chunks = self._of_chat(turn, streams=streams)
        if streams:
            self._send(("".join(map(event_of, chunks)) + end).encode(), "text/event-stream")
        else:
            self._send(json.dumps(next(chunks)).encode())

    def _blocks(self, body: dict[str, Any], messages: Messages) -> list[dict[str, Any]]:
        turn = self.model.due(messages, tool_names(body))
        if isinstance(turn, str):
            return [{"type": "text", "text": turn}]
        return [{"type": "tool_use", "id": f"toolu_{next(self.model.numbers)}", "name": turn[0], "input": turn[1]}]

    def _of_gemini(self, body: dict[str, Any]) -> dict[str, Any]:
        turn = self.model.due(body["contents"], tool_names(body))
        called = isinstance(turn, tuple)
        part = {"functionCall": {"name": turn[0], "args": turn[1]}} if called else {"text": turn}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2}}

    def _of_chat(self, turn: str | tuple[str, dict[str, Any]], *, streams: bool) -> Iterator[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": turn}
        if isinstance(turn, tuple):
            called = {"name": turn[0], "arguments": json.dumps(turn[1])}
            call = {"index": 0, "id": f"call_{next(self.model.numbers)}", "type": "function", "function": called}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        head = {"id": f"c{next(self.model.numbers)}", "created": 1, "model": "scripted"}
        reason = "tool_calls" if isinstance(turn, tuple) else "stop"
        tokens = self.model.tokens
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
        if not streams:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            yield {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            return
        head["object"] = "chat.completion.chunk"
        yield {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}

    def _send(self, content: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(content)
