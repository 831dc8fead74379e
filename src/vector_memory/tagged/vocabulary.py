"""The vocabulary of tagged memories: finds the category and the canonical tags that a caller's words mean."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import VectorsByTag
from vector_memory.tagged import tags

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
        word = tags.normalized(word)
        found = word if word in tags.CATEGORIES else tags.ABBREVIATIONS.get(word)
        if found is not None or len(word) < tags.MIN_COMPARED:
            return found
        phrases = [phrase for some in tags.PHRASES.values() for phrase in some]
        vectors = np.stack([self._model.encode_query(phrase).vector for phrase in phrases])
        cosines = vectors @ self._model.encode_query(as_words(word)).vector
        return tags.nearest_category(dict(zip(phrases, cosines.tolist(), strict=True)))

    def vectors_for(self, tags: Sequence[str]) -> ComputedVectors:
        """Compute the vectors needed to compare tags with the canonical ones. Do not call it inside a transaction."""
        try:
            with self._storage.read() as reader:
                known = {tag.tag for tag in reader.tags.canonical(tags)}
                if known.issuperset(tags):
                    return ComputedVectors()
                fingerprint = self._model.fingerprint
                reader.vectors.require_current(fingerprint)
                missing = reader.tags.vectors_of(fingerprint.dimensions).missing()
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
            missing = reader.tags.vectors_of(fingerprint.dimensions).missing()
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
        if reader.tags.canonical([tag]):
            return tag
        vector = vectors.get(tag, np.zeros(0, np.float32))
        known = reader.tags.vectors_of(len(vector))
        return best_match(tag, known.tags, (known.vectors @ vector).tolist())


# Decides whether two tags mean the same: guards that forbid merging, and a minimum similarity.
#
# Numbers and versions distinguish similar tags such as `api v1` and `api v2`.

Version = tuple[int, ...]
"""A number or the parts of a version, without trailing zeros: `2`, `2.0` and `2.0.0` are all `(2,)`."""

DOTTED = r"(\d+(?:\.\d+)*)"
NUMBER = re.compile(DOTTED)

VERSIONED = """
    android angular ansible api bootstrap cakephp centos css debian django dotnet drupal elasticsearch electron es
    fedora flask go gradle helm html http ios java jdk jquery junit kafka kotlin kubernetes laravel log4j macos magento
    mariadb maven mongodb mysql net nextjs nginx node nodejs npm nuxt oauth openapi openssl oracle perl php phpunit
    postgres postgresql pydantic python rails react redis rhel ruby rust scala spring sqlite ssl swift symfony tailwind
    terraform tls typescript ubuntu vue webpack windows wordpress
    """.split()  # noqa: SIM905 - a hundred lines shorter
"""A number after one of these is a version."""

VERSION_PATTERN = re.compile(rf"(?<![a-z0-9])(v|ver|version|{'|'.join(VERSIONED)})[ .\-_]?{DOTTED}(?![a-z0-9]|\.\d)")
"""Matches only whole words (`_` also ends a word) and whole numbers: `v2.1beta` does not contain version 2."""


def numbers(tag: str) -> frozenset[Version]:
    """Return all numbers in a tag, also within words: `php7` contains 7."""
    return frozenset(map(parse_version, NUMBER.findall(tag)))


def versions(tag: str) -> frozenset[Version]:
    """Return the versions in a tag: `v2.0`, `version 2`, `ver 3.0`, or a number after a name such as `api`."""
    return frozenset(parse_version(number) for _, number in VERSION_PATTERN.findall(tag))


def with_plain_versions(tag: str) -> str:
    """Return a tag with its versions in one form: `v2.0` and `version 2` become `v2`, `api 2.0` becomes `api v2`."""

    def plain(found: re.Match[str]) -> str:
        name, number = found.groups()
        mark = "v" if name in {"v", "ver", "version"} else f"{name} v"
        return mark + ".".join(map(str, parse_version(number)))

    return VERSION_PATTERN.sub(plain, tag)


def parse_version(text: str) -> Version:
    """Parse a dotted number into a comparable value: `1.10` is `(1, 10)`, `2.0` is `(2,)`."""
    parts = [int(part) for part in text.split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


MERGE_THRESHOLD = 0.90
MERGE_THRESHOLD_SAME_VERSION = 0.85
SUBSTRING_BOOST = 0.03
MIN_SUBSTRING = 4

GENERAL_WORDS = frozenset(
    """
    api ui db test auth infra ci cd app lib sdk cli gui web sql orm log cfg env dev prod stg
    """.split()  # noqa: SIM905 - twenty lines shorter
)
"""Too general to be the topic of a longer tag that contains them."""

MIN_COSINE = 0.8
"""Tags that are less similar can never merge, so they are not compared further."""

WORD_SEPARATORS = re.compile(r"[\s\-_]+")
SEPARATORS_AND_MARKS = " -_.:"


def as_words(tag: str) -> str:
    """Return a tag as it is compared: `rate-limiting`, `rate_limiting` and `rate limiting` become equal."""
    return WORD_SEPARATORS.sub(" ", tag).strip()


def letters(tag: str) -> str:
    """Return a tag without separators, its versions in one form.

    Tags with equal letters are the same: `front end` and `frontend`, `v2` and `v2.0`.
    """
    tag = with_plain_versions(tag)
    for separator in SEPARATORS_AND_MARKS:
        tag = tag.replace(separator, "")
    return tag


def same_version(tag: str, other: str) -> bool:
    """Guard `version`: tags of different versions never merge."""
    mine, theirs = versions(tag), versions(other)
    return mine == theirs or not mine or not theirs


GUARDS: dict[str, Callable[[str, str], bool]] = {
    "version": same_version,
    "number": lambda tag, other: numbers(tag) == numbers(other),
    "colon": lambda tag, other: not (":" in tag and ":" in other),
    "prefix": lambda tag, other: (":" in tag) == (":" in other),
}
"""Different tags may merge only if every guard returns True.

`number`: nor does a tag with a number merge with one without. `colon`: two structured tags never merge, even with the
same prefix. `prefix`: a structured tag never merges with a plain one.
"""


def guarded(tag: str, other: str) -> bool:
    """Return whether a guard forbids merging two different tags."""
    return not all(allows(tag, other) for allows in GUARDS.values())


def is_boosted(tag: str, other: str) -> bool:
    """Return whether one tag contains the other, and the other is neither too short nor too general."""
    shorter, longer = sorted((as_words(tag), as_words(other)), key=len)
    return shorter in longer and len(shorter) >= MIN_SUBSTRING and shorter not in GENERAL_WORDS


def score(tag: str, other: str, cosine: float) -> float:
    """Return the similarity of two tags to compare with the threshold, boosted if one contains the other."""
    if letters(tag) == letters(other):
        return 1 + SUBSTRING_BOOST
    return round(cosine + (SUBSTRING_BOOST if is_boosted(tag, other) else 0.0), tags.SIMILARITY_DECIMALS)


def threshold(tag: str, other: str) -> float:
    """Return the minimum similarity for merging: lower if both tags name the same version."""
    mine = versions(tag)
    return MERGE_THRESHOLD_SAME_VERSION if mine and mine == versions(other) else MERGE_THRESHOLD


def merges(tag: str, other: str, cosine: float) -> bool:
    """Return whether two tags merge, given the cosine of their vectors."""
    return not guarded(tag, other) and score(tag, other, cosine) >= threshold(tag, other)


def best_match(tag: str, known: Sequence[str], cosines: Sequence[float]) -> str | None:
    """Return the most similar known tag that `tag` merges with; ties go to the first. None if `tag` is new.

    `known`: oldest first. `cosines`: the cosine of each with `tag`, 0 without a vector.
    """
    spelled = letters(tag)
    near = [
        (other, score(tag, other, cosine))
        for other, cosine in zip(known, cosines, strict=True)
        if (cosine > MIN_COSINE or letters(other) == spelled) and merges(tag, other, cosine)
    ]
    return max(near, key=lambda item: item[1])[0] if near else None
