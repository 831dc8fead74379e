"""Measures how long something takes, and summarizes many times."""

import statistics
import time
from collections.abc import Callable, Sequence

Figures = dict[str, float]
"""By name: `p50`, `p95`, `max` in the unit of what was measured, `runs`, or anything else that is one number."""


Clock = Callable[[], float]
"""Seconds since some time."""


def timed(action: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return the milliseconds an action takes."""
    begin = clock()
    action()
    return (clock() - begin) * 1000


def summary(values: Sequence[float]) -> Figures:
    """Return the median, the 95th percentile and the maximum of some values."""
    ordered = sorted(values)
    return {
        "p50": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        "max": ordered[-1],
        "runs": len(ordered),
    }


def repeated(action: Callable[[int], float], *, runs: int, seconds: float) -> Figures:
    """Sum up what `action(number)` returns: up to `runs` times, fewer when the time is over, never under three times.

    The first time does not count: it fills caches that nothing is said about.
    """
    action(0)
    values: list[float] = []
    end = time.perf_counter() + seconds
    while len(values) < min(runs, 3) or (len(values) < runs and time.perf_counter() < end):
        values.append(action(len(values) + 1))
    return summary(values)
