"""The terminal output in the docs equals that of a terminal.

A `console` block holds commands, after `$` and with a here-document up to END, each with what it prints: `...` stands
for any text within a line, and on a line of its own for any lines. The blocks of a page are run one after another in
one folder, which is empty at first.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"^\$ ([^\n]*<<'END'\n.*?^END|[^\n]*)\n(.*?)(?=^\$ |\Z)", re.MULTILINE | re.DOTALL)
SHOWN = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "```console" in page.read_text(encoding="utf-8")
]


def examples(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the commands of a page in order, each with what it is said to print."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence" and token.info == "console":
            yield from EXAMPLE.findall(token.content)


def pattern(output: str) -> str:
    """Return what the output that is shown matches."""
    lines = [
        ".*" if line == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", "[^\n]*") for line in output.splitlines()
    ]
    return "\n".join(lines).replace(".*\n", "(?:.*\n)?") + "\n?"


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_examples_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    """Each command of a page ends well and prints what the page says it prints."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "80",
        "TIKTOKEN_CACHE_DIR": "",
    }
    for command, output in examples(page):
        ran = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        shown = "\n".join(line.rstrip() for line in ran.stdout.splitlines())
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
        assert re.fullmatch(pattern(output), shown, re.DOTALL), f"$ {command}\n{shown}"
