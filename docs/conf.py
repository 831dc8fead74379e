"""The documentation site: `uv run --group docs sphinx-build --fail-on-warning docs build/site`."""

import re
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
extensions = ["myst_parser"]
nitpicky = True

# Anchors as GitHub makes them: the same link works in the repository and on the site.
myst_heading_anchors = 4

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False


class RepositoryLinks(SphinxTransform):
    """Points links to files outside docs/ to the repository, because the site does not hold them."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Replace the references that MyST made of such links; warn of a file that does not exist."""
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for reference in list(self.document.findall(lambda node: isinstance(node, download_reference | pending_xref))):
            path = (folder / reference["reftarget"].partition("#")[0]).resolve()
            if path.is_relative_to(ROOT / "docs"):
                continue
            file = next((file for file in (path, path.parent / f"{path.name}.md") if file.exists()), None)
            if file is None:
                logging.getLogger(__name__).warning("no such file: %s", reference["reftarget"], location=reference)
                continue
            anchor = f"#{reference['reftargetid']}" if reference.get("reftargetid") else ""
            address = f"{PROJECT['urls']['Repository']}/blob/main/{file.relative_to(ROOT).as_posix()}{anchor}"
            reference.replace_self(nodes.reference("", "", *reference.children, refuri=address))


def add_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    """Make the site's navigation from index.md: a caption of each of its sections, an entry of each link in it."""
    if page != "index":
        return
    for section in source[0].split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        pages = re.findall(r"^\| \**\[[^\]]*\]\(([\w/-]+)\.md\)", text, re.MULTILINE)
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Register both."""
    app.add_transform(RepositoryLinks)
    app.connect("source-read", add_navigation)
