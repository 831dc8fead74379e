"""Calls of a server over HTTP, without a client of the protocol."""

import json
from typing import Any

import httpx2

from servers import ENVELOPE, LEGACY, MODERN


def call_request(
    url: str, secret: str | None, tool: str, arguments: dict[str, Any], headers: dict[str, str] | None = None
) -> httpx2.Request:
    """Return the call of a tool in the newer protocol era."""
    all_headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
        **({} if secret is None else {"Authorization": f"Bearer {secret}"}),
        **(headers or {}),
    }
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx2.Request("POST", url, json=body, headers=all_headers)


def post(
    url: str,
    secret: str | None = None,
    *,
    tool: str = "list_sessions",
    arguments: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    verify: bool = True,
) -> httpx2.Response:
    """Call a tool in the newer protocol era."""
    with httpx2.Client(timeout=60, verify=verify) as client:
        return client.send(call_request(url, secret, tool, arguments or {}, headers))


def send(url: str, secret: str | None, method: str, params: dict[str, Any], **headers: str) -> httpx2.Response:
    """Send a request of the older era, or of the newer one if `params` have an envelope."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return send_bytes(url, secret, method, params, body, **headers)


def send_bytes(
    url: str, secret: str | None, method: str, params: dict[str, Any], body: bytes, **headers: str
) -> httpx2.Response:
    """Send a request whose body is written already."""
    era = MODERN if "_meta" in params else LEGACY
    said = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": era, "Mcp-Method": method}
    said |= {"Mcp-Name": params["name"]} if "name" in params else {}
    said |= {} if secret is None else {"Authorization": f"Bearer {secret}"}
    said |= {"Content-Type": "application/json"}
    return httpx2.post(url, content=body, headers=said | headers, timeout=60)


def message_of(answer: httpx2.Response) -> dict[str, Any]:
    """Return the message in an answer of either kind, JSON or a stream."""
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith(("data: {", "{"))]
    return dict(json.loads(lines[-1]))


def answer_in(response: httpx2.Response) -> dict[str, Any]:
    """Return the structured answer of a tool. A server that needs 15 s for it, as a busy one may, sends a stream."""
    return dict(message_of(response)["result"]["structuredContent"])


def called(url: str, secret: str, tool: str = "list_sessions", **arguments: object) -> dict[str, Any]:
    """Call a tool, and return its structured answer."""
    return answer_in(post(url, secret, tool=tool, arguments=arguments))
