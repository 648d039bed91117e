"""From the bytes of a request body to a `Call`, or to the 4xx that says which field is wrong.

Strict on purpose: a value of the wrong type is refused rather than converted, a field that is unknown or that this server
cannot honour is refused rather than ignored.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from server_launch.reference.errors import ApiError
from server_launch.reference.request import Call, Endpoint

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default for completions; chat goes on to the end of the context."""
STOP_LIMIT = 16
ID_LIMIT_CHARS = 512
_INT64 = 2**63


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("value_error", "{reason}", {"reason": message})


def _prompt(value: Any) -> str | tuple[int, ...]:
    """One prompt: text, or token ids, alone or as the only element of a list."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(item) is int for item in value):
        return tuple(value)
    if isinstance(value, list) and all(isinstance(item, str | list) for item in value):
        raise _wrong("one prompt a request: send several requests instead")
    raise _wrong("must be a string, a list with one string, or a list of token ids")


def _stops(value: Any) -> tuple[str, ...]:
    """No, one, or several stop strings."""
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise _wrong("must be a string or a list of strings")
    if len(stops) > STOP_LIMIT or not all(stops):
        raise _wrong(f"at most {STOP_LIMIT} stop strings, none of them empty")
    return tuple(stops)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class StreamOptions(_Strict):
    include_usage: bool = False


Seed = Annotated[int, Field(ge=-_INT64, lt=_INT64)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class _Body(_Strict):
    """What both endpoints take. A field that only has a neutral value here is listed in `_NEUTRAL`."""

    model: str
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: Annotated[tuple[str, ...], BeforeValidator(_stops)] = ()
    ignore_eos: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=_INT64)] | None = None
    seed: Seed | None = None
    user: str | None = None
    request_id: Annotated[str, Field(min_length=1, max_length=ID_LIMIT_CHARS)] | None = None
    lora_adapter: str | None = None
    lora_request: dict[str, Any] | None = None

    n: Annotated[int, Field(ge=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None
    logit_bias: dict[str, float] | None = None
    response_format: dict[str, Any] | None = None


class CompletionBody(_Body):
    prompt: Annotated[str | tuple[int, ...], BeforeValidator(_prompt)]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None
    echo: bool | None = None
    suffix: str | None = None


class TextPart(_Strict):
    type: Literal["text"]
    text: str


class Message(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(_Body):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None


_NEUTRAL: dict[str, Any] = {
    "n": 1,
    "best_of": 1,
    "echo": False,
    "suffix": None,
    "min_p": 0,
    "min_tokens": 0,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "logit_bias": {},
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "none",
}
"""Fields whose other values would change the answer in a way that this server cannot do."""


def read_json(raw: bytes) -> dict[str, Any]:
    """The object of a body. Raises ApiError 400 for anything but one UTF-8 JSON object with unique keys and no NaN."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise ApiError(400, f"the body is not valid Unicode text: {error.reason if hasattr(error, 'reason') else error}") from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ApiError(400, "the body must be a JSON object")
    return value


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def validate(endpoint: Endpoint, body: dict[str, Any], *, model: str) -> tuple[Call, list[tuple[str, str]]]:
    """The call of a parsed body, and for chat its (role, content) messages, still to be rendered into the prompt.

    Raises ApiError: 400 with the field at fault, 404 for a model that is not served.
    """
    try:
        parsed = ChatBody.model_validate(body) if endpoint is Endpoint.CHAT else CompletionBody.model_validate(body)
    except ValidationError as error:
        raise _refusal(error) from None
    _refuse_unsupported(parsed)
    if parsed.model != model:
        text = f"the model {parsed.model[:100]!r} does not exist: this server serves {model!r}"
        raise ApiError(404, text, param="model", code="model_not_found")
    if isinstance(parsed, ChatBody):
        return _chat_call(parsed), [(message.role, message.text()) for message in parsed.messages]
    return _completion_call(parsed), []


def _refusal(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ".".join(str(part)[:100] for part in first["loc"]) or None
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"unknown field {param!r}", param=param, code="unknown_field")
    return ApiError(400, f"{param or 'body'}: {first['msg']}", param=param)


def _refuse_unsupported(parsed: _Body) -> None:
    for name, neutral in _NEUTRAL.items():
        value = getattr(parsed, name, None)
        if value is not None and value != neutral:
            only = f": leave it out or send {json.dumps(neutral)}" if neutral is not None else ""
            raise ApiError(400, f"{name} is not supported by this server{only}", param=name, code="unsupported_parameter")
    if parsed.stream_options is not None and not parsed.stream:
        raise ApiError(400, "stream_options is only allowed with stream", param="stream_options")


def _completion_call(parsed: CompletionBody) -> Call:
    max_tokens = COMPLETION_MAX_TOKENS if parsed.max_tokens is None else parsed.max_tokens
    return _call(parsed, Endpoint.COMPLETIONS, parsed.prompt, max_tokens, parsed.logprobs or 0)


def _chat_call(parsed: ChatBody) -> Call:
    asked = {value for value in (parsed.max_tokens, parsed.max_completion_tokens) if value is not None}
    if len(asked) > 1:
        raise ApiError(400, "max_tokens and max_completion_tokens differ: send one of them", param="max_completion_tokens")
    if parsed.top_logprobs and not parsed.logprobs:
        raise ApiError(400, "top_logprobs is only allowed with logprobs", param="top_logprobs")
    return _call(parsed, Endpoint.CHAT, "", asked.pop() if asked else None, 1 if parsed.logprobs else 0)


def _call(parsed: _Body, endpoint: Endpoint, prompt: str | tuple[int, ...], max_tokens: int | None, logprobs: int) -> Call:
    return Call(
        endpoint=endpoint,
        prompt=prompt,
        max_tokens=max_tokens,
        stream=bool(parsed.stream),
        include_usage=parsed.stream_options is not None and parsed.stream_options.include_usage,
        stops=parsed.stop,
        ignore_eos=bool(parsed.ignore_eos),
        temperature=parsed.temperature or 0.0,
        logprobs=logprobs,
        adapter=parsed.lora_adapter if parsed.lora_request is None else json.dumps(parsed.lora_request)[:100],
        request_id=parsed.request_id,
    )
