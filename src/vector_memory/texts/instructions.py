"""Recognizes texts that speak to the model that reads them, as poisoned pages do. A list of phrases, and no model."""

import re

PHRASES = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,20}\b(?:previous|prior|earlier|above|all|your|any)\b[^.\n]{0,20}"
    r"\b(?:instructions?|prompts?|rules|guidelines|directives)\b"
    r"|\b(?:new|real|updated|hidden) (?:system )?instructions?(?: for (?:you|the (?:ai|assistant|agent|model)))?\s*:"
    r"|\byou are now (?:an?|the|in) \w+"
    r"|\b(?:ai|llm|language model|assistant|agent)s? (?:reading|processing|that reads?) this\b"
    r"|\b(?:do not|don't|never|without) (?:tell(?:ing)?|inform(?:ing)?|alert(?:ing)?|notify(?:ing)?|mention(?:ing)?)"
    r"[^.\n]{0,20}\b(?:the|your) user\b"
    r"|\b(?:reveal|print|repeat|output|leak)\b[^.\n]{0,20}\bsystem prompt\b"
    r"|<\s*/?\s*(?:system|system-reminder|instructions?|important)\s*>|\[/?INST\]|<\|im_(?:start|end)\|>"
    r"|^\s*(?:system|assistant)\s+(?:message|prompt|override)\s*:",
    re.IGNORECASE | re.MULTILINE,
)


def speaks_to_model(text: str) -> bool:
    """Return whether a text looks like instructions to the model that reads it. It may only quote some."""
    return PHRASES.search(text) is not None
