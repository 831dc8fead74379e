"""Plots for the documentation: how searching grows, and what a start waits for."""

from typing import Any

import matplotlib
from client import ROOT
from starting import EMPTY, OURS

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

SMALL, EVERYTHING = "session of about 2,500", "one kind, everything"
IMAGES = ROOT / "docs" / "images"
COLOURS = {
    "session of about 2,500": "#9ecae1",
    "session of about 50,000": "#6baed6",
    "one agent": "#2171b5",
    "one kind, everything": "#08306b",
    "original server": "#d95f0e",
    "vec0, no filter": "#fe9929",
    "numpy floor": "#737373",
}
SIZE = (11, 4.5)
DPI = 110


def draw(report: dict[str, Any]) -> None:
    """Draw what the report has figures for."""
    IMAGES.mkdir(exist_ok=True)
    if "search" in report:
        draw_search(report["search"])
    if "start" in report:
        draw_start(report["start"])


def draw_search(figures: dict[str, Any]) -> None:
    """Draw fine search by the number of passages: ours in each scope, and next to the others without a filter."""
    sizes = [int(size) for size in figures]
    figure, (scopes, beside) = plt.subplots(1, 2, figsize=SIZE, sharey=True, layout="constrained")

    def line(axes: Axes, scope: str, way: str, label: str) -> None:
        values = [each["searches"][scope][way]["p50"] for each in figures.values()]
        axes.loglog(sizes, values, "o-", color=COLOURS[label], label=label)

    for scope in next(iter(figures.values()))["searches"]:
        line(scopes, scope, "fine", scope)
    scopes.set_title("fine search by meaning and words")
    line(beside, SMALL, "original server", "original server")
    line(beside, EVERYTHING, "vec0, no filter", "vec0, no filter")
    line(beside, EVERYTHING, "numpy floor", "numpy floor")
    line(beside, SMALL, "fine", SMALL)
    line(beside, EVERYTHING, "fine", EVERYTHING)
    beside.set_title("compared with other approaches")
    for axes in (scopes, beside):
        axes.set_xlabel("passages in the file")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    scopes.set_ylabel("ms beyond embedding the query, p50")
    figure.savefig(IMAGES / "search.png", dpi=DPI)
    plt.close(figure)


def draw_start(figures: dict[str, Any]) -> None:
    """Draw the first answers of both servers."""
    figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
    ours, empty = figures[OURS], figures[EMPTY]
    bars = {
        "FastMCP: tools/list": (empty["tools/list answered"]["p50"], COLOURS["numpy floor"]),
        "vector-memory: tools/list": (ours["tools/list answered"]["p50"], COLOURS["one agent"]),
        "vector-memory: first search": (ours["first search answered"]["p50"], COLOURS[EVERYTHING]),
    }
    axes.barh(list(bars), [value for value, _ in bars.values()], color=[colour for _, colour in bars.values()])
    axes.invert_yaxis()
    axes.set_xlabel("ms from the start of the process, p50")
    figure.savefig(IMAGES / "start.png", dpi=DPI)
    plt.close(figure)
