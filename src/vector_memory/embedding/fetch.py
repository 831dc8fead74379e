"""Downloads the default model on request: `vector-memory fetch-model`."""

import logging
from collections.abc import Callable
from pathlib import Path

from vector_memory.embedding.known import MINILM
from vector_memory.embedding.model_folder import digest_of
from vector_memory.errors import EmbeddingUnavailableError

ENCODING = "cl100k_base"


def download_file(name: str, *, again: bool) -> Path:
    """Download a file of the pinned revision into the Hugging Face cache, with the hub client's progress bar.

    `again`: even if the file exists.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - only needed for one command

    # It says each time that it tries again, with the whole address; what fails in the end is said in one sentence.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    return Path(hf_hub_download(MINILM.repository, name, revision=MINILM.revision, force_download=again))


def download_encoding() -> None:
    """Let tiktoken download its encoding into its own cache."""
    import tiktoken  # noqa: PLC0415 - only needed for one command

    tiktoken.get_encoding(ENCODING)


def fetch_model(
    say: Callable[[str], None],
    file: Callable[..., Path] = download_file,
    encoding: Callable[[], None] = download_encoding,
) -> Path:
    """Download the default model (about 90 MB) and return its folder; `say` is called with a line for each step.

    Correct files are not downloaded again. Raises EmbeddingUnavailableError if the model cannot be downloaded. A
    missing encoding for token counts is only reported, because the server works without it.
    """
    for name in MINILM.sha256:
        say(f"{name} of {MINILM.repository}")
        path = _fetch_official(name, file)
    say(f"token encoding {ENCODING}")
    try:
        encoding()
    except Exception as error:  # tiktoken passes on any exception of its transport
        say(f"not downloaded ({type(error).__name__}): tokens will be counted with the model's tokenizer instead")
    return path.parent


def _fetch_official(name: str, file: Callable[..., Path]) -> Path:
    try:
        path = file(name, again=False)
        if digest_of(path) != MINILM.sha256[name]:
            path = file(name, again=True)
    except Exception as error:
        raise EmbeddingUnavailableError(
            f"{name} could not be downloaded ({type(error).__name__}). Check the connection, set HF_ENDPOINT to a "
            f"mirror, or install the package vector-memory-model, which contains the weights."
        ) from error
    if digest_of(path) != MINILM.sha256[name]:
        raise EmbeddingUnavailableError(
            f"The downloaded {name} is not the official file and will not be used. If HF_ENDPOINT names a mirror, "
            f"choose another."
        )
    return path
