"""The body of a normal request, as the OpenAI API defines it, with the server's additions where its profile allows them."""

import json
from typing import Any

from analysis.plan import Target
from analysis.vocabulary import Endpoint

PATHS = {Endpoint.COMPLETIONS: "/v1/completions", Endpoint.CHAT: "/v1/chat/completions"}


def normal(target: Target, endpoint: Endpoint, prompt: str, *, stream: bool, max_tokens: int, request_id: str) -> dict[str, Any]:
    """A greedy request for `max_tokens` tokens; a stream asks for usage."""
    body: dict[str, Any] = {"model": target.model}
    if endpoint is Endpoint.CHAT:
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    body |= {"max_tokens": max_tokens, "temperature": 0, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    if target.ignore_eos:
        body["ignore_eos"] = True
    if target.request_id_in_body:
        body["request_id"] = request_id
    return body


def encode(body: dict[str, Any]) -> bytes:
    """JSON of a body."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8")
