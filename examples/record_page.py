"""Records the page over a memory while three agents write.

uv run --group browser examples/record_page.py [FILE]

The agents of three_agents.py fill an empty memory, each from a process of its own. The page is open all the time and is
never reloaded. FILE is an animated picture, by default page.webp.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

AGENTS = Path(__file__).with_name("three_agents.py")
SIZE = {"width": 1000, "height": 720}
SECONDS_BETWEEN_PICTURES = 0.3
SECONDS_TO_LOOK = 3.0
QUESTION = "which pool size was measured"


class Recorder:
    """Takes pictures of a page. A picture that equals the last one is shown for longer instead."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._pictures: list[bytes] = []
        self._milliseconds: list[int] = []

    def watch(self, is_over: Callable[[], bool]) -> None:
        """Take pictures until something is over, and for a moment after it."""
        end = None
        while end is None or time.monotonic() < end:
            self._take()
            if end is None and is_over():
                end = time.monotonic() + SECONDS_TO_LOOK

    def _take(self) -> None:
        began, picture = time.monotonic(), self._page.screenshot()
        self._page.wait_for_timeout(max(0, began + SECONDS_BETWEEN_PICTURES - time.monotonic()) * 1000)
        passed = round((time.monotonic() - began) * 1000)
        if self._pictures[-1:] == [picture]:
            self._milliseconds[-1] += passed
        else:
            self._pictures.append(picture)
            self._milliseconds.append(passed)

    def write(self, file: Path) -> None:
        """Write the pictures as one animated picture."""
        first, *others = [Image.open(io.BytesIO(picture)) for picture in self._pictures]
        first.save(file, save_all=True, append_images=others, duration=self._milliseconds, loop=0)
        print(f"{file}: {len(self._pictures)} pictures, {sum(self._milliseconds) / 1000:.0f} s")


def record(page: Page, database: Path) -> Recorder:
    """Watch Home and then the list while agents work, and ask at the end what they found out."""
    recorder = Recorder(page)
    recorder.watch(lambda: True)
    with subprocess.Popen([sys.executable, AGENTS, database], stdout=subprocess.DEVNULL) as agents:
        recorder.watch(page.locator(".session").first.is_visible)
        page.evaluate("location.hash = '#/memories'")
        recorder.watch(lambda: agents.poll() is not None)
    page.keyboard.press("/")
    page.locator("#question").press_sequentially(QUESTION, delay=40)
    recorder.watch(page.locator(".result").first.is_visible)
    return recorder


def main(file: Path) -> None:
    """Start the page over an empty memory, and record it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database = Path(folder, "memory.db")
        command = [sys.executable, "-m", "vector_memory", "ui", "--no-open", "--database-path", database]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                link = next(line.strip() for line in server.stderr or () if "http://" in line)
                chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport=SIZE)
                page.goto(link)
                page.locator("main h1").wait_for()
                record(page, database).write(file)
                browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "page.webp"))
