"""The OpenAI shapes of what goes back: chunks of a stream, and whole answers."""

import json
from typing import Any

from server_launch.reference.request import Endpoint, FinishReason, Request

DONE = "[DONE]"


def compact(value: Any) -> str:
    """JSON on one line; lone surrogates, which cannot be sent, stay escaped."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))


def role_chunk(request: Request) -> str:
    """The first event of a chat stream: who speaks."""
    return compact(_chunk(request, [_choice({"delta": {"role": "assistant", "content": ""}}, None)]))


def chunk(request: Request, text: str, finish: FinishReason | None = None) -> str:
    """Text, or with a finish reason the end, of a stream."""
    if request.call.endpoint is Endpoint.COMPLETIONS:
        body: dict[str, Any] = {"text": text}
    else:
        body = {"delta": {"content": text} if text or finish is None else {}}
    return compact(_chunk(request, [_choice(body, finish)]))


def usage_chunk(request: Request, usage: dict[str, int]) -> str:
    """The event that carries the token counts and no choice."""
    return compact({**_chunk(request, []), "usage": usage})


def whole(request: Request, text: str, finish: FinishReason | None, usage: dict[str, int]) -> dict[str, Any]:
    """The one JSON answer of a request that is not streamed."""
    chat = request.call.endpoint is Endpoint.CHAT
    body: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {**_head(request, "chat.completion" if chat else "text_completion"), "choices": [_choice(body, finish)], "usage": usage}


def _chunk(request: Request, choices: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "text_completion" if request.call.endpoint is Endpoint.COMPLETIONS else "chat.completion.chunk"
    return {**_head(request, kind), "choices": choices}


def _head(request: Request, kind: str) -> dict[str, Any]:
    return {"id": request.id, "object": kind, "created": request.created_unix_s, "model": request.model}


def _choice(body: dict[str, Any], finish: FinishReason | None) -> dict[str, Any]:
    return {"index": 0, **body, "logprobs": None, "finish_reason": finish}
