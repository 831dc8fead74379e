"""Imports scripts and examples, which are in no package."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def imported(file: Path) -> Any:
    """Return a file as a module."""
    spec = spec_from_file_location(file.stem, file)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
