"""The real server process, spoken to over standard input and output as clients do."""

import os
import sys
from pathlib import Path

import pytest

from clients import connected
from eras import ERAS
from servers import MAIN, QUICK
from tool_calls import ADDED_TOOLS
from tools.test_tool_contract import CONTRACT, examples


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)
async def test_every_tool_works_over_stdio(tmp_path: Path, era: str) -> None:
    """Every tool can be called in a real server process, in both eras, and answers what the contract says."""
    command = [sys.executable, str(MAIN), "serve", "--database-path", str(tmp_path / "memory.db")]
    async with connected(command, tmp_path, os.environ | QUICK, era=era) as client:
        assert {tool.name for tool in await client.list_tools()} == {*CONTRACT, *ADDED_TOOLS}
        for name, arguments in examples().items():
            answer = await client.call_tool(name, arguments)
            assert answer.structured_content["success"] is True, name
            assert set(answer.structured_content) >= set(CONTRACT[name]["result_keys"]), name
