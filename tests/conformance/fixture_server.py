"""The server for a team, with what the conformance suite asks for besides: its tools, resources and prompts.

The suite sends no token, so a thin layer in front adds one. All else is the server as it is deployed.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message, PromptResult
from fastmcp.tools import Tool, ToolResult
from mcp import MCPError
from mcp_types import (
    AudioContent,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import BaseModel

from vector_memory.domain.callers import Permission
from vector_memory.extras.teams import serving as team_serving
from vector_memory.extras.teams.registry import Registry
from vector_memory.server.app import create_server
from vector_memory.server.http import serving
from vector_memory.server.http.asgi_guard import App
from vector_memory.settings import HttpOptions, ServerOptions, Settings

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONTEXT = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

SCHEMA_2020_12 = json.loads("""{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "$defs": {"address": {"$anchor": "addressDef", "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
  "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    "phone": {"type": "string"}, "email": {"type": "string"}},
  "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
  "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
  "then": {"required": ["phone"]},
  "else": {"required": ["email"]},
  "additionalProperties": false
}""")


def team_with_fixtures(folder: Path, settings: Settings) -> App:
    """Return the application for a team, with fixtures, where every request comes from an admin."""
    Registry(folder).create("suite")
    secret = Registry(folder).tokens.create("suite", "suite", Permission.ADMIN)

    def with_fixtures(*arguments: Any, **options: Any) -> FastMCP:
        server = create_server(*arguments, **options)
        for add in (add_contents, add_talkers, add_questions, add_resources, add_prompts):
            add(server)
        return server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team_serving, "create_server", with_fixtures)
        options = HttpOptions(http=True, data_dir=folder)
        app = serving.application(folder / "unused.db", settings, [], ServerOptions(), options)
    return with_token(app, secret)


def with_token(app: App, secret: str) -> App:
    """Return an application whose every request carries a token."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {secret}".encode())]}
        await app(scope, receive, send)

    return call


def text_of(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


IMAGE = ImageContent(data=PIXEL, mime_type="image/png")


def add_contents(server: FastMCP) -> None:
    """Add a tool for each kind of answer."""
    answers: dict[str, list[ContentBlock]] = {
        "test_simple_text": [TextContent(text="This is a simple text response for testing.")],
        "test_image_content": [IMAGE],
        "test_audio_content": [AudioContent(data=SOUND, mime_type="audio/wav")],
        "test_embedded_resource": [text_of("test://embedded-resource", "This is an embedded resource content.")],
        "test_multiple_content_types": [
            TextContent(text="Multiple content types test:"),
            IMAGE,
            text_of("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
        ],
    }
    for name, content in answers.items():
        server.tool(answering(content), name=name, description="Answers with a fixed content.")

    @server.tool
    def test_error_handling() -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    class WithSchema(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:  # noqa: ARG002
            return ToolResult("Done.")

    server.add_tool(
        WithSchema(name="json_schema_2020_12_tool", description="Has a rich schema.", parameters=SCHEMA_2020_12)
    )


def answering(content: list[ContentBlock]) -> Callable[[], ToolResult]:
    return lambda: ToolResult(content)


def add_talkers(server: FastMCP) -> None:
    """Add tools that say something before they answer."""

    @server.tool
    async def test_tool_with_progress(context: Context) -> str:
        """Report progress."""
        for progress in (0, 50, 100):
            await context.report_progress(progress, 100)
            await asyncio.sleep(0.05)
        return "Done."

    async def log(context: Context) -> str:
        """Log."""
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.info(text)
            await asyncio.sleep(0.05)
        return "Done."

    server.tool(log, name="test_tool_with_logging")
    server.tool(log, name="test_logging_tool")

    @server.tool
    def test_missing_capability(context: Context) -> str:
        """Need a client that samples."""
        capabilities = context.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs a client that samples.", needed)
        return "Done."


class Contact(BaseModel):
    """What a legacy client is asked for."""

    username: str
    email: str


def form(message: str, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str) -> CreateMessageRequest:
    messages = [SamplingMessage(role="user", content=TextContent(text=text))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=100))


def add_questions(server: FastMCP) -> None:
    """Add tools that ask the user, the model or the client before they answer."""
    name = form("What is your name?", NAME)
    confirm = form("Please confirm", OK)
    ask = {
        "test_input_required_result_elicitation": ({"user_name": name}, None),
        "test_streaming_elicitation": ({"user_name": name}, None),
        "test_input_required_result_sampling": ({"capital_question": sample("What is the capital of France?")}, None),
        "test_input_required_result_list_roots": ({"client_roots": ListRootsRequest()}, None),
        "test_input_required_result_request_state": ({"confirm": confirm}, "asked"),
        "test_input_required_result_tampered_state": ({"confirm": confirm}, "asked"),
        "test_input_required_result_multiple_inputs": (
            {"user_name": name, "greeting": sample("Generate a greeting"), "client_roots": ListRootsRequest()},
            "asked",
        ),
    }
    for tool, (questions, state) in ask.items():
        server.tool(asking(questions, state), name=tool, description="Asks before it answers.")

    @server.tool
    async def test_input_required_result_multi_round(context: Context) -> str | InputRequiredResult:
        """Ask twice."""
        answers = context.input_responses or {}
        if context.request_state == "second" and "step2" in answers:
            return "Done."
        if context.request_state == "first" and "step1" in answers:
            color = form("Step 2: What is your favorite color?", COLOR)
            return InputRequiredResult(input_requests={"step2": color}, request_state="second")
        step = form("Step 1: What is your name?", NAME)
        return InputRequiredResult(input_requests={"step1": step}, request_state="first")

    @server.tool
    async def test_input_required_result_capabilities(context: Context) -> str | InputRequiredResult:
        """Ask only what the client can answer."""
        able = context.session.client_capabilities
        questions = {"name": name if able and able.elicitation else None}
        questions |= {"greeting": sample("Generate a greeting") if able and able.sampling else None}
        return InputRequiredResult(input_requests={key: value for key, value in questions.items() if value})


def asking(questions: dict[str, Any], state: str | None) -> Callable[..., Any]:
    """Return a tool that asks these questions, and answers once all have an answer."""

    async def ask(context: Context) -> str | InputRequiredResult:
        answers = context.input_responses or {}
        if context.request_state != state or questions.keys() - answers.keys():
            return InputRequiredResult(input_requests=questions, request_state=state)
        user = answers.get("user_name")
        said = (user.content or {}).get("name") if isinstance(user, ElicitResult) else None
        return f"Hello, {said}!" if said else "state-ok"

    return ask


def add_resources(server: FastMCP) -> None:
    """Add a text, a picture and a template."""

    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """Return a text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """Return a picture."""
        return b"\x89PNG"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002 - the name in the address
        """Return what was asked for."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: FastMCP) -> None:
    """Add prompts with and without arguments, and one that asks."""

    @server.prompt
    def test_simple_prompt() -> str:
        """Return a text."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Return the arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> PromptResult:  # noqa: N803 - as the suite names it
        """Return a resource."""
        resource = text_of(resourceUri, "Embedded resource content for testing.")
        return PromptResult([Message(resource), Message("Please process the embedded resource above.")])

    @server.prompt
    def test_prompt_with_image() -> PromptResult:
        """Return a picture."""
        return PromptResult([Message(IMAGE), Message("Please analyze the image above.")])

    @server.prompt
    async def test_input_required_result_prompt(context: Context) -> str | InputRequiredResult:
        """Ask for the context."""
        if "user_context" in (context.input_responses or {}):
            return "Done."
        question = form("What context should the prompt use?", CONTEXT)
        return InputRequiredResult(input_requests={"user_context": question})
