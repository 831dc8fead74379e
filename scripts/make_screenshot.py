"""Make docs/images/report.png and ui.png: `uv run --group browser python scripts/make_screenshot.py [MARKDOWN...]`.

Stores Markdown files, by default those of this project, as five agents could have done in two days, makes the report of
that session with the command that users have, and takes a picture of it with Chromium, and one of the page over the
live memory. --keep leaves the memory, the page and more pictures in a folder.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vector_memory.store import SessionMemoryStore
from vector_memory.writing import writer as saving

ROOT = Path(__file__).parents[1]
PICTURE, LIVE = (ROOT / "docs" / "images" / name for name in ("report.png", "ui.png"))
SHOWN = ROOT / "docs" / "images" / "shown.sha256"
"""Has the digest of what the pictures were made of: a test says when they are stale."""

SOURCES = ROOT / "src/vector_memory/extras/window/web"
SESSION = "read-the-docs"
WIDE = {"width": 1240, "height": 1010}
VIEWS = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
}
NOTED, REVIEWED = 0.35, 0.4
"""Which part of the reports an agent made a note for, and which the reviewer looked at."""

SETTLING = 500
"""Milliseconds after which nothing moves any more."""

PATIENCE = 300_000
"""Milliseconds: the doctor gives way to everything else."""

READERS = ("researcher-1", "researcher-2", "api-expert")


def main() -> None:
    """Make the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("markdown", nargs="*", type=Path, default=[ROOT / "docs", ROOT / "tests/data/markdown"])
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        database, page = folder / "memory.db", folder / "session.html"
        database.unlink(missing_ok=True)
        store_session(database, [file for place in arguments.markdown for file in sorted(place.rglob("*.md"))])
        command = [sys.executable, "-m", "vector_memory", "report", SESSION, "-o", page, "--overwrite"]
        subprocess.run([*command, "--database-path", database], check=True)
        take_pictures(page.as_uri(), folder)
        shutil.copy(folder / "light.png", PICTURE)
        with live_page(database) as link:
            take_pictures(link, folder, ".figures:not(:has-text('Checking'))")
        shutil.copy(folder / "light.png", LIVE)
        SHOWN.write_text(f"{digest()}\n")
    for picture in (PICTURE, LIVE):
        print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


def digest() -> str:
    """Return a digest of the files of the pages."""
    files = sorted(file for file in SOURCES.rglob("*") if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@contextmanager
def live_page(database: Path) -> Iterator[str]:
    """Serve the page over a memory, and yield a link to it that works once."""
    command = [sys.executable, "-m", "vector_memory", "ui", "--no-open", "--read-only"]
    command += ["--database-path", database.name]  # which the picture shows
    with subprocess.Popen(command, cwd=database.parent, stderr=subprocess.PIPE, text=True) as server:
        yield next(line.strip() for line in server.stderr or () if "http://" in line)
        server.terminate()


def store_session(database: Path, files: Sequence[Path]) -> None:
    """Store the files as reports of several agents, with what else agents write."""
    chance = random.Random(7)  # noqa: S311 - the picture is to be the same each time
    moments = working_hours(chance)
    saving.utc_now = lambda *_seconds: next(moments).isoformat(timespec="microseconds")  # type: ignore[attr-defined]
    with SessionMemoryStore(database) as store:

        def keep(kind: str, content: str, agent: str = "main-orchestrator", **more: object) -> int:
            receipt = store.store_memory(kind, content, agent_id=agent, session_id=SESSION, **more)  # type: ignore[arg-type]
            assert receipt.memory_id is not None
            return receipt.memory_id

        for number, file in enumerate(files):
            text = file.read_text(encoding="utf-8")
            place = {"session_iter": 1 + 3 * number // len(files), "task_code": f"read-{file.parent.name}"}
            title = next((line.strip("# ") for line in text.splitlines() if line.startswith("#")), file.stem)
            if number % 12 == 0:
                keep("input_prompt", f"Go on with file {number + 1}: what should I know about {title}?")
                keep("session_context", f"# State\n\n{number} of {len(files)} files are read. Next: {title}.", **place)
            reader = chance.choice(READERS)
            if chance.random() < NOTED:
                keep(
                    "working_memory",
                    f"Reading {file.name}: begins with *{title}*, {len(text):,} characters.",
                    reader,
                    **place,
                )
            report = keep("report", text, reader, title=title, tags=["docs", file.parent.name], **place)
            if chance.random() < REVIEWED:
                paragraph = next((part for part in text.split("\n\n")[1:] if len(part) > 120), text)  # noqa: PLR2004
                words = f"The report on {title} can be relied on. Its main point:\n\n> {paragraph}"
                keep("report_observation", words[:2000], "reviewer", parent_report_id=report, **place)


def working_hours(chance: random.Random) -> Iterator[datetime]:
    """Yield moments of two days, a few minutes from each other, with a night between."""
    moment = datetime(2026, 3, 14, 8, 41, tzinfo=UTC)
    while True:
        moment += timedelta(seconds=chance.expovariate(1 / 150))
        if moment.hour >= 18:  # noqa: PLR2004
            moment = moment.replace(hour=8, minute=12) + timedelta(days=1)
        yield moment


def take_pictures(address: str, folder: Path, ready: str = "body") -> None:
    """Take a picture of a page in every view, all with the cookies of the first, once there is what `ready` selects."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a test imports this script without a browser

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        known = None
        for name, options in VIEWS.items():
            context = browser.new_context(**options, storage_state=known)  # type: ignore[arg-type]
            shown = context.new_page()
            shown.set_default_timeout(PATIENCE)
            shown.goto(address)
            shown.locator(ready).wait_for()
            shown.wait_for_timeout(SETTLING)
            known = context.storage_state()
            shown.screenshot(path=folder / f"{name}.png")
            shown.screenshot(path=folder / f"{name}-all.png", full_page=True)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
