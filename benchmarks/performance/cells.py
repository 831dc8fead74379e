"""Tables and cells in Markdown."""

from collections.abc import Iterable, Sequence

TWO_DIGITS = 10


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(figures: dict[str, float] | None) -> str:
    """Return median and 95th percentile."""
    return f"{number(figures['p50'])} / {number(figures['p95'])}" if figures else ""


def number(value: float) -> str:
    """Return a number with three significant digits or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= TWO_DIGITS else f"{value:.2f}"  # noqa: PLR2004
