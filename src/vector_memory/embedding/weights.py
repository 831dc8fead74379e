"""Finds the files of the known models on this machine.

Only `download_model`, which the command of that name calls, downloads anything: the default model.
"""

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from vector_memory.domain.user_files import folder_of_user
from vector_memory.embedding.description import DESCRIPTION_FILE, read_description
from vector_memory.embedding.known import E5_SMALL, MINILM, KnownModel, by_name
from vector_memory.embedding.model_folder import BIAS_FILE, TOKENIZER_FILE, ModelFolder, digest_of
from vector_memory.errors import EmbeddingUnavailableError

HOW_TO_INSTALL = {
    MINILM.description.name: "Install the package vector-memory-model again (in a clone: `uv sync --reinstall-package "
    "vector-memory-model`), or run `vector-memory fetch-model` once (about 90 MB), or set "
    "VECTOR_MEMORY_EMBEDDING_MODEL_PATH to a folder that contains it.",
    E5_SMALL.description.name: "Install the package vector-memory-multilingual (in a clone: `uv sync --extra "
    "multilingual`), or set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to a folder that contains it.",
}


def find_model(name: str, configured: Path | None) -> ModelFolder | None:
    """Return the files of a known model, or of a folder with a description; None: the model is unknown.

    `name` may also be the path of such a folder, beginning with `/`, `./`, `../` or `~`. Raises
    EmbeddingUnavailableError if the files of a known model are missing, or a description is invalid.
    """
    if name.startswith(("/", "./", "../", "~")):
        folder = Path(os.path.expanduser(name))  # noqa: PTH111 - without a home, Path's raises
        return described(folder, "VECTOR_MEMORY_EMBEDDING_MODEL")
    model = by_name(name)
    if model is not None:
        return find_weights(configured, model)
    if configured is not None and (configured / DESCRIPTION_FILE).is_file():
        return described(configured, "VECTOR_MEMORY_EMBEDDING_MODEL_PATH")
    return None


def described(folder: Path, setting: str) -> ModelFolder:
    """Return the model in a user's folder. Raises EmbeddingUnavailableError if it is incomplete."""
    remedy = "It needs model.onnx, tokenizer.json and vector-memory.json."
    if not folder.is_dir():
        raise EmbeddingUnavailableError(f"{setting} names a folder that does not exist: {folder}.")
    description = read_description(folder)
    bias = folder / BIAS_FILE
    return ModelFolder(
        description=description, folder=folder, source=f"{setting} ({folder})", remedy=remedy,
        bias_file=bias if bias.is_file() else None,
    )  # fmt: skip


def find_weights(configured: Path | None, model: KnownModel = MINILM) -> ModelFolder:
    """Return a model's files: from the configured folder, an installed package, or the Hugging Face cache.

    Raises EmbeddingUnavailableError if there are none, or if a configured folder does not contain them.
    """
    if configured is not None:
        return _configured(configured, model)
    for found in installed(model):
        if found.is_complete:
            return found
    name = model.description.name
    raise EmbeddingUnavailableError(f"The embedding model {name} is not on this machine. {how_to_install(model)}")


def how_to_install(model: KnownModel) -> str:
    """Return a sentence on how to get a model."""
    return HOW_TO_INSTALL.get(model.description.name) or (
        f"Run `hf download {model.repository}` once, or set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to the model's folder."
    )


def source_of(model: KnownModel) -> str | None:
    """Return the place of a model's files, for the user; None: it is not on this machine."""
    return next((each.source for each in installed(model) if each.is_complete), None)


def installed(model: KnownModel) -> Iterator[ModelFolder]:
    """Yield the folders that may hold a model's files, the best first."""
    spec = importlib.util.find_spec(model.package) if model.package else None
    for folder in (spec and spec.submodule_search_locations) or ():
        name = model.description.name
        remedy = f"Delete the folder {name} of that package, and install the package again."
        yield _folder(model, Path(folder) / name, f"the package {model.package}", remedy)
    if (cache := hub_cache()) and os.access(cache, os.X_OK):
        for snapshot in _snapshots(cache / f"models--{model.repository.replace('/', '--')}", model.revision):
            yield _folder(model, snapshot, "the Hugging Face cache", _again(model))


def _configured(folder: Path, model: KnownModel) -> ModelFolder:
    name = model.description.name
    remedy = (
        f"Set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to a folder with the files of {name}, or "
        "VECTOR_MEMORY_EMBEDDING_MODEL to the name of the model in this folder."
    )
    found = _folder(model, folder, f"VECTOR_MEMORY_EMBEDDING_MODEL_PATH ({folder})", remedy)
    if not found.is_complete:
        needed = " and ".join((*found.weights, TOKENIZER_FILE))
        raise EmbeddingUnavailableError(f"{found.source} does not contain {needed}. {remedy}")
    return found


def _folder(model: KnownModel, folder: Path, source: str, remedy: str) -> ModelFolder:
    return ModelFolder(
        description=model.description, folder=folder, source=source, remedy=remedy, known=model.official,
        bias_file=model.bias_file,
    )  # fmt: skip


def _again(model: KnownModel) -> str:
    if model.revision:
        return "Run `vector-memory fetch-model` to replace it."
    return f"Run `hf download {model.repository} --force-download` to replace it."


def _snapshots(repository: Path, pinned: str) -> Iterator[Path]:
    """Yield the cached revisions: the tested one, then `main`, then all others."""
    snapshots, main = repository / "snapshots", repository / "refs" / "main"
    if pinned:
        yield snapshots / pinned
    if main.is_file():
        yield snapshots / main.read_text(encoding="utf-8").strip()
    if snapshots.is_dir():
        yield from sorted(snapshots.iterdir())


def hub_cache() -> Path | None:
    """Return the path of the Hugging Face cache, as the hub's client determines it; it need not exist.

    None if it would be in the home of a user without one.
    """
    get = os.environ.get
    named = get("HF_HUB_CACHE") or get("HUGGINGFACE_HUB_CACHE") or (f"{get('HF_HOME')}/hub" if get("HF_HOME") else "")
    if named:
        return Path(os.path.expanduser(os.path.expandvars(named)))  # noqa: PTH111 - without a home, Path's raises
    cache = folder_of_user(".cache", "XDG_CACHE_HOME")
    return cache and cache / "huggingface" / "hub"


ENCODING = "cl100k_base"
OF_HUB = MINILM.official[-1].sha256


def download_file(name: str, *, again: bool) -> Path:
    """Download a file of the pinned revision into the Hugging Face cache, with the hub client's progress bar.

    `again`: even if the file exists.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - only needed for one command

    # It logs each retry with the whole address; the error message is enough.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    return Path(hf_hub_download(MINILM.repository, name, revision=MINILM.revision, force_download=again))


def download_encoding() -> None:
    """Make tiktoken download its encoding into its cache."""
    import tiktoken  # noqa: PLC0415 - only needed for one command

    tiktoken.get_encoding(ENCODING)


def download_model(
    say: Callable[[str], None],
    file: Callable[..., Path] = download_file,
    encoding: Callable[[], None] = download_encoding,
) -> Path:
    """Download the default model (about 90 MB) and return its folder; `say` is called with a line for each step.

    Correct files are not downloaded again. Raises EmbeddingUnavailableError if the model cannot be downloaded. A
    missing encoding for token counts is only reported, because the server works without it.
    """
    if hub_cache() is None:
        raise EmbeddingUnavailableError("No home directory to download the model to: set HF_HOME to a folder.")
    for name in OF_HUB:
        say(f"{name} of {MINILM.repository}")
        path = _fetch_official(name, file)
    say(f"token encoding {ENCODING}")
    try:
        encoding()
    except Exception as error:  # tiktoken passes on all exceptions of its transport
        say(f"not downloaded ({type(error).__name__}): tokens will be counted with the model's tokenizer instead")
    return path.parent


def _fetch_official(name: str, file: Callable[..., Path]) -> Path:
    try:
        path = file(name, again=False)
        if digest_of(path) != OF_HUB[name]:
            path = file(name, again=True)
    except Exception as error:
        raise EmbeddingUnavailableError(
            f"{name} could not be downloaded ({type(error).__name__}). Check the connection, set HF_ENDPOINT to a "
            f"mirror, or install the package vector-memory-model, which contains the weights."
        ) from error
    if digest_of(path) != OF_HUB[name]:
        raise EmbeddingUnavailableError(
            f"The downloaded {name} is not the official file and will not be used. If HF_ENDPOINT names a mirror, "
            f"choose another."
        )
    return path
