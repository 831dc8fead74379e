"""Draws what answers hold against what they cost a reader: `uv run --group benchmark benchmarks/public/plots.py`."""

import json

import matplotlib
from provenance import RESULTS, ROOT

matplotlib.use("agg")

from matplotlib import pyplot as plt

IMAGE = ROOT / "docs" / "images" / "answers.png"
TICKS = (200, 500, 1_000, 2_000, 5_000)


def main() -> None:
    """Draw any right text by tokens, and precision by all right texts; the answer with defaults is a star."""
    figure, (tokens, precision) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        if "served" not in result:
            continue
        default, *budgets = result["served"]["answers"].values()
        line = tokens.plot(
            [each["tokens"] for each in budgets], [each["any"] for each in budgets], "o-", label=path.stem
        )
        colour = line[0].get_color()
        tokens.plot(default["tokens"], default["any"], "*", color=colour, markersize=13)
        precision.plot([each["all"] for each in budgets], [each["precision"] for each in budgets], "o-", color=colour)
        precision.plot(default["all"], default["precision"], "*", color=colour, markersize=13)
    tokens.set(xscale="log", xlabel="tokens of an answer, median", ylabel="questions with a right text in the answer")
    precision.set(
        xlabel="questions with all right texts in the answer", ylabel="share of an answer's texts that are right"
    )
    tokens.set_xticks(TICKS, [f"{each:,}" for each in TICKS])
    tokens.minorticks_off()
    tokens.legend(fontsize=8)
    for axes in (tokens, precision):
        axes.grid(alpha=0.3)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
