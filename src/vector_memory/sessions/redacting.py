"""Redacts memories before they are stored, as the setting asks for it."""

from dataclasses import replace

from vector_memory.domain import NewMemory
from vector_memory.redaction import redact
from vector_memory.settings import Redact


class Redacting:
    """Decides which memories are redacted. `captured`: stored by a hook or an import, not by an agent."""

    def __init__(self, setting: Redact) -> None:
        self._setting = setting

    def memory(self, memory: NewMemory, *, captured: bool) -> tuple[NewMemory, int]:
        """Return the memory with redacted content, title and description, and the number of places replaced."""
        if not self._applies(captured=captured):
            return memory, 0
        content, title, description = map(redact, (memory.content, memory.title or "", memory.description or ""))
        kept = replace(memory, content=content.text, title=title.text or None, description=description.text or None)
        return kept, content.count + title.count + description.count

    def text(self, content: str) -> str:
        """Return an agent's text as it is stored."""
        return redact(content).text if self._applies(captured=False) else content

    def _applies(self, *, captured: bool) -> bool:
        return self._setting is Redact.ALL or (captured and self._setting is Redact.CAPTURED)
