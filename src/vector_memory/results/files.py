"""Results of the tools for Markdown files. Keys are in camel case, as in the specification."""

from typing import Any

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from vector_memory.domain import MatchLevel
from vector_memory.results.rounding import Score, Time, Value, unless_empty
from vector_memory.results.sessions import MATCH, SCORE, Result


class FileResult(Result):
    """Base of the results."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class FoundText(Value):
    """A passage of a file that matched. `score`, from 0 to 1, combines meaning and words."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    path: str
    text: str
    score: Score = Field(description=SCORE)
    match: MatchLevel | None = unless_empty(description=MATCH)
    start_line: int = Field(description="Starts at 1")
    end_line: int = Field(description="Last line of text")


class FileSearchResult(FileResult):
    """Passages of files, best first."""

    results: list[FoundText] = Field(default=[])
    index_complete: bool | None = Field(default=None, description="false: some files or vectors are not indexed yet")
    trace: dict[str, Any] | None = unless_empty(description="If explain was sent: how candidates were measured")


class FileTextResult(FileResult):
    """Lines of a file."""

    path: str
    content: str
    total_lines: int
    start_line: int
    end_line: int
    next_line: int | None = Field(default=None, description="Set if content is cut: send it as startLine")
    next_offset: int | None = Field(default=None, description="Set if a line is cut: send it as offset")


class FileWriteResult(FileResult):
    """The file that an entry was appended to."""

    path: str


class FileStatusResult(FileResult):
    """The state of the index."""

    files: int | None = None
    chunks: int | None = None
    last_indexed: Time | None = None
    model: str | None = None
    dimensions: int | None = None
    db_size_bytes: int | None = None
    vector_enabled: bool | None = Field(default=None, description="false: searches compare words only")
    fts_enabled: bool | None = None
    indexing: bool | None = Field(default=None, description="Indexing is in progress")
    files_done: int | None = Field(default=None, description="Changed files in this round")
    files_total: int | None = None
    chunks_without_vectors: int | None = Field(default=None, description="Files or passages found by words only")
    watching: bool | None = Field(default=None, description="false: each search checks for changes")
