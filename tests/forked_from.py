"""What the process of which `forked` makes copies has imported and made; pytest may be its main module."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

import pytest
from cyclopts.argument import _collection

import forked
import vector_memory
from vector_memory.cli import commands, flags
from vector_memory.server import app
from vector_memory.server.tools import offered
from vector_memory.settings import Toolset

__all__ = ["TOOLS", "app", "commands", "forked", "pytest"]

import_module("anyio._backends._asyncio")
for module in walk_packages(vector_memory.__path__, "vector_memory."):
    if not module.name.endswith((".__main__", ".sentence_transformers_engine")):  # whose library may be a test's own
        import_module(module.name)

_collection.extract_docstring_help = cache(_collection.extract_docstring_help)
for described in vars(flags).values():
    if isinstance(described, type):
        _collection.extract_docstring_help(described)

TOOLS = offered(tuple(Toolset))
