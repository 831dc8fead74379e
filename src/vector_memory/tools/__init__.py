"""The tools, in the order in which clients see them."""

from vector_memory import surroundings  # noqa: F401 - must come before fastmcp  # isort: skip

from collections.abc import Collection

from vector_memory.settings import Toolset
from vector_memory.tools import documents, searching, storing, upkeep
from vector_memory.tools.memory_tool import MemoryTool

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
    "Upkeep": (
        MemoryTool.of(upkeep.get_session_stats),
        MemoryTool.of(upkeep.list_sessions),
        MemoryTool.of(upkeep.delete_memory),
        MemoryTool.of(upkeep.cleanup_old_memories),
    ),
}
"""The tools of the session family by what they are for."""

TOOLSETS: dict[Toolset, dict[str, tuple[MemoryTool, ...]]] = {
    Toolset.SESSION: SESSION_TOOLS,
    Toolset.TAGGED: {},
    Toolset.FILES: {},
}
"""The tools of each family by what they are for."""


def offered(toolsets: Collection[Toolset], *, read_only: bool = False) -> tuple[MemoryTool, ...]:
    """Return the tools of these families, or with `read_only` those of them that only read."""
    tools = [tool for toolset in toolsets for group in TOOLSETS[toolset].values() for tool in group]
    return tuple(tool for tool in tools if not read_only or reads(tool))


def reads(tool: MemoryTool) -> bool:
    """Tell whether a tool leaves everything as it is."""
    return tool.annotations is not None and bool(tool.annotations.read_only_hint)
