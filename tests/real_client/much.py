"""Turns of an agent that asks for more than fits into an answer."""

from pathlib import Path

from real_client.scripted_model import Turn, memory

PAGES = sorted(Path(__file__).parents[2].glob("docs/*.md"), key=lambda page: page.stat().st_size)
LONG_DOCUMENTS = [page.read_text(encoding="utf-8") for page in PAGES[-8:]]
ASKING_FOR_MUCH: list[Turn] = [
    [memory("store_report", content=text, agent_id="reader", session_id="pages") for text in LONG_DOCUMENTS],
    [memory("search_reports_full_documents", query="memory", session_id="pages", limit=20)],
]
