"""Every setting, documented once: the command line, the environment and docs/configuration.md all come from here."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vector_memory.errors import ConfigurationError

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class Settings(BaseModel):
    """What can be configured. A field `name` is the flag `--name` and the environment variable `NAME`; the flag wins."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    embedding_model: Annotated[
        str,
        Field(
            min_length=1,
            description="Embedding model; any other than the default needs the sentence-transformers extra.",
        ),
    ] = DEFAULT_MODEL
    embedding_model_path: Annotated[
        Path | None,
        Field(
            description="Folder with the model's files; default: found in the Hugging Face cache or the installed weights package."
        ),
    ] = None
    embedding_dim: Annotated[int, Field(ge=1, le=8192, description="Length of a vector; has to be the model's.")] = 384
    warm_start_embedding_model: Annotated[
        bool, Field(description="Load the model in the background at start instead of at first use.")
    ] = True
    default_chunk_size: Annotated[int, Field(ge=32, le=8192, description="Target size of a chunk, in tokens.")] = 450
    default_chunk_overlap: Annotated[
        int, Field(ge=0, le=4096, description="Tokens that neighbouring chunks of one section share.")
    ] = 50
    enable_enrichment: Annotated[
        bool,
        Field(
            description="Embed title, heading path and position in front of each passage of a report or knowledge-base entry."
        ),
    ] = False
    vector_search_batch_size: Annotated[
        int,
        Field(ge=1, le=4096, description="Candidates fetched first when results are filtered after the vector search."),
    ] = 100
    use_iterative_fetching: Annotated[
        bool,
        Field(
            description="Fetch candidates in growing batches; off: one exact scan of the filtered set. Same results."
        ),
    ] = True
    use_threshold_filtering: Annotated[
        bool, Field(description="Drop results whose similarity is below SIMILARITY_THRESHOLD.")
    ] = False
    similarity_threshold: Annotated[
        float, Field(ge=0, le=1, description="Smallest similarity that USE_THRESHOLD_FILTERING keeps.")
    ] = 0.4
    auto_backfill_threshold: Annotated[
        int,
        Field(
            ge=0,
            description="Embed memories that have no vectors at start, in the background, if fewer than this; 0: never.",
        ),
    ] = 1000
    max_response_tokens: Annotated[
        int,
        Field(
            ge=500,
            le=1_000_000,
            description="Longest answer of a tool, in tokens; what does not fit is cut, marked, and can be read on from an offset.",
        ),
    ] = 20_000
    log_slow_query_threshold: Annotated[
        float, Field(ge=0, description="Searches slower than this many seconds are logged and counted as slow.")
    ] = 2.0
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], Field(description="How much is logged; never stored content.")
    ] = "INFO"
    log_file: Annotated[Path | None, Field(description="Log to this file as well as to standard error.")] = None
    sqlite_synchronous: Annotated[
        Literal["FULL", "NORMAL"],
        Field(description="FULL survives a power cut; NORMAL is faster and may then lose the last seconds."),
    ] = "FULL"

    @model_validator(mode="after")
    def _overlap_leaves_room(self) -> "Settings":
        if self.default_chunk_overlap * 2 > self.default_chunk_size:
            raise ValueError("default_chunk_overlap must be at most half of default_chunk_size")
        return self


def database_path(database: Path | None, working_dir: Path | None, project_dir: str | None) -> Path:
    """Return where the database is: `database` itself, or `memory/agent_session_memory.db` under the first folder given.

    `project_dir` is what the client says its project is (`CLAUDE_PROJECT_DIR`); without any, the current directory.
    """
    if database is not None and working_dir is not None:
        raise ConfigurationError("Give either --database-path or --working-dir, not both.")
    if database is not None:
        return database.expanduser().absolute()
    folder = working_dir or (Path(project_dir) if project_dir else Path.cwd())
    return folder.expanduser().absolute() / "memory" / "agent_session_memory.db"
