"""The tools, in the order that clients see."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from mcp_types import JSONRPCRequest

from vector_memory.server.jsonrpc import HOOK as HOOK_NAME
from vector_memory.server.tools import files, searching, sessions, storing, tagged
from vector_memory.server.tools.memory_tool import FOR_EXPERTS, MemoryTool, only_reads
from vector_memory.server.turns import FILE, HOOK, OTHER, Kind, kind_of_read, kind_of_write
from vector_memory.settings import Profile, Toolset

Function = Callable[..., Any]

FUNCTIONS: dict[Toolset, dict[str, tuple[Function, ...]]] = {
    Toolset.SESSION: {
        "Storing": storing.TOOLS,
        "Searching": searching.TOOLS,
        "Documents": (
            sessions.load_session_context_for_task,
            sessions.expand_chunk_context,
            sessions.reconstruct_document,
            sessions.get_memory_by_id,
            sessions.write_document_to_file,
        ),
        "Maintenance": (
            sessions.get_session_stats,
            sessions.list_sessions,
            sessions.delete_memory,
            sessions.cleanup_old_memories,
        ),
        "Catching up": (sessions.search_changes,),
    },
    Toolset.TAGGED: {
        "Tagged memories": (
            tagged.store_memory,
            tagged.search_memories,
            tagged.list_recent_memories,
            tagged.get_by_memory_id,
            tagged.delete_by_memory_id,
            tagged.get_memory_stats,
            tagged.clear_old_memories,
        ),
        "Tags": (tagged.get_unique_tags, tagged.get_canonical_tags, tagged.get_tag_frequencies, tagged.get_tag_weights),
    },
    Toolset.FILES: {"Memory files": (files.memory_search, files.memory_get, files.memory_write, files.memory_status)},
}
"""The functions behind the tools of each toolset, by purpose."""

CURATING = (storing.review_memories, storing.supersede_memories, storing.pin_memory, storing.amend_memory)
"""The functions behind the tools that only a server with all toolsets offers."""


def functions_of(toolsets: Iterable[Toolset]) -> list[Function]:
    """Return the functions behind the tools of several toolsets."""
    chosen = list(toolsets)
    functions = [function for toolset in chosen for group in FUNCTIONS[toolset].values() for function in group]
    return [*functions, *(CURATING if set(chosen) == set(Toolset) else ())]


made = cache(MemoryTool.of)
"""Return the tool for a function. This takes 7 ms, so a server makes only the tools that it offers."""


def by_purpose(toolset: Toolset) -> dict[str, tuple[MemoryTool, ...]]:
    """Return the tools of a toolset, by purpose."""
    return {
        purpose: tuple(made(function).without(FOR_EXPERTS) for function in functions)
        for purpose, functions in FUNCTIONS[toolset].items()
    }


CORE = {
    "store_report",
    "store_session_context",
    "search_reports_specific_chunks",
    "search_reports_section_context",
    "search_reports_full_documents",
    "load_session_context_for_task",
    "get_memory_by_id",
    "search_changes",
}
"""The tools of `--profile core`: store, search at every grain, continue, catch up."""


def offered(
    toolsets: Iterable[Toolset],
    *,
    read_only: bool = False,
    profile: Profile = Profile.FULL,
    on_this_machine: bool = True,
    is_lean: bool = False,
) -> tuple[MemoryTool, ...]:
    """Return the tools of these toolsets, or of a smaller profile; with `read_only`, only those that do not write.

    `on_this_machine`: client and server share files; otherwise no tool writes files. `is_lean`: the form of answers.
    """
    functions = functions_of(toolsets)
    if not on_this_machine:
        functions.remove(sessions.write_document_to_file)
    if read_only:
        functions = [function for function in functions if only_reads(function)]
    if profile is Profile.CORE:
        tools = [made(function).brief() for function in functions if function.__name__ in CORE]
    else:
        hidden = () if profile is Profile.ALL else FOR_EXPERTS
        tools = [made(function).without(hidden) for function in functions]
    return tuple(tool.in_lean_form() for tool in tools) if is_lean else tuple(tools)


WRITING = {function.__name__ for function in functions_of(Toolset) if not only_reads(function)}
WRITING.remove(sessions.write_document_to_file.__name__)  # it only reads the memory

NEEDS_ADMIN = {function.__name__ for function in (sessions.cleanup_old_memories, tagged.clear_old_memories)}
"""The tools that delete memories of all sessions and agents."""

TAGGED_NAMES = {function.__name__ for function in functions_of([Toolset.TAGGED])}
"""The tools of tagged memories."""


def kind_of_call(request: JSONRPCRequest) -> Kind:
    """Return the kind of a request, which decides what it waits for. A cleanup counts as a write only if it deletes."""
    match request:
        case JSONRPCRequest(method="tools/call", params={"name": str(name), **others}):
            arguments = others.get("arguments")
            given = arguments if isinstance(arguments, dict) else {}
            if name.startswith(HOOK_NAME):
                return HOOK
            if name == files.memory_write.__name__:
                return FILE
            only_counts = name == sessions.cleanup_old_memories.__name__ and given.get("dry_run") in (None, True)
            return kind_of_read(given) if only_counts or name not in WRITING else kind_of_write(*given.values())
    return OTHER
