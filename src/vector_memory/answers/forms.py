"""The forms of answers: which fields of a result are sent, and how much text. The lean form is in `server.lean`."""

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from pydantic import BaseModel

from vector_memory.answers import models
from vector_memory.answers.tagged import FoundText
from vector_memory.domain import Page

H = TypeVar("H", bound=models.FoundChunk | models.FoundSection)

ORIGIN = set(models.SharedProvenance.model_fields)
"""The fields with the origin of a found text."""


class Form:
    """The full form: all fields of a result, and its whole text as far as it fits."""

    cuts = False
    """Whether hits are always cut around the words of the question."""

    tells_counts = True
    """Whether messages repeat the counts of an answer."""

    def measured(self, result: BaseModel) -> Any:
        """Return a result, or a part of one, as it is sent, to measure its size."""
        return result

    def sent(self, result: models.Result) -> dict[str, Any]:
        """Return a result as it is sent."""
        return result.model_dump(mode="json")

    def failed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a failed call as it is sent."""
        return body

    def most_related(self, page: Page) -> int | None:  # noqa: ARG002
        """Return the maximum number of merely related results on a page; None: no maximum."""
        return None

    def cut_hits(self, hits: Sequence[H], wanted: Collection[str], sources: Mapping[int, Any], page: Page) -> list[H]:  # noqa: ARG002
        """Cut hits to the text that this form shows. `wanted`: terms; `sources`: memories by id, if it cuts."""
        return [*hits]

    def cut_passages(self, passages: Sequence[FoundText], wanted: Collection[str]) -> list[FoundText]:  # noqa: ARG002
        """Cut passages of files to the text that this form shows."""
        return [*passages]

    def without_repeats(self, answer: models.Result) -> models.Result:
        """Remove repetition from an answer with chunks or sections; return any other unchanged.

        Fields common to all results are stated once beside them, those common to a memory's results only in its first
        one. Every result keeps its date, every section its document's title.
        """
        if not isinstance(answer, models.FineSearchResult | models.MediumSearchResult):
            return answer
        shared: dict[str, Any] = {}
        kept = {"created_at"} | ({"title"} if isinstance(answer, models.MediumSearchResult) else set())
        if len(answer.results) > 1:
            first, *others = ({name: result[name] for name in ORIGIN} for result in answer.results)
            alike = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
            shared = {name: value for name, value in alike.items() if name not in kept}
        seen: set[int] = set()
        noted: set[int] = set()
        results = []
        for result in answer.results:
            left_out = set(ORIGIN if result.memory_id in seen else shared) - kept
            left_out |= {"title"} if has_title_in_path(result) else set()
            emptied: dict[str, Any] = {"later": [], "later_more": 0} if result.memory_id in seen else {}
            if result.observations:
                emptied |= {"observations": []} if result.memory_id in noted else {}
                noted.add(result.memory_id)
            if isinstance(result, models.FoundChunk) and result.content_end is None:
                left_out.add("content_start")
            results.append(result.model_copy(update=dict.fromkeys(left_out) | emptied))
            seen.add(result.memory_id)
        if all(map(has_title_in_path, answer.results)):
            shared.pop("title", None)
        return answer.model_copy(update={**shared, "results": results})


def has_title_in_path(result: models.FoundChunk | models.FoundSection) -> bool:
    """Whether the heading path begins with the title."""
    return result.header_path.partition(" > ")[0].lstrip("#").strip() == result.title


FULL = Form()
FORM: ContextVar[Form] = ContextVar("FORM", default=FULL)
"""The form of the current call's answer, in which sizes are measured."""
