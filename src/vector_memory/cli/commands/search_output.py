"""Output of `search`: each result's score, origin, and text with the query's words highlighted.

With `--explain` and `--why-not`: how each candidate was measured, and why a memory was not found.
"""

import re
from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vector_memory.cli.terminal import console, grid, moment, one_line, printable, score_column
from vector_memory.results.sessions import FoundChunk, FoundMemory, FoundSection
from vector_memory.search.across import Found
from vector_memory.search.explaining import Trace
from vector_memory.search.messages import NO_CLOSE_MATCH
from vector_memory.storage.terms import query_terms, terms, with_letters_for_marks

MEASURES = ("rank", "memory", "id", "score", "cosine", "words", "late", "has", "lacks", "")

LINES_SHOWN = 4
WORD = re.compile(r"\w[\w./:@#-]*\w(?:\+\+|\#)?|\w(?:\+\+|\#)?")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
DROPPED = re.compile(r"<!--.*?-->|^ {0,3}#{1,6} [^\n]*|^ *(```|~~~)[^\n]*|^ *> ?|-{3,}|\|", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[(?P<label>[^\]]*)\](\([^)]*\)|\[[^\]]*\])")
EMPHASIS = re.compile(r"`|\*+")
HEADING_MARKS = re.compile(r"(?:^|(?<= > ))#{1,6} +")


def print_findings(found: Sequence[Found], message: str, query: str, *, full: bool) -> None:
    """Print results, best first, and the message; a warning stands before the results."""
    out = console()
    if found and NO_CLOSE_MATCH in message:
        out.print(Text(f"{NO_CLOSE_MATCH}\n", style="yellow"))
        message = message.replace(f" {NO_CLOSE_MATCH}", "")
    wanted = set(query_terms(query))
    for result in found:
        text = text_of_result(result)
        shown = printable(text) if full else excerpt_line(text, wanted, LINES_SHOWN * (out.width - 8))
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


def without_marks(text: str) -> str:
    """Return Markdown as plain text, without headings, fences, comments, link targets and emphasis."""
    return EMPHASIS.sub("", LINK.sub(r"\g<label>", DROPPED.sub(" ", text)))


def excerpt_line(text: str, wanted: set[str], length: int) -> str:
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
    path = path_of(result)
    title = one_line(result.title or "") or path.partition(" > ")[0] or f"{result.memory_type} {memory_id}"
    lines = [Text(title, style="bold")]
    if path and path != title:
        lines.append(Text(path, style="green"))
    lines.append(Text(_origin(result, memory_id), style="dim"))
    for one in result.later:
        said = f": {one_line(one.beginning)}" if one.beginning else ""
        lines.append(Text(f"later on this subject: {one.id} of {moment(one.created_at)}{said}", style="yellow"))
    if result.copies:
        numbers = ", ".join(map(str, result.copies))
        lines.append(Text(f"the same in {numbers}", style="dim"))
    table.add_row(score_column(result.score), Text("\n").join(lines))
    return table


def path_of(result: Found) -> str:
    """Return the headings above a result."""
    return "" if isinstance(result, FoundMemory) else one_line(HEADING_MARKS.sub("", result.header_path))


def _origin(result: Found, memory_id: int) -> str:
    place = [
        f"{result.memory_type} {memory_id}",
        one_line(result.agent_id or ""),
        result.session_id and f"session {one_line(result.session_id)} v{result.session_iter}",
        result.task_code and f"task {one_line(result.task_code)}",
        moment(result.created_at or ""),
    ]
    return " · ".join(part for part in place if part)


def text_of_result(result: Found) -> str:
    """Return the text of a result."""
    match result:
        case FoundChunk():
            return result.chunk_content
        case FoundSection():
            return result.section_content
        case FoundMemory():
            return result.content


def print_traces(traces: Sequence[Trace], *, candidates: bool) -> None:
    """Print traces, one for each kind that was searched; without `candidates` only what is said of one memory."""
    out = console()
    for trace in traces:
        if candidates:
            filters = ", ".join(f"{name}={one_line(str(value))}" for name, value in trace["filters"].items())
            out.print(Text(f"\n{filters}", style="bold"))
            out.print(Text(f"{trace['compared']}; candidates: {trace['candidates_compared']:,}", style="dim"))
            out.print(_candidates(trace))
        if "memory" in trace:
            out.print(Text(f"Memory {trace['memory']['id']}: {trace['memory']['why']}", style="yellow"))


def _candidates(trace: Trace) -> Table:
    table = grid(MEASURES)
    for name, column in zip(MEASURES, table.columns, strict=True):
        column.justify, column.overflow = "left" if name in ("has", "lacks", "") else "right", "fold"
    for one in trace["candidates"]:
        measures = ("-" if one[name] is None else f"{one[name]:.3f}" for name in ("score", "cosine", "words", "late"))
        words = (one_line(" ".join(named)) for named in (_found(one), one["lacks"]))
        cells = (str(one["rank"]), str(one["memory_id"]), str(one["id"]), *measures, *words, one["fate"])
        table.add_row(*map(Text, cells))
    return table


def _found(candidate: Trace) -> list[str]:
    """Return the words that a candidate has; in brackets those that only its title or its headings have."""
    return [f"({word})" if word in candidate["in_headings"] else word for word in candidate["has"]]
