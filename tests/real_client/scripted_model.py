"""A model that plays a script: a small server of the APIs of real clients, which then need no account.

A script maps prompts to turns. A prompt is what the user types, or what an agent tells the agent that it starts. Its
turns are what the model says and calls in answer to it, one for each request of the client:

    script = {
        "Why do deploys hang?": [
            [Say("I will look it up."), memory("search_reports_specific_chunks", query="deploys hang")],
            [Say("A migration holds a lock.")],
        ],
    }
    with ScriptedModel(script) as model:
        ...  # run the client against model.url
        (answer,) = model.answers()

A turn can be a function that returns one. It is called when the turn is due, and may look at `model.answers()` or wait
for another client. After its last turn, and for a prompt that is not in the script, the model says "Done."
"""

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from real_client import messages_api, responses_api
from real_client.received import Answer, Request

PLUGIN = "mcp__plugin_vector-memory_memory__"
"""How Claude Code begins the names of the tools of this project's plugin."""

SERVER = "mcp__vector-memory__"
"""How it begins those of a server that `install` has added."""


@dataclass(frozen=True)
class Say:
    """A text for the user."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of one of the client's tools."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def memory(tool: str, **arguments: Any) -> Call:
    """Return a call of one of the memory's tools."""
    return Call(PLUGIN + tool, arguments)


Turn = Sequence[Say | Call]
Script = dict[str, Sequence[Turn | Callable[[], Turn]]]

DONE: Turn = (Say("Done."),)

CODEX = """
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""
"""A configuration of Codex that uses this model."""
CODEX_WAITS = [
    "-c", "mcp_servers.vector-memory.required=true", "-c", "mcp_servers.vector-memory.startup_timeout_sec=60"
]  # fmt: skip
"""Otherwise the first prompt may come before the server is connected."""


class ScriptedModel:
    """Serves a script on 127.0.0.1, and records the requests. Prompts can be added to `script` at any time."""

    def __init__(self, script: Script | None = None) -> None:
        self.script: Script = {} if script is None else script
        self.requests: list[Request] = []
        self._call_ids: list[str] = []
        self._numbers = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answers(self) -> list[Answer]:
        """Return what the model has received for its calls so far, in the order in which it made them."""
        found = {answer.call_id: answer for request in list(self.requests) for answer in request.answers}
        return [found[call_id] for call_id in list(self._call_ids) if call_id in found]

    def play(self, request: Request) -> list[dict[str, Any]]:
        """Return the blocks of the turn that is due."""
        self.requests.append(request)
        return [self._block(part) for part in self._due(request)]

    def _due(self, request: Request) -> Turn:
        prompt, turns_since = request.newest(self.script)
        turns = self.script[prompt] if prompt is not None else ()
        turn = turns[turns_since] if turns_since < len(turns) else DONE
        return turn() if callable(turn) else turn

    def _block(self, part: Say | Call) -> dict[str, Any]:
        if isinstance(part, Say):
            return {"type": "text", "text": part.text}
        call_id = f"toolu_{next(self._numbers)}"
        self._call_ids.append(call_id)
        return {"type": "tool_use", "id": call_id, "name": part.tool, "input": dict(part.arguments)}


class _Server(ThreadingHTTPServer):
    """Says nothing when a client is killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless the connection has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Speaks the part of the APIs that clients use."""

    model: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the name is inherited
        """Stay silent."""

    def do_HEAD(self) -> None:
        """Show that there is a server."""
        self._send(b"")

    def do_GET(self) -> None:
        """List no models."""
        self._send(b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        """Send a turn, or a number of tokens."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith(responses_api.PATH):
            self._stream(responses_api.streamed(self.model.play(responses_api.request(body))))
        elif "/count_tokens" in self.path:
            self._send(json.dumps({"input_tokens": len(json.dumps(body)) // 4}).encode())
        else:
            self._stream(messages_api.streamed(self.model.play(Request(body)), body["model"]))

    def _stream(self, events: Iterator[dict[str, Any]]) -> None:
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, content: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
