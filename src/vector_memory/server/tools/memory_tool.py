"""Turns a function into a tool: shortens its schemas and turns its failures into answers."""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, cast, get_args, get_type_hints

from fastmcp.decorators import get_fastmcp_meta
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context, transform_context_annotations
from fastmcp.tools import FunctionTool, ToolResult
from fastmcp.tools.function_tool import ToolMeta
from mcp_types import TextContent
from pydantic import Field, InstanceOf, TypeAdapter, ValidationError
from pydantic_core import to_json

from vector_memory.answers.budget import BYTES_PER_TOKEN, LONGEST, bounded, value_size
from vector_memory.answers.forms import FORM, FULL, Form
from vector_memory.answers.models import Result
from vector_memory.domain import LAST
from vector_memory.domain.validation import MIN_TOKENS
from vector_memory.server.conversation import conversation_of, with_names
from vector_memory.server.current_store import MEMORY
from vector_memory.server.early import all_tools
from vector_memory.server.fastmcp_adapter import read_docstring
from vector_memory.server.lean import LeanForm
from vector_memory.server.tools import failures
from vector_memory.server.tools.params import WholeNumber
from vector_memory.server.turns import kind_of_read, taken

LEAST_LIMIT = MIN_TOKENS * BYTES_PER_TOKEN
HANDED_ON = {"anthropic/maxResultSizeChars": 200_000}
"""Asks Claude Code to pass on whole answers; of one above 50,000 characters, the model would get 2,000."""

RARELY_SENT = frozenset({"description", "tags", "metadata", "search_mode", "memory_type", "task_code", "ttl_days"})
"""Parameters that a brief tool accepts but does not list."""

FOR_EXPERTS = frozenset({"explain", "as_of", "evidence", "min_trust"})
"""Parameters that a tool accepts but lists only with `--profile all`."""

UNUSED = frozenset({"similarity_threshold", "neighbours"})
"""Parameters that every search accepts, and ignores unless its schema lists them."""


def ids_alone(body: dict[str, Any]) -> dict[str, list[int]]:
    """Return the ids of an answer's memories."""
    return {"memory_ids": list(dict.fromkeys(ids_in(body)))}


def without_zeros(value: Any) -> Any:
    """Return a JSON value with whole numbers as JavaScript writes them: 1 for 1.0.

    A client that finds text and structured content equal then passes on only one of them.
    """
    if isinstance(value, dict):
        return {key: without_zeros(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_zeros(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Reads(NamedTuple):
    """How a client passes a successful answer on to its model.

    `most`: the largest structured content that arrives whole, in bytes. `text`: makes the text beside it; None: the
    same content, for orchestrators that parse it.
    """

    most: int = sys.maxsize
    text: Callable[[dict[str, Any]], Any] | None = None


READS = {
    "@cline/": Reads(7_000, ids_alone),
    "copilot": Reads(20_000, without_zeros),
    "qwen-": Reads(27_500, without_zeros),
    "gemini": Reads(39_000),
    "codex": Reads(47_500),
    "opencode": Reads(51_000),
    "kilo": Reads(51_000),
}
"""By the beginning of a client's name: Cline 3.0 cuts the middle out of 8,000 characters of both parts, Codex out of
48,000, Gemini CLI 0.61 out of 40,000; Copilot 1.0 moves more than 20,480 bytes into a file, Qwen Code .24 28,000
characters, opencode and Kilo 50 KiB.
"""

READS_ONLY_STRUCTURE = {"claude-code": frozenset({"2.1.330"})}
"""Versions of clients, by name, whose agents see only the structured content, as `tests/real_client` shows."""

TOKENS: TypeAdapter[int] = TypeAdapter(WholeNumber)


class MemoryTool(FunctionTool):
    """A tool that always answers with its result model, even when it fails, in its form."""

    form: InstanceOf[Form] = Field(default=FULL, exclude=True)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "MemoryTool":
        """Return the tool for a function decorated with `@tool`.

        Generating the schemas takes 12 ms, so they are read from the description if it has them. The validator is
        built at the first call.
        """
        if described := all_tools().get(function.__name__):
            return cls._described(function, described)
        made = cast("MemoryTool", cls.from_function(function))
        return made.model_copy(
            update={
                "parameters": failures.without_null(failures.inlined(failures.compact(made.parameters))),
                "meta": HANDED_ON | (made.meta or {}),
                "output_schema": failures.inlined(
                    failures.compact(failures.admitting_failures(made.output_schema or {"properties": {}}))
                ),
            }
        )

    @classmethod
    def _described(cls, function: Callable[..., Any], described: dict[str, Any]) -> "MemoryTool":
        said = cast("ToolMeta", get_fastmcp_meta(function))
        return cls(
            fn=transform_context_annotations(function),
            return_type=get_type_hints(function, include_extras=True)["return"],
            name=function.__name__,
            title=said.title,
            description=read_docstring(function).description,
            annotations=said.annotations,
            meta=HANDED_ON | (said.meta or {}),
            parameters=described["inputSchema"],
            output_schema=described["outputSchema"],
        )

    def brief(self) -> "MemoryTool":
        """Return the tool as the model sees it at once: without rarely sent parameters."""
        at_once = {**(self.meta or {}), "anthropic/alwaysLoad": True}
        return self.without(RARELY_SENT | FOR_EXPERTS).model_copy(update={"meta": at_once})

    def in_lean_form(self) -> "MemoryTool":
        """Return the tool with lean answers. Its output schema describes both forms."""
        return self.model_copy(update={"form": LeanForm(), "output_schema": failures.LEAN})

    def without(self, names: Collection[str]) -> "MemoryTool":
        """Return the tool without these parameters in its schema."""
        named = {name: one for name, one in self.parameters["properties"].items() if name not in names}
        return self.model_copy(update={"parameters": {**self.parameters, "properties": named}})

    @property
    def result_model(self) -> type[Result]:
        """The model of the tool's answers. A tool that may ask the user first has it in a union."""
        arms: tuple[type, ...] = get_args(self.return_type) or (self.return_type,)
        return next(arm for arm in arms if issubclass(arm, Result))

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool. A null parameter counts as omitted, which is what clients mean by it."""
        known = self.parameters["properties"]
        unused = UNUSED - known.keys() if self.name.startswith("search_") else ()
        given = {
            name: value
            for name, value in arguments.items()
            if name not in unused and (value is not None or name not in known)
        }
        FORM.set(self.form)
        stores = self.name.startswith("store_")
        try:
            LONGEST.set(longest_answer(given))
            await with_names(given, known, get_context(), stores=stores)
            # The others choose a thread themselves, or wait for events.
            is_simple = only_reads(self.fn) and not iscoroutinefunction(self.fn)
            async with taken(kind_of_read(given)) if is_simple else nullcontext():
                answer = await super().run(given)
            if stores and "session_id" in given and arguments.get("session_id") != LAST:
                conversation_of(get_context()).stored_in = given["session_id"]
        except Exception as error:  # the outermost handler: every exception becomes an answer
            answer = failures.failed_result(self.result_model, failures.to_memory_error(error, self))
        return for_client(answer, get_context())

    def convert_result(self, raw_value: Any) -> ToolResult:
        """Return the result as an answer, cut to the limit."""
        body, limit = self.form.sent(raw_value), LONGEST.get()
        cut = body if value_size(body) <= limit else self.form.sent(bounded(raw_value, limit))
        return ToolResult(structured_content=cut)


def only_reads(function: Callable[..., Any]) -> bool:
    """Return whether the tool for a function changes nothing."""
    meta = get_fastmcp_meta(function)
    return meta is not None and bool(meta.annotations.read_only_hint)


def longest_answer(arguments: dict[str, Any]) -> int:
    """Return the maximum length of a call's answer in bytes: the lowest of `max_tokens` and the limits."""
    served = get_context().lifespan_context
    parts = served.keys() & {MEMORY, "files"} or {MEMORY}  # its first call opens it
    tokens: int = min(served[part].settings.max_response_tokens for part in parts)
    try:
        wanted = TOKENS.validate_python(arguments.get("max_tokens"))
    except ValidationError:
        wanted = tokens
    return max(LEAST_LIMIT, min(min(tokens, wanted) * BYTES_PER_TOKEN, reads_of(get_context()).most))


def for_client(answer: ToolResult, context: Context) -> ToolResult:
    """Return an answer with the text that its client needs beside the structured content."""
    body, text = answer.structured_content, reads_of(context).text
    if body is None or answer.is_error or text is None:
        return answer
    return ToolResult(content=[TextContent(type="text", text=to_json(text(body)).decode())], structured_content=body)


def reads_of(context: Context) -> Reads:
    """Return how the client of a call passes answers on."""
    if (client := context.session.client_params) is None:
        return Reads()
    name, version = client.client_info.name, client.client_info.version
    if version in READS_ONLY_STRUCTURE.get(name, ()):
        return Reads(text=ids_alone)
    return next((reads for beginning, reads in READS.items() if name.startswith(beginning)), Reads())


def ids_in(value: Any) -> Iterator[int]:
    """Yield the ids of the memories in an answer, in order."""
    if isinstance(value, list):
        for one in value:
            yield from ids_in(one)
    elif isinstance(value, dict):
        yield from (value[key] for key in ("memory_id", "id") if isinstance(value.get(key), int))
        for name, one in value.items():
            if name != "metadata":  # the caller's
                yield from ids_in(one)
