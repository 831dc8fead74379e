"""Builds the page from the files next to this module and from data. The page loads nothing from the network."""

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

SCRIPTS = ("model.js", "charts.js", "documents.js", "main.js")
"""The parts of the page's script, in order."""

IN_SCRIPT = "<>&\u2028\u2029"
"""Characters that could end a script element, or a line of it in older browsers."""


def build_page(data: Mapping[str, Any]) -> str:
    """Return the page that shows `data`, as returned by `session_report.page_data`."""
    style = source("style.css")
    script = "\n".join(source(name) for name in SCRIPTS)
    return Template(source("page.html")).substitute(
        policy=policy(style, script),
        session=escape(data["session"]),
        written=datetime.fromtimestamp(data["written"] / 1000, UTC).strftime("%d %B %Y, %H:%M UTC"),
        style=style,
        data=script_data(data),
        script=script,
    )


def source(name: str) -> str:
    """Return one of the page's source files."""
    return files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: this style and this script, and nothing else."""
    return (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    """Return the hash by which a policy allows an inline element: the SHA-256 of its content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_data(data: Mapping[str, Any]) -> str:
    """Return data as JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in IN_SCRIPT:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
