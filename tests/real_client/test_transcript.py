"""A transcript shows what happened, shortened and in its order. Needs no client."""

import json

from real_client.transcript import transcript

FOUND = {"results": [{"memory_id": 7, "content": "# Fans\n\n" + "Broken. " * 100}]}
RECAP = {"hookSpecificOutput": {"additionalContext": "Last time: the fans."}}
EVENTS = [
    {"type": "typed", "text": "What broke?"},
    {"type": "system", "subtype": "hook_response", "hook_event": "UserPromptSubmit", "output": json.dumps(RECAP)},
    {"type": "system", "subtype": "init"},
    {
        "type": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "I will look."},
                {"type": "tool_use", "name": "mcp__memory__search", "input": {"query": "broken", "limit": 1}},
            ]
        },
    },
    {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "content": json.dumps(FOUND)}]},
    },
    {
        "type": "assistant",
        "parent_tool_use_id": "1",
        "message": {"content": [{"type": "text", "text": "A sub-agent's words."}]},
    },
    {"type": "result"},
]


def test_a_transcript_has_prompts_recaps_calls_answers_and_words_in_their_order() -> None:
    typed, recap, said, called, *others = transcript(EVENTS).split("\n\n")
    assert typed == "> What broke?"
    assert recap == "  + Last time: the fans."
    assert said == "● I will look."
    assert called.startswith('● search(query: "broken", limit: 1)\n  ⎿ [7] # Fans Broken. Broken.')
    assert called.endswith(" ...")
    assert others == ["    ● A sub-agent's words."]


def test_no_line_of_a_transcript_is_longer_than_a_hundred_characters() -> None:
    assert max(map(len, transcript(EVENTS).splitlines())) <= 100
