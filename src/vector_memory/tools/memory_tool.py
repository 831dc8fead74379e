"""How a function becomes a tool: its schemas are made short, and its failures become answers."""

from collections.abc import Callable
from typing import Any, cast, get_args

from fastmcp.tools import FunctionTool, ToolResult

from vector_memory.results import Result
from vector_memory.tools.failures import as_ours, failed_result
from vector_memory.tools.schemas import compact, inlined, require_only, without_null


class MemoryTool(FunctionTool):
    """A tool that always answers with its result model, whatever happens."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "MemoryTool":
        """Make the tool of a function that `@tool` describes."""
        made = cast("MemoryTool", cls.from_function(function))
        return made.model_copy(
            update={
                "parameters": without_null(inlined(compact(made.parameters))),
                "output_schema": require_only(inlined(compact(made.output_schema or {})), "success"),
            }
        )

    @property
    def result_model(self) -> type[Result]:
        """The model of the tool's answers; a tool that may ask the user first returns it as one of two."""
        arms: tuple[type, ...] = get_args(self.return_type) or (self.return_type,)
        return next(arm for arm in arms if issubclass(arm, Result))

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool. A parameter that is null counts as left out, which is what clients mean by it."""
        known = self.parameters["properties"]
        given = {name: value for name, value in arguments.items() if value is not None or name not in known}
        try:
            return await super().run(given)
        except Exception as error:  # the one edge where nothing may pass unmapped
            return failed_result(self.result_model, as_ours(error, self))
