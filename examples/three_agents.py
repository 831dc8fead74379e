"""Three agents and their orchestrator share one memory: `uv run examples/three_agents.py`.

Each has its own server process on the same file, and all of them work at the same time. They never talk to each other:
an agent hands work over by storing it, and the next agent finds it with `search_changes`. With real agents a model
writes the sentences below; the calls are the same.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

SESSION, ITERATION, TASK = "slow-checkout", 1, "latency"
HERE = {"session_id": SESSION, "session_iter": ITERATION}

ORCHESTRATOR = "main-orchestrator"
"""The agent id of session contexts and prompts."""

SECONDS_BETWEEN_CALLS = 0.2

PROMPT = "The checkout has been slow since Monday. Find out why, and write a page for the on-call team."
GOAL = """\
Goal: explain why the checkout has been slow since Monday, in a page for the on-call team.
Next: researcher finds the cause; writer writes the page; reviewer checks it against the findings."""
FINDINGS = """\
# Why the checkout is slow

The checkout waits for the price service: p95 rose from 180 ms to 2.4 s on Monday at 09:10.

## Cause

Release 4.2 of the price service opens a new database connection for each line of the cart. That release changed the
default of `PRICE_POOL_SIZE` to 0, which switches the connection pool off.

## Evidence

With `PRICE_POOL_SIZE=20` on one of three instances its p95 is 190 ms, the others stay at 2.4 s (dashboard checkout-7).
"""
PAGE = """\
# Slow checkout: what to do

If the p95 of the checkout is above 1 s, look at the price service.

## Check

`kubectl exec price-0 -- printenv PRICE_POOL_SIZE` prints 0 or nothing: the connection pool is off.

## Repair

Set `PRICE_POOL_SIZE=10` and restart. The p95 falls below 200 ms within five minutes.
"""
CORRECTION = "The page says PRICE_POOL_SIZE=10, but only 20 was measured (190 ms on one instance): write 20."
DONE = """\
Done: cause found, page written and reviewed. Open: the page says PRICE_POOL_SIZE=10, the measured value is 20.
Next: writer corrects the page."""


class Agent:
    """An agent: its name, its own connection to the memory, and what it has read from the others."""

    def __init__(self, name: str, client: Client[StdioTransport]) -> None:
        self.name = name
        self._client = client
        self._cursor: str | None = None
        self._read: list[dict[str, Any]] = []

    def say(self, words: str) -> None:
        """Print a line of the transcript."""
        print(f"{self.name:>17} | {words}", flush=True)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer. A failure raises ToolError, whose text says what to do."""
        return dict((await self._client.call_tool(tool, arguments)).structured_content or {})

    async def store(self, tool: str, content: str, **more: Any) -> int:
        """Store something and return its id."""
        receipt = await self.call(tool, **HERE, task_code=TASK, content=content, **more)
        self.say(receipt["message"])
        return int(receipt["memory_id"])

    async def catch_up(self) -> None:
        """Read what others stored since the last call. Each memory is returned once."""
        answer = await self.call(
            "search_changes", session_id=SESSION, since=self._cursor, own_agent_id=self.name, task_code=TASK
        )
        self._cursor = answer["cursor"]
        for memory in answer["results"]:
            self.say(f"sees {memory['memory_type']} {memory['id']} by {memory['agent_id']}: {first_line(memory)}")
        self._read += answer["results"]

    async def wait_for(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Catch up until the wanted memory is stored, and return it."""
        while not (found := [memory for memory in self._read if is_wanted(memory)]):
            await asyncio.sleep(SECONDS_BETWEEN_CALLS)
            await self.catch_up()
        return found[0]

    async def ask(self, question: str) -> None:
        """Look up a fact in the session's reports."""
        found = await self.call("search_reports_specific_chunks", query=question, session_id=SESSION, limit=1)
        best = found["results"][0]
        self.say(f"asks: {question} -> {best['header_path']} (report {best['memory_id']} by {best['agent_id']})")


def first_line(memory: dict[str, Any]) -> str:
    """Return a memory's title, or its first line."""
    return str(memory.get("title") or memory["content"].splitlines()[0])


def by(agent: str, kind: str) -> Callable[[dict[str, Any]], bool]:
    """Return a test for memories of that kind by that agent."""
    return lambda memory: (memory["agent_id"], memory["memory_type"]) == (agent, kind)


async def orchestrate(agent: Agent) -> None:
    """Set the goal, wait for the review, and store the state of the work."""
    await agent.store("store_input_prompt", PROMPT)
    await agent.store("store_session_context", GOAL)
    await agent.wait_for(by("reviewer", "report_observation"))
    await agent.store("store_session_context", DONE)
    counts = await agent.call("get_session_stats", session_id=SESSION)
    agent.say(f"{counts['total_memories']} memories by {', '.join(counts['agent_counts'])}")


async def research(agent: Agent) -> None:
    """Wait for the goal, read the session's state, store findings."""
    await agent.wait_for(by(ORCHESTRATOR, "session_context"))
    context = await agent.call("load_session_context_for_task", **HERE)
    agent.say(f"loads the task: {len(context['input_prompts'])} prompt, {first_line(context['session_context'])}")
    await agent.store("store_report", FINDINGS, agent_id=agent.name)


async def write(agent: Agent) -> None:
    """Wait for the findings, look up a detail, store the page."""
    await agent.wait_for(by("researcher", "report"))
    await agent.ask("Which setting switches the connection pool off?")
    await agent.store("store_report", PAGE, agent_id=agent.name)


async def review(agent: Agent) -> None:
    """Wait for the page, compare it with the findings, store a correction."""
    page = await agent.wait_for(by("writer", "report"))
    await agent.ask("Which PRICE_POOL_SIZE was measured, with what p95?")
    await agent.store("store_report_observation", CORRECTION, agent_id=agent.name, parent_report_id=page["id"])


@asynccontextmanager
async def connected(name: str, database: Path) -> AsyncIterator[Agent]:
    """Start a server process on the file, and yield the agent that uses it."""
    arguments = ["-m", "vector_memory", "serve", "--database-path", str(database)]
    transport = StdioTransport(sys.executable, arguments, env=dict(os.environ), keep_alive=False)
    async with Client(transport) as client:
        yield Agent(name, client)


async def work(name: str, task: Callable[[Agent], Any], database: Path) -> None:
    """Run one agent."""
    async with connected(name, database) as agent:
        await task(agent)


async def main(database: Path) -> None:
    """Run all agents at the same time."""
    async with asyncio.TaskGroup() as group:
        for name, task in (
            (ORCHESTRATOR, orchestrate),
            ("researcher", research),
            ("writer", write),
            ("reviewer", review),
        ):
            group.create_task(work(name, task, database))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(Path(folder, "memory.db")))
