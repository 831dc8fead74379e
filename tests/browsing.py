"""Debian's Chromium, without a window, driven by Playwright: what the tests of the page and of the report share."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from from_npm import folder

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: uv run --group browser pytest")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or set CHROMIUM"
)

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
AXE = folder("ui") / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: uv run python tests/from_npm.py ui")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def violations(page: Any) -> list[dict[str, Any]]:
    """Return what axe finds on a page that lets it run."""
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    return list(page.evaluate("axe.run().then(found => found.violations)"))
