"""What the tools over Markdown files answer. Keys are written in camel case, as seed 002 has them."""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from vector_memory.results.sessions import Result


class FileResult(Result):
    """Base of the answers."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class FoundText(BaseModel):
    """A piece of a file that matched; `score` is 0 to 1, of meaning and words together."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    path: str
    text: str
    score: float
    start_line: int = Field(description="Counted from 1")
    end_line: int = Field(description="The last line that text is on")


class FileSearchResult(FileResult):
    """Pieces of files, best first."""

    results: list[FoundText] = Field(default=[])
    index_complete: bool | None = Field(default=None, description="false: files or vectors are still to be indexed")


class FileTextResult(FileResult):
    """Lines of a file."""

    path: str
    content: str
    total_lines: int
    start_line: int
    end_line: int
    next_line: int | None = Field(default=None, description="Set when content is cut: send it as startLine")


class FileWriteResult(FileResult):
    """The file that an entry was added to."""

    path: str


class FileStatusResult(FileResult):
    """How far the index is."""

    files: int | None = None
    chunks: int | None = None
    last_indexed: str | None = None
    model: str | None = None
    dimensions: int | None = None
    db_size_bytes: int | None = None
    vector_enabled: bool | None = Field(default=None, description="false: searches compare words only")
    fts_enabled: bool | None = None
    indexing: bool | None = Field(default=None, description="Work is going on")
    files_done: int | None = Field(default=None, description="Of the changed files of this round")
    files_total: int | None = None
    chunks_without_vectors: int | None = Field(default=None, description="Found by words only")
    watching: bool | None = Field(default=None, description="false: changes are looked for at each search")
