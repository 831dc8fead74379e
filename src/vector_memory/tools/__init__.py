"""The tools, in the order in which clients see them."""

from vector_memory import surroundings  # noqa: F401 - must come before fastmcp
from vector_memory.tools import documents, searching, storing, upkeep
from vector_memory.tools.memory_tool import MemoryTool

TOOLSETS: dict[str, tuple[MemoryTool, ...]] = {
    "storing": (
        MemoryTool.of(storing.store_session_context),
        MemoryTool.of(storing.store_input_prompt),
        MemoryTool.of(storing.store_system_memory),
        MemoryTool.of(storing.store_report),
        MemoryTool.of(storing.store_report_observation),
        MemoryTool.of(storing.store_working_memory),
        MemoryTool.of(storing.store_knowledge_base),
    ),
    "searching": (
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
    "documents": (
        MemoryTool.of(documents.load_session_context_for_task),
        MemoryTool.of(documents.expand_chunk_context),
        MemoryTool.of(documents.reconstruct_document),
        MemoryTool.of(documents.get_memory_by_id),
        MemoryTool.of(documents.write_document_to_file),
    ),
    "upkeep": (
        MemoryTool.of(upkeep.get_session_stats),
        MemoryTool.of(upkeep.list_sessions),
        MemoryTool.of(upkeep.delete_memory),
        MemoryTool.of(upkeep.cleanup_old_memories),
    ),
}
"""The tools by what they are for."""

TOOLS: tuple[MemoryTool, ...] = tuple(one for group in TOOLSETS.values() for one in group)
"""All tools."""
