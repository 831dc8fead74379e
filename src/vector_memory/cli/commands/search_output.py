"""Output of `search`: each result's score, origin, and text with the query's words highlighted."""

import re
from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vector_memory.cli.demo.markdown import without_marks
from vector_memory.cli.terminal import console, moment, one_line, score
from vector_memory.cli.terminal_text import printable
from vector_memory.results.sessions import FoundChunk, FoundMemory, FoundSection
from vector_memory.search.messages import NO_CLOSE_MATCH
from vector_memory.storage.folding import with_letters_for_marks
from vector_memory.storage.terms import query_terms, terms

Found = FoundChunk | FoundSection | FoundMemory

LINES_SHOWN = 4
WORD = re.compile(r"\w[\w./:@#-]*\w(?:\+\+|\#)?|\w(?:\+\+|\#)?")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
HEADING_MARKS = re.compile(r"(?:^|(?<= > ))#{1,6} +")


def print_findings(found: Sequence[Found], message: str, query: str, *, full: bool) -> None:
    """Print results, best first, and the message; a warning stands before the results."""
    out = console()
    if found and NO_CLOSE_MATCH in message:
        out.print(Text(f"{NO_CLOSE_MATCH}\n", style="yellow"))
        message = message.replace(f" {NO_CLOSE_MATCH}", "")
    wanted = set(query_terms(query))
    for result in found:
        text = _text(result)
        shown = printable(text) if full else excerpt(text, wanted, LINES_SHOWN * (out.width - 8))
        out.print(_heading(result, out.width))
        out.print(Padding(marked(shown, wanted), (0, 0, 0, 6)))
        out.print()
    out.print(Text(one_line(message), style="dim" if found else "yellow"))


def marked(text: str, wanted: set[str]) -> Text:
    """Return a text with the query's words highlighted."""
    shown = Text(text)
    for word in WORD.finditer(with_letters_for_marks(text)):
        if wanted & set(terms(text[slice(*word.span())])):
            shown.stylize("bold yellow", *word.span())
    return shown


def excerpt(text: str, wanted: set[str], length: int) -> str:
    """Return about `length` characters of a text on one line, starting with the sentence with most of the words."""
    sentences = [line for part in SENTENCE_END.split(without_marks(text)) if (line := one_line(part))]
    start = max(range(len(sentences)), key=lambda at: len(wanted & set(terms(sentences[at]))), default=0)
    shown = " ".join(sentences[start:]) or one_line(text)
    if len(shown) > length:
        shown = f"{shown[:length].rsplit(' ', 1)[0]} …"
    return f"… {shown}" if start else shown


def _heading(result: Found, width: int) -> Table:
    """Return a result's score, kind and origin."""
    memory_id = result.id if isinstance(result, FoundMemory) else result.memory_id
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(width=4, style="cyan")
    table.add_column(max_width=width - 6, overflow="fold")
    path = "" if isinstance(result, FoundMemory) else one_line(HEADING_MARKS.sub("", result.header_path))
    title = one_line(result.title or "") or path.partition(" > ")[0] or f"{result.memory_type} {memory_id}"
    lines = [Text(title, style="bold")]
    if path and path != title:
        lines.append(Text(path, style="green"))
    lines.append(Text(_origin(result, memory_id), style="dim"))
    if result.later:
        numbers = ", ".join(map(str, result.later))
        lines.append(Text(f"newer than {numbers}, on the same subject: may correct it", style="yellow"))
    table.add_row(score(result.score), Text("\n").join(lines))
    return table


def _origin(result: Found, memory_id: int) -> str:
    place = [
        f"{result.memory_type} {memory_id}",
        one_line(result.agent_id or ""),
        result.session_id and f"session {one_line(result.session_id)} v{result.session_iter}",
        result.task_code and f"task {one_line(result.task_code)}",
        moment(result.created_at or ""),
    ]
    return " · ".join(part for part in place if part)


def _text(result: Found) -> str:
    match result:
        case FoundChunk():
            return result.chunk_content
        case FoundSection():
            return result.section_content
        case FoundMemory():
            return result.content
