"""What the process of which `forked` makes copies has imported and made; pytest may be its main module."""

import pytest

import forked
from vector_memory.cli import commands
from vector_memory.server import app
from vector_memory.server.tools import offered
from vector_memory.settings import Toolset

__all__ = ["TOOLS", "app", "commands", "forked", "pytest"]

TOOLS = offered(tuple(Toolset))
