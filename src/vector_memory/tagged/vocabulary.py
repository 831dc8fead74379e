"""The vocabulary of tagged memories: which category and which canonical tags a caller's words mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import VectorsByTag
from vector_memory.tagged import categories
from vector_memory.tagged.merging import best_match, spoken

BATCH = 256
"""Tags embedded and written at a time."""


@dataclass(frozen=True, slots=True)
class Made:
    """Vectors by tag, and what made them; without a model there are none, and tags are only compared by their letters.

    Those of the tags in question, and those that canonical tags did not have yet.
    """

    vectors: VectorsByTag = field(default_factory=dict)
    fingerprint: Fingerprint | None = None


class Vocabulary:
    """Normalizes categories and tags. What was made canonical stays so; the first form of a tag wins."""

    def __init__(self, storage: Storage, model: EmbeddingModel) -> None:
        self._storage = storage
        self._model = model

    def category(self, word: str) -> str | None:
        """Return the category that a word means, or None. Raises EmbeddingUnavailableError if it has to be compared."""
        word = categories.cleaned(word)
        found = categories.known(word)
        if found is not None or len(word) < categories.SHORT:
            return found
        phrases = [phrase for some in categories.PHRASES.values() for phrase in some]
        vectors = np.stack([self._model.embed_query(phrase) for phrase in phrases])
        cosines = vectors @ self._model.embed_query(spoken(word))
        return categories.nearest(dict(zip(phrases, cosines.tolist(), strict=True)))

    def vectors_for(self, tags: Sequence[str]) -> Made:
        """Return what is needed to compare tags with the canonical ones. Not to be called inside a transaction."""
        try:
            with self._storage.read() as reader:
                known = {tag.tag for tag in reader.canonical_tags(tags)}
                if known.issuperset(tags):
                    return Made()
                fingerprint = self._model.fingerprint
                reader.require_comparable(fingerprint)
                missing = reader.tag_vectors(fingerprint.dimensions).missing()
            return Made(self._embed([*(tag for tag in tags if tag not in known), *missing]), fingerprint)
        except EmbeddingUnavailableError:
            return Made()

    def adopt(self, writer: Writer, tags: Sequence[str], made: Made, now: str) -> dict[str, str]:
        """Return the canonical form of each tag, a new one if need be, inside the transaction that stores the memory.

        One after another, so that a tag can be a form of one before it. Each canonical tag counts once for a memory.
        """
        vectors = self._set(writer, made)
        forms: dict[str, str] = {}
        for tag in tags:
            canonical = self._canonical(writer, tag, vectors) or tag
            if canonical not in forms.values():
                writer.count_tag(canonical, vectors.get(canonical), now)
            forms[tag] = canonical
        return forms

    def look_up(self, tags: Sequence[str]) -> dict[str, str]:
        """Return the canonical form of each tag; one that has none stays as it is."""
        made = self.vectors_for(tags)
        with self._storage.read() as reader:
            return {tag: self._canonical(reader, tag, made.vectors) or tag for tag in tags}

    def make_missing_vectors(self) -> int:
        """Give all canonical tags vectors that have none, and return how many. Raises EmbeddingUnavailableError."""
        fingerprint = self._model.fingerprint
        with self._storage.read() as reader:
            missing = reader.tag_vectors(fingerprint.dimensions).missing()
        for start in range(0, len(missing), BATCH):
            vectors = self._embed(missing[start : start + BATCH])
            with self._storage.write() as writer:
                writer.set_tag_vectors(vectors, fingerprint)
        return len(missing)

    def _embed(self, tags: Sequence[str]) -> VectorsByTag:
        return dict(zip(tags, self._model.embed([spoken(tag) for tag in tags]), strict=True))

    @staticmethod
    def _set(writer: Writer, made: Made) -> VectorsByTag:
        """Store and return the vectors, unless another process has just changed the file over to another model."""
        try:
            if made.fingerprint is not None:
                writer.set_tag_vectors(made.vectors, made.fingerprint)
        except EmbeddingUnavailableError:
            return {}
        return made.vectors

    @staticmethod
    def _canonical(reader: Reader, tag: str, vectors: VectorsByTag) -> str | None:
        """Return the canonical tag that a tag is, or is a form of; without a vector only its letters tell."""
        if reader.canonical_tags([tag]):
            return tag
        vector = vectors.get(tag, np.zeros(0, np.float32))
        known = reader.tag_vectors(len(vector))
        return best_match(tag, known.tags, (known.vectors @ vector).tolist())
