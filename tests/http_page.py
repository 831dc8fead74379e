"""The snippets of docs/http.md, for tests that try them."""

import re
from pathlib import Path

from markdown_it import MarkdownIt

PAGE = Path(__file__).parents[1] / "docs" / "http.md"
URL = "https://memory.example.com/mcp"
FOUND = "The cooling fan of rack 7 was replaced."
"""What the programs store, find and print."""


def snippet(language: str, words: str, url: str) -> str:
    """Return the only snippet in a language that contains these words, for the server at a URL."""
    tokens = MarkdownIt().parse(PAGE.read_text(encoding="utf-8"))
    (found,) = (token.content for token in tokens if token.info == language and re.search(words, token.content))
    return str(found.replace(URL, url))
