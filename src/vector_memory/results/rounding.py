"""Shortens values in results: an agent pays for every character of an answer."""

import re
from operator import not_
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

DECIMALS = 3

FRACTION = re.compile(r"\.\d+(?=$|Z$|[+-]\d\d:\d\d$)")


class Value(BaseModel):
    """Base of answers and their parts. Fields can also be read by key, as in the answers of tools."""

    # FastMCP would send null for NaN, which clients refuse where the schema names a number.
    model_config = ConfigDict(frozen=True, defer_build=True, allow_inf_nan=False)

    def __getitem__(self, key: str) -> Any:
        """Return the field of this name. Raises KeyError."""
        return vars(self)[key]


def to_second(time: str) -> str:
    """Return an ISO 8601 time without fractions of a second, with Z for UTC."""
    return FRACTION.sub("", time).replace("+00:00", "Z")


def to_thousandth(share: float) -> float:
    """Return a number with three decimals."""
    return round(share, DECIMALS)


def to_score(score: float) -> float:
    """Return a score cut to 0-1, with three decimals."""
    return to_thousandth(min(1.0, max(0.0, score)))


def says_nothing(value: object) -> bool:
    """Return whether a value is null or empty."""
    return value is None or value in ([], {})


Time = Annotated[str, AfterValidator(to_second)]
"""An ISO 8601 time in UTC, to the second."""

Share = Annotated[float, AfterValidator(to_thousandth)]
"""A number from 0 to 1, to three decimals."""


Score = Annotated[float, AfterValidator(to_score)]
"""What results are sorted by, 0 to 1."""


def unless_empty(default: object = None, description: str | None = None) -> Any:
    """Return a field that answers leave out while it is null or empty."""
    if default == []:  # pydantic would copy it, which takes longer than making another one
        schema: dict[str, Any] = {"default": []}
        return Field(default_factory=list, json_schema_extra=schema, description=description, exclude_if=not_)
    return Field(default=default, description=description, exclude_if=says_nothing)
