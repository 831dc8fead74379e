"""The vocabulary of tagged memories: finds the category and the canonical tags that a caller's words mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import VectorsByTag
from vector_memory.tagged import categories
from vector_memory.tagged.merging import as_words, best_match

TAGS_AT_ONCE = 256
"""Number of tags embedded and written at a time."""


@dataclass(frozen=True, slots=True)
class ComputedVectors:
    """Vectors by tag, and their fingerprint: of new tags, and of canonical tags that had none.

    Empty without a model; tags are then compared by their letters only.
    """

    vectors: VectorsByTag = field(default_factory=dict)
    fingerprint: Fingerprint | None = None


class Vocabulary:
    """Normalizes categories and tags. The first form of a tag becomes canonical and stays canonical."""

    def __init__(self, storage: Storage, model: EmbeddingModel) -> None:
        self._storage = storage
        self._model = model

    def category(self, word: str) -> str | None:
        """Return the category that a word means, or None.

        Raises EmbeddingUnavailableError if the word must be compared by its vector and there is no model.
        """
        word = categories.normalized(word)
        found = categories.known_category(word)
        if found is not None or len(word) < categories.MIN_COMPARED:
            return found
        phrases = [phrase for some in categories.PHRASES.values() for phrase in some]
        vectors = np.stack([self._model.encode_query(phrase).vector for phrase in phrases])
        cosines = vectors @ self._model.encode_query(as_words(word)).vector
        return categories.nearest_category(dict(zip(phrases, cosines.tolist(), strict=True)))

    def vectors_for(self, tags: Sequence[str]) -> ComputedVectors:
        """Compute the vectors needed to compare tags with the canonical ones. Do not call it inside a transaction."""
        try:
            with self._storage.read() as reader:
                known = {tag.tag for tag in reader.canonical_tags(tags)}
                if known.issuperset(tags):
                    return ComputedVectors()
                fingerprint = self._model.fingerprint
                reader.require_comparable(fingerprint)
                missing = reader.tag_vectors(fingerprint.dimensions).missing()
            return ComputedVectors(self._embed([*(tag for tag in tags if tag not in known), *missing]), fingerprint)
        except EmbeddingUnavailableError:
            return ComputedVectors()

    def adopt(self, writer: Writer, tags: Sequence[str], computed: ComputedVectors, now: str) -> dict[str, str]:
        """Return the canonical form of each tag, inside the transaction that stores the memory. New tags are added.

        Tags are added one after another, so a tag can merge with an earlier one. Each canonical tag counts once per
        memory.
        """
        vectors = self._set(writer, computed)
        forms: dict[str, str] = {}
        for tag in tags:
            canonical = self._canonical(writer, tag, vectors) or tag
            if canonical not in forms.values():
                writer.count_tag(canonical, vectors.get(canonical), now)
            forms[tag] = canonical
        return forms

    def look_up(self, tags: Sequence[str]) -> dict[str, str]:
        """Return the canonical form of each tag, or the tag itself if it has none."""
        computed = self.vectors_for(tags)
        with self._storage.read() as reader:
            return {tag: self._canonical(reader, tag, computed.vectors) or tag for tag in tags}

    def add_missing_vectors(self) -> int:
        """Compute the vectors of canonical tags that have none; return how many. Raises EmbeddingUnavailableError."""
        fingerprint = self._model.fingerprint
        with self._storage.read() as reader:
            missing = reader.tag_vectors(fingerprint.dimensions).missing()
        for start in range(0, len(missing), TAGS_AT_ONCE):
            vectors = self._embed(missing[start : start + TAGS_AT_ONCE])
            with self._storage.write() as writer:
                writer.set_tag_vectors(vectors, fingerprint)
        return len(missing)

    def _embed(self, tags: Sequence[str]) -> VectorsByTag:
        return dict(zip(tags, self._model.embed([as_words(tag) for tag in tags]), strict=True))

    @staticmethod
    def _set(writer: Writer, computed: ComputedVectors) -> VectorsByTag:
        """Store and return the vectors, or return none if another process has just changed the file's model."""
        try:
            if computed.fingerprint is not None:
                writer.set_tag_vectors(computed.vectors, computed.fingerprint)
        except EmbeddingUnavailableError:
            return {}
        return computed.vectors

    @staticmethod
    def _canonical(reader: Reader, tag: str, vectors: VectorsByTag) -> str | None:
        """Return the canonical tag that a tag is or merges with. Without a vector only its letters are compared."""
        if reader.canonical_tags([tag]):
            return tag
        vector = vectors.get(tag, np.zeros(0, np.float32))
        known = reader.tag_vectors(len(vector))
        return best_match(tag, known.tags, (known.vectors @ vector).tolist())
