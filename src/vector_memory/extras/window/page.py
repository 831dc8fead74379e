"""The page as one file of HTML: of a live memory, or with a session in it.

It loads nothing but the answers of a live memory; that of a session opens without a server and a network.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

SCRIPTS = (
    *("vendor/preact-htm.js", "parts.js", "live.js", "charts.js", "memories.js", "memory.js"),
    *("home.js", "search.js", "review.js", "app.js"),
)
"""The parts of the page's script, in order."""

IN_SCRIPT = "<>&\u2028\u2029"
"""Characters that could end a script element, or a line of it in older browsers."""

EXPORTS = re.compile(r"export\{(.+)\};\s*")


def source(name: str) -> str:
    """Return one of the page's source files. What a library exports becomes the names of the one script."""
    text = files(__package__).joinpath("web", name).read_text(encoding="utf-8")
    return EXPORTS.sub(lambda found: f"const {','.join(names_in(found[1]))};", text)


def names_in(exported: str) -> list[str]:
    """Return the definitions of what is exported under a name of its own."""
    pairs = (pair.partition(" as ") for pair in exported.split(","))
    return [f"{name}={inner}" for inner, _, name in pairs if len(name) > 1]


def digest(text: str) -> str:
    """Return the hash by which a policy allows an inline element: the SHA-256 of its content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_data(data: Mapping[str, Any] | None) -> str:
    """Return data as JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in IN_SCRIPT:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


STYLE = source("style.css")
SCRIPT = "\n".join(map(source, SCRIPTS))
SIGN_IN = Template(source("sign_in.html"))

STYLED = f"default-src 'none'; style-src {digest(STYLE)}; img-src data:; base-uri 'none'"
OFFLINE_POLICY = f"{STYLED}; script-src {digest(SCRIPT)}; form-action 'none'"
"""The Content-Security-Policy of a session's page: this style and this script, and nothing else."""

LIVE_POLICY = f"{OFFLINE_POLICY}; connect-src 'self'"
SIGN_IN_POLICY = f"{STYLED}; form-action 'self'; frame-ancestors 'none'"


def page_html(session: Mapping[str, Any] | None = None) -> str:
    """Return the page. `session`: the data of the one that it shows; None: it shows a live memory."""
    return Template(source("index.html")).substitute(
        policy=OFFLINE_POLICY if session else LIVE_POLICY,
        title=escape(f"{session['session']} - Session report") if session else "Memory",
        style=STYLE,
        data=script_data(session),
        script=SCRIPT,
    )


def sign_in_html(said: str) -> str:
    """Return the form in which somebody enters a token."""
    return SIGN_IN.substitute(said=escape(said), style=STYLE)
