"""The body of a legal request, as the OpenAI API defines it, with the server's additions where its profile allows them.

Normal clients send it as it is; a row of the catalogue of bad requests starts from it and changes one thing.
"""

from typing import Any

from analysis.plan import Target
from analysis.vocabulary import Endpoint

PATHS = {Endpoint.COMPLETIONS: "/v1/completions", Endpoint.CHAT: "/v1/chat/completions"}


def body(target: Target, endpoint: Endpoint, prompt: str, *, stream: bool, max_tokens: int, request_id: str) -> dict[str, Any]:
    """A greedy request for `max_tokens` tokens."""
    asked: dict[str, Any] = {"model": target.model}
    if endpoint is Endpoint.CHAT:
        asked["messages"] = [{"role": "user", "content": prompt}]
    else:
        asked["prompt"] = prompt
    asked |= {"max_tokens": max_tokens, "temperature": 0, "stream": stream}
    if target.ignore_eos:
        asked["ignore_eos"] = True
    if target.request_id_in_body:
        asked["request_id"] = request_id
    return asked
