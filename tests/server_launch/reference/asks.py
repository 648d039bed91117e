"""Requests that the tests of the HTTP side start from, and the answers that the stand-in engine gives them."""

import json
from typing import Any

from tests.server_launch.reference import standin
from tests.server_launch.reference.server import MODEL

GOOD: dict[str, Any] = {"prompt": "hello world", "max_tokens": 4}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
HELLO_IDS = standin.StandInTokenizer().encode("hello world")
COMPLETIONS, CHAT_PATH = "/v1/completions", "/v1/chat/completions"


def answer(prompt: str, count: int) -> list[str]:
    """The pieces of text that the stand-in gives for a prompt."""
    return [standin.text_of(token) for token in standin.answer(standin.StandInTokenizer().encode(prompt), count)]


def with_field(**fields: Any) -> bytes:
    """The body of the good completion with some fields set."""
    return json.dumps({"model": MODEL, **GOOD, **fields}).encode()
