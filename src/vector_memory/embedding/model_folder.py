"""A folder with the files of a model. Nothing in it is executed, and sizes are checked before reading."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vector_memory.domain.user_files import opened, read_file
from vector_memory.embedding.description import Description
from vector_memory.errors import EmbeddingUnavailableError, VectorMemoryError
from vector_memory.storage.disk.drafts import Rules, draft_of

MODEL_FILE = "model.onnx"
HUB_FILE = "onnx/model.onnx"
"""Its place in repositories of the Hugging Face hub."""

DATA_FILES = ("model.safetensors", "model.onnx.data", "model.onnx_data")
"""Files next to the model that may contain its weights."""

TOKENIZER_FILE = "tokenizer.json"
BIAS_FILE = "language-bias.npy"
MAX_BYTES = {TOKENIZER_FILE: 64_000_000, BIAS_FILE: 16_000_000}
MAX_WEIGHTS_BYTES = 2_000_000_000
DIGEST_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Official:
    """Accepted files with their SHA-256. `vectors` and `precision`: parts of the fingerprint of their vectors."""

    sha256: Mapping[str, str]
    vectors: str
    precision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """A model on this machine. `source`: its place, for the user. `remedy`: what to do about a wrong file.

    `known`: the official files, for each name of the model's file; with other names, any file is accepted.
    `bias_file`: see `LanguageBias`; in the folder or elsewhere; None: there is none.
    """

    description: Description
    folder: Path
    source: str
    remedy: str
    known: Sequence[Official] = ()
    bias_file: Path | None = None

    def file(self, name: str) -> Path:
        """Return the real path of a file: the Hugging Face cache consists of symlinks, which ONNX Runtime refuses."""
        elsewhere = self.bias_file if name == BIAS_FILE else None
        return Path(os.path.realpath(elsewhere or self.folder / name))

    @property
    def model_file(self) -> str:
        """The name of the model's file, which need not exist."""
        return next(filter(self._has, (MODEL_FILE, HUB_FILE)), MODEL_FILE)

    @property
    def official(self) -> Official | None:
        """The only accepted files; None: any."""
        return next((each for each in self.known if self.model_file in each.sha256), None)

    @property
    def weights(self) -> tuple[str, ...]:
        """The names of the files with the model and its weights."""
        if self.official:
            return tuple(name for name in self.official.sha256 if name not in MAX_BYTES)
        beside = (str(Path(self.model_file).with_name(name)) for name in DATA_FILES)
        return (self.model_file, *filter(self._has, beside))

    @property
    def is_complete(self) -> bool:
        """Whether every required file exists; their content is not checked."""
        return all(map(self._has, (*self.weights, TOKENIZER_FILE)))

    def _has(self, name: str) -> bool:
        return os.path.isfile(self.folder / name)  # noqa: PTH113 - Path.is_file raises if the folder is closed to the user

    def verify(self, *names: str, again: bool = True) -> dict[str, str]:
        """Return the SHA-256 of files. Raises EmbeddingUnavailableError if one is too large or not the official one.

        Without `again`, hashes of unchanged files come from a cache.
        """
        return {name: self._verified(name, digest_of if again else remembered_digest) for name in names}

    def _verified(self, name: str, digest: Callable[[Path], str]) -> str:
        file, most = self.file(name), MAX_BYTES.get(name, MAX_WEIGHTS_BYTES)
        if file.stat().st_size > most:
            raise self.unusable(name, f"is larger than {most // 1_000_000:,} MB")
        try:
            found = digest(file)
        except OSError as error:
            raise EmbeddingUnavailableError(f"{name} in {self.source} cannot be read ({error.strerror}).") from error
        if self.official and found != self.official.sha256.get(name):
            raise self.unusable(name, "is not the official file")
        return found

    def unusable(self, name: str, problem: str) -> EmbeddingUnavailableError:
        """Return the error for a file of the model. `problem`: the end of a sentence."""
        return EmbeddingUnavailableError(f"{name} in {self.source} {problem}. {self.remedy}")

    def identity(self, digests: Mapping[str, str]) -> str:
        """Return the name of the model in fingerprints; it differs if anything differs that vectors depend on.

        `digests`: as `verify` returns them.
        """
        if self.official and self.official.sha256 == digests:
            return self.official.vectors
        told = self.description
        parts = [told.pooling, told.query_prefix, told.passage_prefix, told.tokens, sorted(digests.items())]
        return f"{told.name}@{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_LENGTH]}"


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file (0.05-0.1 s for 90 MB)."""
    # The file is read, not mapped: a mapped file would count towards the resident memory of the process.
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def remembered_digest(file: Path) -> str:
    """Return the SHA-256 of a file, cached until its path, size, times or inode change.

    Programs that copy or unpack may restore a file's modification time, but not its status change time. The cache is a
    file in the user's folder, if there is one, with a hash over all of these; a damaged one is replaced.
    """
    from vector_memory.settings import state_folder  # noqa: PLC0415 - imports pydantic

    status = file.stat()
    known = [str(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]

    def line(digest: str) -> str:
        return f"{digest} {hashlib.sha256(json.dumps([*known, digest]).encode()).hexdigest()}"

    if (state := state_folder()) is None:
        return digest_of(file)
    kept = state / "digests" / hashlib.sha256(os.fsencode(file)).hexdigest()[:DIGEST_LENGTH]
    with suppress(OSError, ValueError):
        digest, _, _ = (found := read_file(kept).decode()).partition(" ")
        if found == line(digest):
            return digest
    digest = digest_of(file)
    with suppress(OSError, VectorMemoryError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(kept, Rules(overwrite=True)) as draft:
            with draft.open() as stream:
                stream.write(line(digest).encode())
            draft.publish()
    return digest
