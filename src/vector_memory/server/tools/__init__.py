"""The tools, in the order that clients see."""

from collections.abc import Collection, Mapping

from vector_memory.server.tools import changes, documents, files, maintenance, searching, storing, tagged
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Profile, Toolset

SESSION_TOOLS: dict[str, tuple[MemoryTool, ...]] = {
    "Storing": (
        MemoryTool.of(storing.store_session_context),
        MemoryTool.of(storing.store_input_prompt),
        MemoryTool.of(storing.store_system_memory),
        MemoryTool.of(storing.store_report),
        MemoryTool.of(storing.store_report_observation),
        MemoryTool.of(storing.store_working_memory),
        MemoryTool.of(storing.store_knowledge_base),
    ),
    "Searching": (
        MemoryTool.of(searching.search_session_context),
        MemoryTool.of(searching.search_input_prompts),
        MemoryTool.of(searching.search_system_memory),
        MemoryTool.of(searching.search_reports_specific_chunks),
        MemoryTool.of(searching.search_reports_section_context),
        MemoryTool.of(searching.search_reports_full_documents),
        MemoryTool.of(searching.search_working_memory_specific_chunks),
        MemoryTool.of(searching.search_working_memory_section_context),
        MemoryTool.of(searching.search_working_memory_full_documents),
        MemoryTool.of(searching.search_knowledge_base_specific_chunks),
        MemoryTool.of(searching.search_knowledge_base_section_context),
        MemoryTool.of(searching.search_knowledge_base_full_documents),
    ),
    "Documents": (
        MemoryTool.of(documents.load_session_context_for_task),
        MemoryTool.of(documents.expand_chunk_context),
        MemoryTool.of(documents.reconstruct_document),
        MemoryTool.of(documents.get_memory_by_id),
        MemoryTool.of(documents.write_document_to_file),
    ),
    "Maintenance": (
        MemoryTool.of(maintenance.get_session_stats),
        MemoryTool.of(maintenance.list_sessions),
        MemoryTool.of(maintenance.delete_memory),
        MemoryTool.of(maintenance.cleanup_old_memories),
    ),
    "Catching up": (MemoryTool.of(changes.search_changes),),
}
"""The session tools, by purpose."""

TAGGED_TOOLS: dict[str, tuple[MemoryTool, ...]] = {
    "Tagged memories": (
        MemoryTool.of(tagged.store_memory),
        MemoryTool.of(tagged.search_memories),
        MemoryTool.of(tagged.list_recent_memories),
        MemoryTool.of(tagged.get_by_memory_id),
        MemoryTool.of(tagged.delete_by_memory_id),
        MemoryTool.of(tagged.get_memory_stats),
        MemoryTool.of(tagged.clear_old_memories),
    ),
    "Tags": (
        MemoryTool.of(tagged.get_unique_tags),
        MemoryTool.of(tagged.get_canonical_tags),
        MemoryTool.of(tagged.get_tag_frequencies),
        MemoryTool.of(tagged.get_tag_weights),
    ),
}
"""The tools of tagged memories, by purpose."""

FILE_TOOLS: dict[str, tuple[MemoryTool, ...]] = {
    "Memory files": (
        MemoryTool.of(files.memory_search),
        MemoryTool.of(files.memory_get),
        MemoryTool.of(files.memory_write),
        MemoryTool.of(files.memory_status),
    ),
}
"""The tools over a folder of Markdown files."""

TOOLSETS: dict[Toolset, dict[str, tuple[MemoryTool, ...]]] = {
    Toolset.SESSION: SESSION_TOOLS,
    Toolset.TAGGED: TAGGED_TOOLS,
    Toolset.FILES: FILE_TOOLS,
}
"""The tools of each toolset, by purpose."""


CORE = (
    storing.store_report,
    storing.store_session_context,
    searching.search_reports_specific_chunks,
    searching.search_reports_section_context,
    searching.search_reports_full_documents,
    documents.load_session_context_for_task,
    documents.get_memory_by_id,
    changes.search_changes,
)
"""The functions of the tools of `--profile core`: they store, find at every grain, continue and catch up."""


def offered(
    toolsets: Collection[Toolset], *, read_only: bool = False, profile: Profile = Profile.FULL
) -> tuple[MemoryTool, ...]:
    """Return the tools of these toolsets, or of a smaller profile; with `read_only`, only those that do not write."""
    tools = [tool for toolset in toolsets for group in TOOLSETS[toolset].values() for tool in group]
    if profile is Profile.CORE:
        names = {function.__name__ for function in CORE}
        tools = [tool.brief() for tool in tools if tool.name in names]
    return tuple(tool for tool in tools if not read_only or reads(tool))


def reads(tool: MemoryTool) -> bool:
    """Tell whether a tool changes nothing."""
    return tool.annotations is not None and bool(tool.annotations.read_only_hint)


WRITING = {tool.name for groups in TOOLSETS.values() for tools in groups.values() for tool in tools if not reads(tool)}
WRITING.remove(documents.write_document_to_file.__name__)  # it only reads the memory; the file is written elsewhere


def may_wait_to_write(name: str, arguments: Mapping[str, object]) -> bool:
    """Tell whether a call may have to wait for the write lock. A cleanup does so only if it deletes."""
    if name == maintenance.cleanup_old_memories.__name__:
        return arguments.get("dry_run") not in (None, True)
    return name in WRITING
