"""What a token opens, tried with every tool, resource, prompt and completion that the server has."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from fastmcp import Client
from mcp import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from faults.soundness import connected
from over_http.conftest import ALL_TOOLS, Team
from tool_calls import REQUIRED
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.auth import permission_for
from vector_memory.extras.teams.registry import Registry
from vector_memory.server.resources import MEMORY, SESSION
from vector_memory.server.tools import TAGGED_NAMES, offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import DATABASE_NAME

pytestmark = pytest.mark.anyio

TOOLS = offered(ALL_TOOLS.chosen(), on_this_machine=False)

HIDDEN = "zebra"
"""In every text, title, tag, agent and task that the limited token and the other namespace must not see."""

IDS = range(1, 48)
VALUES: dict[str, tuple[object, ...]] = {
    "session_id": ("mine", "other"),
    "query": ("a text with stripes",),
    "memory_id": tuple(IDS),
    "chunk_id": tuple(IDS),
    "parent_report_id": (None, 1, 2),
    "dry_run": (True,),
    "order": ("recent", "relevance"),
    "search_mode": ("hybrid", "vector", "keyword"),
    "latest_first": (True,),
}
"""What the parameters of a tool are tried with; others that it needs get a good value."""


def calls_of(tool: MemoryTool) -> Iterator[dict[str, Any]]:
    """Yield calls of a tool, with and without each filter by session."""
    required = tool.parameters.get("required", ())
    varied = {name: VALUES[name] for name in tool.parameters["properties"] if name in VALUES}
    if "session_id" in varied and "session_id" not in required:
        varied["session_id"] = (*varied["session_id"], None)
    others = {name: REQUIRED.get(name, "x") for name in required if name not in varied}
    for values in itertools.product(*varied.values()):
        yield others | {name: value for name, value in zip(varied, values, strict=True) if value is not None}


async def fill(client: Client, session: str, word: str) -> None:
    """Store a memory with each tool that stores."""
    for tool in TOOLS:
        if not tool.name.startswith("store_"):
            continue
        known = tool.parameters["properties"]
        facts = {name: f"{word} {name}" for name in ("agent_id", "task_code", "title", "description") if name in known}
        facts |= {"content": f"# {word} heading\n\nA text with {word} stripes by {tool.name}."}
        facts |= {"session_id": session} if "session_id" in known else {}
        facts |= {"session_iter": "1"} if "session_iter" in known else {}
        facts |= {"tags": [word], "metadata": {"note": word}}
        await client.call_tool(tool.name, {name: value for name, value in facts.items() if name in known})


@pytest.fixture(scope="module")
def filled(team: Team) -> Team:
    """Red is about apples and blue about zebras; zoo has the session `mine` about apples, `other` about zebras."""

    async def fill_all() -> None:
        for namespace, session, word in (
            ("red", "mine", "apple"),
            ("blue", "mine", HIDDEN),
            ("zoo", "mine", "apple"),
            ("zoo", "other", HIDDEN),
        ):
            async with team.client(team.token(f"{namespace}.{session}", namespace)) as client:
                await fill(client, session, word)
        async with team.client(team.token("observer", "zoo")) as zoo:
            apple = await zoo.call_tool("search_reports_full_documents", {"session_id": "mine"})
            await zoo.call_tool(
                "store_report_observation",
                {
                    "agent_id": HIDDEN,
                    "session_id": "other",
                    "content": f"The {HIDDEN} disagrees.",
                    "parent_report_id": apple.structured_content["results"][0]["id"],
                },
            )

    anyio.run(fill_all)
    return team


@pytest.mark.parametrize("permission", list(Permission))
async def test_a_token_lists_and_calls_what_it_permits(team: Team, permission: Permission) -> None:
    async with team.client(team.token(f"some-{permission}", permission=permission)) as client:
        listed = {tool.name for tool in await client.list_tools()}
        assert listed == {tool.name for tool in TOOLS if permission_for(tool.name) in permission.included}
        for tool in TOOLS:
            answer = await client.call_tool(tool.name, next(calls_of(tool)), raise_on_error=False)
            assert (answer.structured_content["error"] == "AccessDenied") == (tool.name not in listed), tool.name


@pytest.mark.parametrize("permission", list(Permission))
async def test_a_token_that_only_reads_is_offered_no_prompt_that_stores(team: Team, permission: Permission) -> None:
    async with team.client(team.token(f"asks-{permission}", permission=permission)) as client:
        names = {prompt.name for prompt in await client.list_prompts()}
        assert ("continue_session" in names, "hand_over" in names) == (True, permission is not Permission.READ)
        if permission is Permission.READ:
            with pytest.raises(MCPError, match="needs a token with the scope write"):
                await client.get_prompt("start_session", {"session_id": "s", "task": "t"})


@pytest.mark.parametrize("limits", [{"namespace": "red"}, {"namespace": "zoo", "sessions": ("mine",)}], ids=len)
async def test_nothing_of_another_namespace_or_session_is_in_any_answer(filled: Team, limits: dict[str, Any]) -> None:
    async with filled.client(filled.token(f"limited-{len(limits)}", **limits)) as client:
        assert "sessions" not in limits or not TAGGED_NAMES & {tool.name for tool in await client.list_tools()}
        said = await everything(client)
    assert any("apple" in answer for answer in said)
    assert not [answer for answer in said if HIDDEN in answer]


@pytest.fixture(scope="module")
def alike(filled: Team) -> Team:
    """Quiet and busy have the same session `mine`; busy has another one, on the same subjects, which is in use."""
    for name in ("quiet", "busy"):
        Registry(filled.folder).create(name)

    async def fill_all() -> None:
        for namespace in ("quiet", "busy"):
            async with filled.client(filled.token(f"{namespace}.mine", namespace)) as client:
                await fill(client, "mine", "apple")
                found = await client.call_tool("search_reports_full_documents", {"session_id": "mine"})
                report = found.structured_content["results"][0]["id"]
                await observe(client, "mine", report, "An apple is no pear.")
        async with filled.client(filled.token("busy.other", "busy")) as client:
            await fill(client, "other", "apples")
            await fill(client, "another", "appel")
            for number in range(20):
                await observe(client, "other", report, f"Others have counted {number} apples.")
            for query in ("a text with stripes", "apples"):
                await client.call_tool("search_reports_full_documents", {"query": query, "session_id": "other"})
            gone = await client.call_tool("search_reports_full_documents", {"session_id": "another"})
            await client.call_tool("delete_memory", {"memory_id": gone.structured_content["results"][0]["id"]})

    anyio.run(fill_all)
    return filled


async def observe(client: Client, session: str, report: int, text: str) -> None:
    """Store an observation on a report."""
    said = {"agent_id": "a", "session_id": session, "content": text, "parent_report_id": report}
    await client.call_tool("store_report_observation", said)


async def test_every_answer_to_a_token_limited_to_a_session_is_the_same_if_there_are_no_other_sessions(
    alike: Team,
) -> None:
    said = {}
    for namespace in ("quiet", "busy"):
        async with alike.client(alike.token(f"{namespace}.only", namespace, sessions=("mine",))) as client:
            said[namespace] = [timeless(answer) for answer in [*await everything(client), *await refusals(client)]]
    assert any('"total_queries":' in answer and '"total_queries":0' not in answer for answer in said["busy"])
    assert said["busy"] == said["quiet"]


async def refusals(client: Client) -> list[str]:
    """Return the answers to all calls that would change something, but name memories or a session of others."""
    kinds = sum(tool.name.startswith("store_") for tool in TOOLS)
    # A memory of each kind, one that was deleted, one of many on the same report, and one that nobody ever had.
    foreign = (*range(kinds + 2, 2 * kinds + 2), 2 * kinds + 5, 3 * kinds + 2, IDS[-1])
    said = []
    for tool in TOOLS:
        if permission_for(tool.name) is Permission.READ:
            continue
        named = [
            name for name in ("memory_id", "parent_report_id", "supersedes") if name in tool.parameters["properties"]
        ]
        good = {name: REQUIRED[name] for name in tool.parameters.get("required", ()) if name in REQUIRED}
        calls = [{**good, "session_id": "other"}] if "session_id" in tool.parameters["properties"] else []
        for name, number in itertools.product(named, foreign):
            value = [number] if name == "supersedes" else number
            calls.append({**good, **({"session_id": "mine"} if "session_id" in good else {}), name: value})
        for arguments in calls:
            answer = await client.call_tool(tool.name, arguments, raise_on_error=False)
            assert answer.is_error, (tool.name, arguments)
            said.append(json.dumps(answer.structured_content))
    return said


def timeless(answer: str) -> str:
    """Return an answer without times, durations, and counts of reads, which are written in the background."""
    return re.sub(r'(?<="p\d\d_time":)[\d.e-]+|"access_count": ?\d+|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)', "_", answer)


async def test_a_token_limited_to_a_session_changes_nothing_in_another(filled: Team) -> None:
    async with filled.client(filled.token("sees-all", "zoo")) as admin:
        before = texts(filled, "zoo")
        async with filled.client(filled.token("limited", "zoo", sessions=("mine",))) as client:
            for tool in TOOLS:
                if permission_for(tool.name) is Permission.READ:
                    continue
                for arguments in calls_of(tool):
                    if arguments.get("session_id") == "mine" or (tool.name == "delete_memory"):
                        continue
                    answer = await client.call_tool(tool.name, arguments, raise_on_error=False)
                    assert answer.is_error, (tool.name, arguments)
            hidden = await admin.call_tool("search_reports_full_documents", {"session_id": "other"})
            for result in hidden.structured_content["results"]:
                answer = await client.call_tool("delete_memory", {"memory_id": result["id"]}, raise_on_error=False)
                assert "There is no memory" in answer.structured_content["message"]
    assert texts(filled, "zoo") == before


async def test_cursors_of_a_token_limited_to_a_session_tell_nothing_of_others_and_stay_valid(team: Team) -> None:
    secrets = {who: team.token(f"counts-{who}", "zoo", sessions=(who,)) for who in ("watched", "busy")}
    async with team.client(secrets["watched"]) as watched, team.client(secrets["busy"]) as busy:

        async def stored(client: Client, session: str, number: int) -> int:
            report = {"session_id": session, "agent_id": "a", "content": f"# Report {number}\n\nIt is new."}
            return int((await client.call_tool("store_report", report)).structured_content["memory_id"])

        async def changes(since: str) -> dict[str, Any]:
            found = await watched.call_tool("search_changes", {"session_id": "watched", "since": since})
            return dict(found.structured_content)

        assert (await changes("now"))["cursor"] == "0"
        first, second = [await stored(watched, "watched", number) for number in range(2)]
        cursor = (await changes("0"))["cursor"]
        assert cursor == str(second)
        for number in range(3):
            await stored(busy, "busy", number)
        assert (await changes("now"))["cursor"] == cursor
        await watched.call_tool("delete_memory", {"memory_id": second})
        after_deletion = await changes(cursor)
        assert (after_deletion["total_new"], after_deletion["cursor"]) == (0, str(first))
        last = await stored(watched, "watched", 2)
        found = await changes(after_deletion["cursor"])
        assert [one["id"] for one in found["results"]] == [last]


def texts(team: Team, namespace: str) -> list[tuple[int, str]]:
    """Return the ids and texts of all memories of a namespace."""
    with connected(team.folder / "namespaces" / namespace / DATABASE_NAME) as connection:
        return connection.execute("select id, content from session_memories order by id").fetchall()


async def everything(client: Client) -> list[str]:
    """Return the answers of all tools that read, and of all resources, prompts and completions."""
    said = []
    names = {tool.name for tool in await client.list_tools()}
    for tool in TOOLS:
        if tool.name in names and permission_for(tool.name) is Permission.READ:
            for arguments in calls_of(tool):
                answer = await client.call_tool(tool.name, arguments, raise_on_error=False)
                said.append(json.dumps(answer.structured_content))
    uris = [str(resource.uri) for resource in await client.list_resources()]
    uris += [f"memory://sessions/{name}" for name in ("mine", "other")] + [f"memory://memories/{n}" for n in IDS]
    said += [await text_or_error(client.read_resource(uri)) for uri in uris]
    for prompt in await client.list_prompts():
        for session in ("mine", "other"):
            values = {"session_id": session, "agent_id": "a", "task": "t", "topic": "t"}
            given = {one.name: values[one.name] for one in prompt.arguments or () if one.name in values}
            said.append(await text_or_error(client.get_prompt(prompt.name, given)))
    references = [ResourceTemplateReference(uri=uri) for uri in (SESSION, MEMORY)]
    references += [PromptReference(name=prompt.name) for prompt in await client.list_prompts()]
    for reference, name in itertools.product(references, ("session_id", "agent_id", "task_code")):
        said += (await client.complete(reference, {"name": name, "value": ""})).values
    return said


async def text_or_error(answer: Any) -> str:
    """Return an answer, or the message of its error, as text."""
    try:
        return str(await answer)
    except MCPError as error:
        return str(error)
