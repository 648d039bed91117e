"""What a request asks of the unseen server, read and refused in its own way."""

import json
from dataclasses import dataclass

from tests.fakes.http11 import Message


@dataclass(slots=True, kw_only=True)
class Refusal(Exception):
    """A request that is not served. `seen_by_engine` ones leave a trace."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    seen_by_engine: bool = False


@dataclass(slots=True, kw_only=True)
class Ask:
    """A valid request."""

    id: str
    chat: bool
    prompt: str
    prompt_tokens: int
    max_tokens: int
    stream: bool
    usage: bool
    stops: tuple[str, ...]


def parse(message: Message, model: str, number: int) -> Ask:
    """What the frontend lets through; `number` names a request that brings no id. Raises Refusal."""
    try:
        body = json.loads(message.body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(status=400, message=f"the body is not JSON: {str(error)[:80]}") from error
    if not isinstance(body, dict):
        raise Refusal(status=400, message="the body is not an object")
    if body.get("model", model) != model:
        raise Refusal(status=404, message=f"no model {str(body.get('model'))[:40]!r}", kind="not_found_error")
    chat = message.path.startswith("/v1/chat")
    prompt = _chat_prompt(body.get("messages")) if chat else _prompt(body.get("prompt"))
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise Refusal(status=400, message="half of a surrogate pair is no text")
    limit = body.get("max_tokens", body.get("max_completion_tokens", 16))
    stream = body.get("stream", False)
    stops = body.get("stop") or ()
    stops = (stops,) if isinstance(stops, str) else stops
    if type(limit) is not int or limit < 0 or limit >= 2**62:
        raise Refusal(status=400, message=f"max_tokens {str(limit)[:40]!r} is no count")
    if type(stream) is not bool:
        raise Refusal(status=400, message="stream is true or false")
    if not isinstance(stops, list | tuple) or not all(isinstance(stop, str) and stop for stop in stops):
        raise Refusal(status=400, message="stop is text, or a list of texts")
    for name in ("temperature", "top_p", "n", "logprobs"):
        if isinstance(body.get(name), str | list | dict):
            raise Refusal(status=400, message=f"{name} is a number")
    options = body.get("stream_options")
    raw_id = message.headers.get("x-request-id") or body.get("request_id") or f"own-{number}"
    return Ask(
        id=f"{'chatcmpl' if chat else 'cmpl'}-{raw_id}", chat=chat, prompt=prompt, prompt_tokens=len(prompt.split()) or 1,
        max_tokens=limit, stream=stream, usage=isinstance(options, dict) and bool(options.get("include_usage")), stops=tuple(stops),
    )  # fmt: skip


def admit(ask: Ask, message: Message, context: int) -> None:
    """What the scheduler refuses. Raises Refusal."""
    body = json.loads(message.body)
    wrong = [
        (not ask.prompt, "the prompt is empty"),
        (ask.prompt_tokens + ask.max_tokens > context, f"more than {context} tokens"),
        (body.get("temperature") not in (None, 0), "this server is greedy"),
        (body.get("top_p") not in (None, 1), "this server is greedy"),
        (body.get("n", 1) != 1, "one answer a request"),
        (bool(body.get("logprobs")), "no logprobs here"),
        (any(body.get(name) for name in ("lora_request", "echo", "logit_bias", "stop_token_ids", "response_format")), "not a feature"),
    ]
    for refused, why in wrong:
        if refused:
            raise Refusal(status=400, message=why, seen_by_engine=True)


def _prompt(prompt: object) -> str:
    if isinstance(prompt, list) and prompt and all(type(each) is int for each in prompt):
        if any(not 0 <= each < 32_000 for each in prompt):
            raise Refusal(status=400, message="no such token")
        return " ".join(map(str, prompt))
    if not isinstance(prompt, str):
        raise Refusal(status=400, message="prompt is text, or a list of token ids")
    return prompt


def _chat_prompt(messages: object) -> str:
    if not isinstance(messages, list) or not messages:
        raise Refusal(status=400, message="messages is a list of at least one")
    lines = []
    for message in messages:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            raise Refusal(status=400, message="a message has a role and content")
        lines.append(f"<{role}> {content}")
    return "\n".join(lines)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
