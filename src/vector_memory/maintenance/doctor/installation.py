"""Checks of the installation: versions, SQLite, the model, the token counter."""

import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version

from vector_memory.chunking import find_token_counter
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.weights import find_model
from vector_memory.errors import VectorMemoryError
from vector_memory.maintenance.doctor.report import Finding, fine, problem, warning
from vector_memory.settings import Settings
from vector_memory.storage.sqlite import inspection

PACKAGES = ("vector-memory", "fastmcp", "apsw", "sqlite-vec", "onnxruntime")
SAMPLE = "A vector for the doctor."
REINSTALL = "Reinstall vector-memory in its own environment."


def installation_findings(engine: Iterable[Finding], model: EmbeddingModel, settings: Settings) -> Iterator[Finding]:
    """Yield the findings about the installation, those about the engine among them."""
    yield package_versions()
    yield from engine
    yield embedding_model(model, settings)
    yield token_counter(model)


def sqlite_findings() -> Iterator[Finding]:
    """Yield the findings about SQLite and its extension."""
    yield linked_sqlite()
    yield vector_extension()


def package_versions() -> Finding:
    """Report the versions that a bug report should contain."""
    try:
        found = [f"{name} {version(name)}" for name in PACKAGES]
    except PackageNotFoundError as error:
        return problem("versions", f"The package {error.name} is not installed.", REINSTALL)
    return fine("versions", ", ".join([found[0], f"Python {platform.python_version()}", *found[1:]]) + ".")


def linked_sqlite() -> Finding:
    """Check that this version of SQLite cannot damage a file that several processes share."""
    try:
        return fine("sqlite", f"SQLite {inspection.sqlite_version()} is safe to use from several processes.")
    except VectorMemoryError as error:
        return problem("sqlite", str(error), "Install apsw 3.54 or newer.")


def vector_extension() -> Finding:
    """Check that sqlite-vec can be loaded."""
    try:
        return fine("vector-search", f"sqlite-vec {inspection.extension_version()} can be loaded.")
    except VectorMemoryError:
        return problem("vector-search", "sqlite-vec cannot be loaded, so the memory cannot be opened.", REINSTALL)


def embedding_model(model: EmbeddingModel, settings: Settings) -> Finding:
    """Check that the model exists, is the official one, and computes vectors."""
    try:
        (vector,) = model.embed([SAMPLE])
        found = find_model(settings.embedding_model, settings.embedding_model_path)
    except VectorMemoryError as error:
        return problem("model", f"Searches cannot compare meaning. {error}", "Storing works without a model.")
    source = f", from {found.source}," if found else ""
    checked = " Its files match the official ones." if found and found.sha256 else ""
    return fine("model", f"{settings.embedding_model}{source} computes vectors of {len(vector)} numbers.{checked}")


def token_counter(model: EmbeddingModel) -> Finding:
    """Report how the tokens of chunks and answers are counted."""
    usable = model.is_ready
    name = find_token_counter((lambda text: len(model.token_spans(text))) if usable else None).name
    if name == "estimate":
        return warning(
            "tokens",
            "Tokens are estimated from the length of a text, so the sizes of chunks are only approximate.",
            "Run `vector-memory fetch-model`, which also downloads the token table.",
        )
    means = "with cl100k_base" if name == "cl100k_base" else "with the model's tokenizer: cl100k_base is not on disk"
    return fine("tokens", f"Tokens are counted {means}.")
