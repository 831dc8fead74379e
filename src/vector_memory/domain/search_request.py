"""Parameters of a search: what it compares, the order of results, and their number."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from vector_memory.domain.validation import LARGEST, MAX_LIMIT, MAX_OFFSET, MIN_TOKENS, check_range, parse_choice
from vector_memory.errors import ValidationError

EVERYTHING = "all"
"""The value of `explain` that asks for the candidates only, not why one memory or file was not found."""

LAST = "last"
"""The word for the session before this one."""


class SearchMode(StrEnum):
    """What a search compares: meaning and words, meaning only, or words only."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    KEYWORD = "keyword"

    @classmethod
    def of(cls, value: "SearchMode | str | None") -> "SearchMode | None":
        """Parse a mode from its wire name; None stays None."""
        return None if value is None else parse_choice("search_mode", value, cls)


class SearchOrder(StrEnum):
    """The order of whole documents: the newest first, or the best match first."""

    RECENT = "recent"
    RELEVANCE = "relevance"

    @classmethod
    def of(cls, value: "SearchOrder | str | None") -> "SearchOrder | None":
        """Parse an order from its wire name; None stays None."""
        return None if value is None else parse_choice("order", value, cls)


class FileSource(StrEnum):
    """Where to search: in all files, in the daily logs, or in the other files."""

    ALL = "all"
    MEMORY = "memory"
    DAILY = "daily"


LINES = "lines"

LATEST = "latest"

MAX_NOTES = 50
"""Maximum number of tagged memories in a page."""

MatchLevel = Literal["strong", "related", "weak"]
"""How well a result matches: it probably answers, it is on the topic, or it is hardly about it."""


def best_of(levels: Sequence[MatchLevel | None]) -> MatchLevel | None:
    """Return the best of several levels; None if there is none."""
    return next((level for level in get_args(MatchLevel) if level in levels), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The requested page of results: up to `limit` (1-100) after skipping `offset`, in at most `max_tokens`.

    `max_tokens` None: the configured maximum. `detail` "lines": one line for each memory, where whole memories are
    asked for. `prefer` "latest": among results on one subject, the latest leads. `copies`: near copies are results of
    their own. `is_part`: of an answer to several questions, which chooses itself: weak matches follow the others, and
    what is too long comes whole. `only_here`: no other scope is searched if nothing matches well. `cursor`: instead of
    an offset the `next_cursor` of a list, which goes on after what was shown. Raises ValidationError.
    """

    limit: int = 10
    offset: int = 0
    max_tokens: int | None = None
    detail: str | None = None
    prefer: str | None = None
    copies: bool = False
    is_part: bool = False
    only_here: bool = False
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.detail not in (None, LINES):
            raise ValidationError(f'detail must be "{LINES}": leave it out for whole texts.')
        if self.prefer not in (None, LATEST):
            raise ValidationError(f'prefer must be "{LATEST}": leave it out for the best match first.')
        check_range("limit", self.limit, 1, MAX_LIMIT)
        check_range("offset", self.offset, 0, MAX_OFFSET)
        if self.cursor is not None and self.offset:
            raise ValidationError("Send cursor or offset: a cursor says where the list goes on.")
        if self.max_tokens is not None:
            check_range("max_tokens", self.max_tokens, MIN_TOKENS, LARGEST)

    @classmethod
    def checked(cls, value: object) -> "Page":
        """Return `value` if it is a Page. Raises ValidationError."""
        if not isinstance(value, cls):
            raise ValidationError("page must be a Page.")
        return value

    @classmethod
    def of_notes(cls, limit: int, offset: int, prefer: str | None = None, cursor: str | None = None) -> "Page":
        """Return a page of tagged memories. Raises ValidationError."""
        return cls(limit=check_range("limit", limit, 1, MAX_NOTES), offset=offset, prefer=prefer, cursor=cursor)

    @property
    def folds(self) -> bool:
        """Whether near copies are folded under the newest; a line stands for one memory."""
        return not self.copies and self.detail != LINES

    @property
    def end(self) -> int:
        """The number of results up to the end of this page."""
        return self.offset + self.limit
