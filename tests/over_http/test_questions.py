"""Questions to the user over HTTP: the answer counts for whom and what was asked, at any worker, for ten minutes."""

import itertools
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import Context
from mcp.server import request_state
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from over_http.calling import called, message_of, send
from over_http.conftest import Team, serving
from servers import ENVELOPE, LEGACY
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams import serving as serving_module
from vector_memory.extras.teams.registry import Registry
from vector_memory.server.app import create_server
from vector_memory.settings import HttpOptions

NAMES = map("asked-{}".format, itertools.count())
ASKABLE = ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


class Question:
    """A deletion that waits for the user's answer."""

    def __init__(self, url: str, secret: str) -> None:
        self.url, self.secret = url, secret
        content = f"# To delete\n\nReport {time.time_ns()}."
        self.memory_id = called(url, secret, "store_report", agent_id="a", session_id="asked", content=content)[
            "memory_id"
        ]
        self.state = self.ask(secret)["result"]["requestState"]

    @classmethod
    def of(cls, team: Team, namespace: str = "red") -> "Question":
        """Return a question to the owner of a new token."""
        return cls(team.url, team.token(next(NAMES), namespace))

    def ask(self, secret: str, tool: str = "delete_memory", **answer: Any) -> dict[str, Any]:
        arguments = answer.pop("arguments", {"memory_id": self.memory_id})
        params = {"name": tool, "arguments": arguments, "_meta": ASKABLE, **answer}
        return message_of(send(self.url, secret, "tools/call", params))

    def agree(self, secret: str, state: str, **changes: Any) -> dict[str, Any]:
        """Answer the question in the user's name."""
        agreed = {"confirmation": {"action": "accept", "content": {"confirm": True}}}
        return self.ask(secret, inputResponses=agreed, requestState=state, **changes)

    def is_there(self) -> bool:
        return bool(called(self.url, self.secret, "get_memory_by_id", memory_id=self.memory_id)["success"])


INVALID = {"code": -32602, "message": "Invalid or expired requestState"}


def error_of(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer["error"][name] for name in ("code", "message")}


def test_the_answer_to_a_question_counts_only_for_whom_and_what_was_asked(team: Team) -> None:
    question, other = Question.of(team), Question.of(team)
    for namespace in ("red", "blue"):
        assert error_of(question.agree(team.token(next(NAMES), namespace), question.state)) == INVALID
    assert error_of(question.agree(question.secret, other.state)) == INVALID
    assert (
        error_of(question.agree(question.secret, question.state, arguments={"memory_id": other.memory_id})) == INVALID
    )
    assert question.is_there()
    assert other.is_there()
    assert question.agree(question.secret, question.state)["result"]["structuredContent"]["success"]
    assert not question.is_there()


def test_an_answer_does_not_count_in_another_namespace_that_the_token_opens_later(team: Team) -> None:
    question, other = Question.of(team), Question.of(team, "blue")
    name = team.tokens.find(question.secret).name  # type: ignore[union-attr]
    team.tokens.revoke(name)
    moved = team.token(name, "blue")
    assert error_of(question.agree(moved, question.state, arguments={"memory_id": question.memory_id})) == INVALID
    assert other.is_there()


def test_the_rounds_of_one_call_go_on_at_any_worker_and_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = ElicitRequest(
        params=ElicitRequestFormParams(message="And now?", requested_schema={"type": "object", "properties": {}})
    )

    async def ask_twice(context: Context) -> str | InputRequiredResult:
        """Ask twice."""
        round_of_state = {None: "first", "first": "second"}.get(context.request_state)
        if round_of_state is None:
            return "Done."
        return InputRequiredResult(input_requests={round_of_state: form}, request_state=round_of_state)

    def with_tool(*arguments: Any, **options: Any) -> Any:
        server = create_server(*arguments, **options)
        server.tool(ask_twice)
        return server

    monkeypatch.setattr(serving_module, "create_server", with_tool)
    Registry(tmp_path).create("red")
    secrets = [Registry(tmp_path).tokens.create(name, "red", Permission.READ) for name in ("asked", "stranger")]
    options = HttpOptions(http=True, data_dir=tmp_path)
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(options, tmp_path)) for _ in range(2)]

        def call(worker: int, secret: str, state: str | None = None) -> dict[str, Any]:
            said = {} if state is None else {"requestState": state, "inputResponses": {}}
            params = {"name": "ask_twice", "arguments": {}, "_meta": ASKABLE, **said}
            return message_of(send(urls[worker], secret, "tools/call", params))

        asked, stranger = secrets
        first = call(0, asked)["result"]["requestState"]
        assert error_of(call(1, stranger, first)) == INVALID
        second = call(1, asked, first)["result"]["requestState"]
        assert error_of(call(0, stranger, second)) == INVALID
        assert call(0, asked, second)["result"]["content"][0]["text"] == "Done."


@pytest.mark.parametrize(
    "change", [lambda s: s + "A", lambda s: s[:-1], lambda s: s[:-4] + s[-4:][::-1], lambda _: "asked"]
)
def test_an_answer_whose_state_was_changed_is_refused(team: Team, change: Any) -> None:
    question = Question.of(team)
    assert error_of(question.agree(question.secret, change(question.state))) == INVALID
    assert question.is_there()


def test_an_answer_without_state_is_asked_for_again(team: Team) -> None:
    question = Question.of(team)
    agreed = {"confirmation": {"action": "accept", "content": {"confirm": True}}}
    assert question.ask(question.secret, inputResponses=agreed)["result"]["resultType"] == "input_required"
    assert question.is_there()


def test_an_answer_that_comes_too_late_is_refused(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question.of(team)
    later = SimpleNamespace(time=lambda: time.time() + 601)
    with monkeypatch.context() as patch:
        patch.setattr(request_state, "time", later)
        assert error_of(question.agree(question.secret, question.state)) == INVALID
    assert question.is_there()


def test_a_call_with_an_odd_token_for_progress_is_answered(team: Team) -> None:
    secret = team.token("odd")
    for envelope, token in itertools.product(({}, ENVELOPE), (1.5, None, {})):
        params = {"name": "list_sessions", "arguments": {}, "_meta": {**envelope, "progressToken": token}}
        version = {} if envelope else {"MCP-Protocol-Version": LEGACY}
        answered = message_of(send(team.url, secret, "tools/call", params, **version))
        assert answered["result"]["structuredContent"]["success"]
