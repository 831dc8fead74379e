"""The program in JavaScript of docs/http.md, with the protocol's SDK for TypeScript."""

import os
import subprocess
from pathlib import Path

import pytest

from from_npm import folder, installed
from http_page import FOUND, snippet
from over_http.conftest import serving
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Registry
from vector_memory.settings import HttpOptions

pytestmark = pytest.mark.conformance


def test_the_program_in_javascript_stores_and_finds(tmp_path: Path) -> None:
    Registry(tmp_path).create("red")
    secret = Registry(tmp_path).tokens.create("typescript", "red", Permission.WRITE)
    (tmp_path / "node_modules").symlink_to(folder("conformance") / "node_modules")
    program = tmp_path / "program.mjs"
    with serving(HttpOptions(http=True, data_dir=tmp_path), tmp_path) as url:
        program.write_text(snippet("js", "sdk", url), encoding="utf-8")
        ended = subprocess.run(
            [installed("conformance", "node") or "node", program],
            env=os.environ | {"VECTOR_MEMORY_TOKEN": secret},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ended.returncode, FOUND in ended.stdout) == (0, True), ended.stderr
