"""The page over the live memory, in a real Chromium: how long a person waits, and how smoothly a list scrolls.

uv run --group browser benchmarks/performance/live_page.py [--memories N ...] [--files DIR] [--runs N] [--docs]

The files are made by benchmarks/scale.py: each memory is a report of one passage. Times are medians in ms, from the
action of the user to what is drawn, on a machine that draws without a graphics processor. Of the searches while
somebody types, they are those of the requests, to which the page adds the pause in which it waits for the next
letter.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cells import number, table
from files import SCALE
from playwright.sync_api import Browser, Page, sync_playwright
from tables import write_block

MEMORIES = (1_000, 10_000, 100_000)
QUESTIONS = ("which service holds the lock", "how are backups restored", "why was a memory not found by its words")
KEYSTROKE = 180
"""Milliseconds between letters: every pause is long enough for a search."""

EXAMINED = "() => document.querySelector('.figures')?.innerText.includes('Checking') === false"
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
SEARCHES = """() => performance.getEntriesByType('resource')
  .filter(one => one.name.includes('api/search')).map(one => one.duration)"""
FRAMES = """() => new Promise(done => {
  const times = [], end = performance.now() + 3000;
  const step = now => {
    times.push(now);
    scrollBy({ top: 60, behavior: 'instant' });
    if (now < end) requestAnimationFrame(step); else done(times.slice(1).map((time, at) => time - times[at]));
  };
  requestAnimationFrame(step);
})"""
FILTERED = """at => new Promise(done => {
  const [select, began] = [document.getElementById('agent'), performance.now()];
  select.selectedIndex = at;
  select.dispatchEvent(new Event('input', { bubbles: true }));
  setTimeout(() => requestAnimationFrame(() => done(performance.now() - began)));
})"""
ROWS_ARE_THERE = """() => {
  const rows = [...document.querySelectorAll('.row')].filter(row => {
    const box = row.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  });
  return rows.length > 0 && rows.every(row => row.querySelector('.entry'));
}"""

Row = dict[str, float]


def make(path: Path, memories: int, cache: Path) -> None:
    """Create a file with this many memories of one passage."""
    documents = Path(__file__).parents[2] / "docs"
    options = ["--passages", str(memories), "--short", "--sessions", "--cache", str(cache)]
    subprocess.run([sys.executable, str(SCALE), str(path), str(documents), *options], check=True, capture_output=True)


@contextmanager
def served(path: Path) -> Iterator[str]:
    """Serve the page, and yield its link, which works once."""
    command = [sys.executable, "-m", "vector_memory", "ui", "--no-open", "--read-only", "--database-path", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield next(line.strip() for line in server.stderr or () if "http://" in line)
        finally:
            server.terminate()


def waited(act: Callable[[], object], until: Callable[[], object]) -> float:
    """Return the milliseconds from an action until something is there."""
    began = time.perf_counter()
    act()
    until()
    return (time.perf_counter() - began) * 1000


def measure(browser: Browser, path: Path, runs: int) -> Row:
    """Measure the page of a file."""
    with served(path) as link:
        page = browser.new_page(viewport={"width": 1240, "height": 900})
        page.set_default_timeout(300_000)
        doctor = waited(lambda: page.goto(link), lambda: page.wait_for_function(EXAMINED))
        home = link.partition("?")[0]
        figures = opened(page, home, runs) | {"the doctor's findings": doctor}
        figures |= listed(page, home, runs) | scrolled(page) | asked(page)
        charts = page.locator("#map .mark").first
        figures["timeline and map, up to 50,000"] = waited(lambda: page.goto(f"{home}api/report"), charts.wait_for)
        figures["another agent on them"] = statistics.median(filtered(page, runs))
        page.close()
    return figures


def opened(page: Page, home: str, runs: int) -> Row:
    """Measure opening Home."""
    whole, paints = [], []
    for _ in range(runs):
        whole.append(waited(lambda: page.goto(home), page.locator(".figures").wait_for))
        paints.append(page.evaluate(FIRST_PAINT))
    return {"first paint": statistics.median(paints), "Home is complete": statistics.median(whole)}


def listed(page: Page, home: str, runs: int) -> Row:
    """Measure the list, and filters of it."""
    addresses = {
        "list": "#/memories",
        "filter by agent": "#/memories?agent=agent%203",
        "filter by part of the text": "#/memories?text=checkpoint",
        "filter by a text that is nowhere": "#/memories?text=zzzz",
    }
    found: Row = {}
    for name, address in addresses.items():
        times = []
        for _ in range(runs):
            page.goto(f"{home}#/review")
            page.locator("main h1", has_text="Review").wait_for()
            there = page.locator(".nothing" if "zzzz" in address else ".entry").first
            times.append(waited(lambda to=address: page.evaluate("to => { location.hash = to }", to), there.wait_for))
        found[name] = statistics.median(times)
    return found


def scrolled(page: Page) -> Row:
    """Measure scrolling through the list, a row and a half in each frame, and a jump to its end."""
    page.evaluate("location.hash = '#/memories'")
    page.wait_for_function(ROWS_ARE_THERE)
    frames = sorted(page.evaluate(FRAMES))
    jump = waited(
        lambda: page.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })"),
        lambda: page.wait_for_function(ROWS_ARE_THERE),
    )
    named = {"p50": frames[len(frames) // 2], "p95": frames[len(frames) * 95 // 100], "longest": frames[-1]}
    return {f"frame while scrolling, {name}": value for name, value in named.items()} | {"jump to the end": jump}


def asked(page: Page) -> Row:
    """Measure searches while somebody types."""
    page.evaluate("location.hash = '#/search'")
    page.locator("#question").wait_for()
    page.evaluate("performance.clearResourceTimings(), performance.setResourceTimingBufferSize(2000)")
    for question in QUESTIONS:
        page.fill("#question", "")
        page.locator("#question").press_sequentially(question, delay=KEYSTROKE)
        page.locator(".result").first.wait_for()
    times = sorted(page.evaluate(SEARCHES))
    return {
        "search while typing, p50": times[len(times) // 2],
        "search while typing, p95": times[len(times) * 95 // 100],
    }


def filtered(page: Page, runs: int) -> Iterator[float]:
    """Yield how long the charts take for another filter."""
    for run in range(runs):
        yield page.evaluate(FILTERED, 1 + run % 5)


def rows(figures: dict[int, Row]) -> str:
    """Return the table of all files."""
    names = next(iter(figures.values()))
    head = ["ms", *(f"{memories:,} memories" for memories in figures)]
    return table(head, [[name, *(number(row[name]) for row in figures.values())] for name in names])


def main() -> None:
    """Measure the page with each number of memories, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, nargs="+", default=MEMORIES)
    parser.add_argument("--files", type=Path, help="folder in which the files are kept")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--docs", action="store_true", help="write docs/lab/performance.md")
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        place = options.files or Path(scratch)
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for memories in options.memories:
            path = place / f"page-{memories}.db"
            if not path.exists():
                make(path, memories, place / "documents")
            figures[memories] = measure(browser, path, options.runs)
        browser.close()
    made = f"Load before: {os.getloadavg()[0]:.1f}.\n\n{rows(figures)}"
    print(made)
    if options.docs:
        write_block(made, "page")


if __name__ == "__main__":
    main()
