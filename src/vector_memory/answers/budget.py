"""Limits answers to a number of tokens; every cut is marked."""

import sys
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from vector_memory.answers.forms import FORM
from vector_memory.answers.models import FoundChunk, FoundMemory, FoundSection, Omitted, StoredText, data_note
from vector_memory.domain import Page
from vector_memory.domain.validation import MAX_LIMIT, check_range

A = TypeVar("A", bound=BaseModel)
E = TypeVar("E")
T = TypeVar("T", bound=BaseModel)
H = TypeVar("H", bound=FoundChunk | FoundSection)
M = TypeVar("M", bound=StoredText)
R = TypeVar("R", bound=FoundChunk | FoundSection | StoredText)

BYTES_PER_TOKEN = 3
"""A conservative value: English prose has about 4.5 bytes of UTF-8 per token, code 3.3, Chinese 3.

Counting with a tokenizer would take longer than the search itself for long documents.
"""

LONGEST: ContextVar[int] = ContextVar("LONGEST", default=sys.maxsize)
"""The maximum size of the current call's answer in bytes of JSON, whatever the budget."""

LEAST_CONTENT = 200
"""Minimum bytes of a cut content; a memory with less room is omitted."""

ECHOED, OMITTED = 8, 4
"""The echoed request and the list of omitted results may each take an answer divided by this."""

CONTENT_END = 24
"""Bytes of the key `content_end` with its offset."""

BOUNDARIES = ("\n\n", "\n", " ")

LEAST_FIELD = 40
"""Minimum length of a shortened field in bytes: ids, times and kinds are not longer."""

MARK = "…"
"""Ends a shortened value, where its type allows it."""

LEAST_MARK = 24
"""Bytes of the mark in a list or object."""

SHORTENED = (
    f" Shortened to fit, marked with {MARK}: {{names}}. To get the full text, send a larger max_tokens, use "
    "write_document_to_file, or run `vector-memory show ID`."
)

SHORTENABLE = (str, list, dict, BaseModel)


class Cut(NamedTuple):
    """A part of a text. `end`: the offset to continue at; None at the end of the text."""

    text: str
    end: int | None


class ResponseBudget:
    """Fits results into answers of at most `max_tokens` tokens, measured as a whole; see `fit`."""

    def __init__(self, max_tokens: int, *, is_part: bool = False) -> None:
        """`is_part`: for a part of a joint answer, which may exceed the limit."""
        self._max_tokens = max_tokens
        self._is_part = is_part
        self._bytes = max_tokens * BYTES_PER_TOKEN
        self._shortened: set[str] = set()

    def within(self, max_tokens: int | None) -> "ResponseBudget":
        """Return a budget for an answer of at most `max_tokens`."""
        return self if max_tokens is None else ResponseBudget(min(max_tokens, self._max_tokens))

    def for_page(self, page: Page) -> "ResponseBudget":
        """Return a budget for the answer with a page of results."""
        if page.is_part:
            return ResponseBudget(self._max_tokens * MAX_LIMIT, is_part=True)
        return self.within(page.max_tokens)

    def fit(self, build: Callable[["ResponseBudget"], A]) -> A:
        """Return an answer that fits: call `build` with budgets until it does.

        The room for results is known only once the rest of the answer is, so the answer is built again with less room
        until it fits. If it is still too long, its fields are shortened.
        """
        most = room = self._bytes if self._is_part else min(self._bytes, LONGEST.get())
        while True:
            budget = self._with_room(room)
            answer = build(budget)
            answer = noted(answer, budget._shortened)  # noqa: SLF001 - one of our own
            excess = size(answer) - most
            if excess <= 0 or not room:
                return answer if excess <= 0 else bounded(answer, most)
            room = max(0, room - excess)

    @property
    def room(self) -> int:
        """The maximum size of an answer in bytes."""
        return self._bytes

    def part(self, share: int) -> "ResponseBudget":
        """Return a budget for one of `share` equal shares of an answer."""
        return self._with_room(self._bytes // share)

    def _with_room(self, room: int) -> "ResponseBudget":
        budget = ResponseBudget(self._max_tokens)
        budget._bytes = room
        return budget

    def cut(self, text: str, offset: int = 0, *, times: int = 1) -> Cut:
        """Return the text from `offset` on, as far as it fits `times` times into an answer.

        Raises ValidationError for an offset outside the text.
        """
        return cut(text, check_range("offset", offset, 0, len(text)), self._bytes // times)

    def slim(self, item: T, share: int = 2) -> T:
        """Shorten the item's longest fields until it fits into one of `share` equal shares of an answer."""
        slim, names = slimmed(item, self._bytes // share)
        self._shortened |= names
        return slim

    def echo(self, value: E) -> E:
        """Shorten a caller's value for the answer, to leave room for results."""
        return clipped(value, self._bytes // ECHOED)

    def held(self, hits: Sequence[H]) -> list[H]:
        """Return the first hits that fit together; a text that does not fit alone is cut."""
        if value_size(list(map(FORM.get().measured, hits))) <= self._bytes // 2:
            return list(hits)
        held, room = list[H](), self._bytes
        for place, hit in enumerate(hits):
            shown, taken = hit, size(hit)
            if taken > self._bytes // 2:
                shown = self._cut_beside(hit) if place else self.slim(self._cut_beside(hit), 1)
                taken = size(shown)
            room -= taken
            if room >= 0:
                held.append(shown)
        return held

    def _cut_beside(self, hit: H) -> H:
        """Cut the hit's text to fit next to its other fields."""
        text, start = hit.text_field, hit.content_start or 0
        bare = self.slim(hit.model_copy(update={text: ""}))
        part, end = cut_with_end(hit[text], self._bytes - size(bare))
        return cast("H", bare.model_copy(update={text: part} | ({} if end is None else {"content_end": start + end})))

    def fits(self, items: Sequence[BaseModel], *, times: int = 1) -> bool:
        """Whether all items fit into an answer, each `times` times."""
        return times * sum(map(size, items)) <= self._bytes

    def fitting(self, items: Sequence[T]) -> list[T]:
        """Return the first items that fit together; the first one is shortened if it does not fit alone."""
        wanted = [*(self.slim(item, 1) for item in items[:1]), *items[1:]]
        totals = accumulate(map(size, wanted))
        return [item for item, total in zip(wanted, totals, strict=True) if total <= self._bytes]

    def with_more(self, items: Sequence[T], fuller: Sequence[T]) -> list[T]:
        """Return the items, in their fuller form as far as that fits."""
        room = self._bytes - sum(map(size, items))
        chosen = []
        for item, full in zip(items, fuller, strict=True):
            more = size(full) - size(item)
            chosen.append(full if more <= room else item)
            room -= more if more <= room else 0
        return chosen

    def share(self, entries: Sequence[M]) -> list[M]:
        """Return the first memories that fit with some of their content.

        Contents share the room equally; room that short ones leave goes to longer ones.
        """
        bare = [self.slim(entry.model_copy(update={"content": ""})) for entry in entries]
        # No answer can show more of a content than this.
        contents = [json_size(entry.content[: self._bytes]) for entry in entries]
        frames = [size(entry) for entry in bare]
        least = accumulate(frame + min(content, LEAST_CONTENT) for frame, content in zip(frames, contents, strict=True))
        count = sum(total <= self._bytes for total in least)
        shares = fair_shares(contents[:count], self._bytes - sum(frames[:count]))
        return [
            shortened(frame.model_copy(update={"content": entry.content}), allowance)
            for frame, entry, allowance in zip(bare, entries, shares, strict=False)
        ]

    def packed(self, found: Sequence[R], results: list[R], page: Page, *, more: bool) -> "Packed[R]":
        """Return the page with the `results` of `found` that fit. `more`: further results follow."""
        # A first result that fits into no answer is listed in `omitted`, and the next page starts after it.
        following = page.offset + max(1, len(results))
        left_out = len(found) - len(results)
        omitted = self.omissions(found, results) if left_out else []
        return Packed(results, omitted, following if left_out or more else None, left_out)

    def omissions(self, items: Sequence[R], kept: Sequence[R]) -> list[Omitted]:
        """Return entries of `omitted` for results that did not fit: as many as fit, at least one."""
        omitted = [item.as_omitted for item in items[len(kept) :]]
        totals = accumulate(map(size, omitted))
        room = self._bytes // OMITTED
        return [one for one, total in zip(omitted, totals, strict=True) if total <= room] or omitted[:1]


def fair_shares(wanted: Sequence[int], available: int) -> list[int]:
    """Divide `available` by max-min fairness: nobody gets more than wanted, or less than an equal share of the rest."""
    shares = [0] * len(wanted)
    waiting = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for position, index in enumerate(waiting):
        shares[index] = min(wanted[index], available // (len(wanted) - position))
        available -= shares[index]
    return shares


def shortened(entry: M, allowance: int) -> M:
    """Cut the memory's content to `allowance` bytes, and set the offset to continue at."""
    text, end = cut_with_end(entry.content, allowance)
    return entry if end is None else entry.model_copy(update={"content": text, "content_end": end})


def cut(text: str, offset: int, allowance: int) -> Cut:
    """Return at most `allowance` bytes of JSON from `offset` on, cut after a paragraph, line or word if possible."""
    window = prefix(text[offset : offset + max(0, allowance)], allowance)
    if offset + len(window) == len(text):
        return Cut(window, None)
    # Always advance: a reader that follows the offsets must reach the end.
    window = at_boundary(window) or text[offset : offset + 1]
    return Cut(window, offset + len(window))


def cut_with_end(text: str, allowance: int) -> Cut:
    """Return the text if it fits, or as much as fits beside the `content_end` of a cut text."""
    fits = len(text) <= allowance and json_size(text) <= allowance
    return Cut(text, None) if fits else cut(text, 0, allowance - CONTENT_END)


def at_boundary(text: str) -> str:
    """Return the text up to the last paragraph, line or word that ends in its last fifth."""
    for boundary in BOUNDARIES:
        found = text.rfind(boundary, len(text) * 4 // 5)
        if found >= 0:
            return text[: found + len(boundary)]
    return text


class Packed(NamedTuple, Generic[T]):
    """The results of a page that fit, the first `omitted` ones, and the offset or cursor of the next page, if any.

    `left_out`: number of results that did not fit.
    """

    results: list[T]
    omitted: list[Omitted]
    next_offset: int | None
    left_out: int = 0
    next_cursor: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the answer."""
        return {"results": self.results, "omitted": self.omitted, "next_offset": self.next_offset}

    def listed(self, cursors: Sequence[str], page: Page) -> "Packed[T]":
        """Add the cursor after the last result; remove the offset if the caller sent a cursor."""
        if self.next_offset is None or not cursors:
            return self
        following = self.next_offset if page.cursor is None else None
        return self._replace(next_offset=following, next_cursor=cursors[max(1, len(self.results)) - 1])


def explain(noun: str, answer: Packed[Any], notes: Sequence[str], *, read_with: str) -> str:
    """Report how much was found, the notes, and how to get the other results."""
    count, left_out = len(answer.results), answer.left_out
    notes = [*notes, *filter(None, [data_note(answer.results)])]
    if count and not FORM.get().tells_counts:
        return " ".join(notes)
    nouns = noun if count == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    sentences = [f"{count} {nouns}."] if count else []
    sentences += notes
    again = "next_cursor as cursor" if answer.next_offset is None else f"offset={answer.next_offset}"
    if left_out:
        named = "see omitted" if left_out == len(answer.omitted) else f"the first {len(answer.omitted)} are in omitted"
        sentences.append(
            f"{left_out}{' more' if count else ''} did not fit into the answer: {named}; read them with {read_with}, "
            f"or repeat with {again}{'' if count else ' or a larger max_tokens'}."
        )
    elif answer.next_offset is not None or answer.next_cursor is not None:
        sentences.append(f"For more, repeat with {again}.")
    return " ".join(sentences) or "No more results: send a smaller offset."


LINE = 120
"""Maximum characters of a line."""

NAMED = 3
"""Maximum number of corrections that a line names."""

DATE = len("2026-10-05")


def listed(
    budget: ResponseBudget, memories: Sequence[FoundMemory], page: Page, *, more: bool
) -> tuple[list[str], Packed[Any]]:
    """Return the lines of memories that fit, and their page. `more`: further results follow."""
    lines = [line_of(memory) for memory in memories]
    sizes = accumulate(value_size(line) + 1 for line in lines)
    fitting = [line for line, total in zip(lines, sizes, strict=True) if total <= budget.room]
    following = page.offset + max(1, len(fitting)) if more or len(fitting) < len(lines) else None
    return fitting, Packed(list(memories[: len(fitting)]), [], following)


def line_of(memory: FoundMemory) -> str:
    """Return a memory's id, date, agent, title and beginning in one line, with the ids of its corrections."""
    words = " ".join(memory.content[: 4 * LINE].replace("#", " ").split())
    title = " ".join((memory.title or "").split())
    said = words if not title or words.startswith(title) else f"{title}: {words}"
    line = f"{memory.id} {memory.created_at[:DATE]} {memory.agent_id}: {said}"
    corrections = [note.id for note in memory.observations if note.corrects][:NAMED]
    marks = "".join(
        f" [{name}: {', '.join(map(str, ids))}]"
        for name, ids in (("corrected", corrections), ("later", [one.id for one in memory.later]))
        if ids
    )
    marks += " [low trust]" if memory.trust else ""
    room = LINE - len(marks)
    return (line if len(line) <= room else line[: room - 1] + MARK) + marks


# Shortens long fields one by one.


def noted(answer: T, names: Collection[str]) -> T:
    """Add a note on shortened fields to the answer's `message`, if it has one."""
    if not names or "message" not in type(answer).model_fields:
        return answer
    said = (getattr(answer, "message", None) or "") + SHORTENED.format(names=", ".join(sorted(names)))
    return answer.model_copy(update={"message": said.strip()})


def bounded(answer: T, limit: int) -> T:
    """Shorten an answer that is too long to at most `limit` bytes."""
    room = max(0, limit - len(SHORTENED.encode()) - LEAST_FIELD)
    slim, names = slimmed(answer, room)
    return slimmed(noted(slim, names - {"message"}), limit)[0]


def slimmed(item: T, limit: int) -> tuple[T, set[str]]:
    """Shorten the item to at most `limit` bytes, if possible; also return the names of the shortened fields."""
    names: set[str] = set()
    if size(item) <= limit:
        return item, names
    left = {name: (value_size(value), value) for name, value in item if isinstance(value, SHORTENABLE)}
    while left and (excess := size(item) - limit) > 0:
        name = max(left, key=lambda name: left[name][0])
        taken, value = left.pop(name)
        if taken <= LEAST_FIELD:
            break
        item = item.model_copy(update={name: clipped(value, max(LEAST_FIELD, taken - excess))})
        names.add(name)
    return item, names


def clipped(value: E, room: int) -> E:
    """Cut a text, list or object to at most `room` bytes, with a mark at the cut."""
    if not isinstance(value, SHORTENABLE) or value_size(value) <= max(room, LEAST_FIELD):
        return value
    kept: Any = value
    if isinstance(value, str):
        kept = prefix(value[:room], room - value_size(MARK)) + MARK
    elif isinstance(value, BaseModel):
        kept, _ = slimmed(value, room)
    elif isinstance(value, list):
        kept = fitting_values(value, room - LEAST_MARK)
        kept += [MARK] if isinstance(value[0], str) else []
    elif isinstance(value, dict):
        items = fitting_values([{name: inner} for name, inner in value.items()], room - LEAST_MARK)
        more = len(value) - len(items)
        kept = {name: inner for item in items for name, inner in item.items()}
        # In a dict of counts a string would have the wrong type.
        kept |= {} if all(isinstance(inner, int) for inner in value.values()) else {MARK: f"{more:,} more"}
    return cast("E", kept)


def fitting_values(values: Sequence[Any], room: int) -> list[Any]:
    """Return as many of the first values as fit together."""
    totals = accumulate(value_size(value) + 1 for value in values)
    return [value for value, total in zip(values, totals, strict=True) if total <= room]


def value_size(value: object) -> int:
    """Return the size of a value in bytes of JSON."""
    return len(to_json(value))


def size(item: BaseModel) -> int:
    """Return the size of an item in the current form, in bytes of JSON."""
    return value_size(FORM.get().measured(item))


def json_size(text: str) -> int:
    """Return the size of a text inside a JSON string, where a line end takes two bytes and a control character six."""
    return value_size(text) - 2


def prefix(text: str, allowance: int) -> str:
    """Return the start of a text, at most `allowance` bytes of JSON."""
    return str(from_json(to_json(text)[: max(0, allowance) + 1], allow_partial="trailing-strings"))
