"""What the server answered, read strictly: HTTP by llhttp, events by sseclient, each event's JSON by the OpenAI contract.

Nothing is forgiven in silence. What breaks a rule is noted as `rule: what was seen`, and the judge decides what it means.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
from geventhttpclient._parser import HTTPParseError
from geventhttpclient.response import HTTPResponse
from sseclient import SSEClient

from analysis.vocabulary import Endpoint

FINISH_REASONS = frozenset({"stop", "length", "content_filter", "tool_calls", "function_call", "abort", "error"})
DONE = "[DONE]"
BODY_LIMIT = 2_000
PROBLEM_LIMIT = 20


@dataclass(slots=True)
class Answer:
    """Everything seen of one answer so far. Times are given by the caller, in seconds since the request began."""

    endpoint: Endpoint
    status: int | None = None
    content_type: str | None = None
    response_id: str | None = None
    parts: list[str] = field(default_factory=list)
    token_times_s: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error_text: str = ""
    error_type: str | None = None
    error_event: bool = False
    done_count: int = 0
    choices: int = 0
    """Highest number of choices seen."""
    problems: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.parts)

    def problem(self, rule: str, seen: object) -> None:
        """Note a broken rule, shortened; the first twenty are kept."""
        if len(self.problems) < PROBLEM_LIMIT:
            self.problems.append(f"{rule}: {str(seen)[:200]}")


class Reader:
    """Feeds arriving bytes through HTTP, SSE and JSON into an Answer."""

    def __init__(self, answer: Answer, method: str) -> None:
        self.answer = answer
        self.http = HTTPResponse(method)
        self._body = bytearray()
        self._at_s = 0.0

    @property
    def complete(self) -> bool:
        """The whole HTTP message is here."""
        return bool(self.http.message_complete) and self.http.get_code() >= 200

    @property
    def headers_complete(self) -> bool:
        """Status line and headers of the final answer are here."""
        return bool(self.http.headers_complete) and self.http.get_code() >= 200

    @property
    def streaming(self) -> bool:
        """The answer is an event stream."""
        return self.answer.status == 200 and (self.answer.content_type or "").startswith("text/event-stream")

    @property
    def reusable(self) -> bool:
        """The connection may carry another request."""
        return self.complete and not self.http.should_close()

    def feed(self, data: bytes, at_s: float) -> None:
        """Bytes that arrived at `at_s`; empty for the end of the connection. Raises HTTPParseError when they are not HTTP."""
        self._at_s = at_s
        self.http.feed(data)
        if self.answer.status is None and self.headers_complete:
            self.answer.status = self.http.get_code()
            kind = self.http.get("content-type")
            self.answer.content_type = kind if isinstance(kind, str) else None
        body = bytes(self.http._body_buffer)
        del self.http._body_buffer[:]
        if body and self.streaming:
            self._stream(body)
        elif body:
            self._body += body
        if self.complete:
            self._end()

    def _stream(self, body: bytes) -> None:
        """Hand whole events on; sseclient takes the end of what it is given for the end of an event, so it gets no parts."""
        self._body += body
        end = _whole_events_end(self._body)
        if not end:
            return
        whole = bytes(self._body[:end])
        del self._body[:end]
        try:
            for event in SSEClient(iter((whole,))).events():
                self._event(event.data)
        except UnicodeDecodeError as error:
            self.answer.problem("utf8", error)

    def _event(self, data: str) -> None:
        answer = self.answer
        if answer.done_count:
            answer.problem("done_last", f"after [DONE]: {data}")
        if data == DONE:
            answer.done_count += 1
            return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            answer.problem("event_json", data)
            return
        if not isinstance(event, dict):
            answer.problem("event_object", data)
        elif _is_error(event):
            self._error(event, data)
        else:
            self._chunk(event)

    def _error(self, event: dict[str, Any], data: str) -> None:
        self.answer.error_event = True
        self.answer.error_text = data[:BODY_LIMIT]
        self.answer.error_type = _error_type(event)

    def _chunk(self, event: dict[str, Any]) -> None:
        answer = self.answer
        self._identity(event)
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage(usage)
        choices = event.get("choices")
        if not isinstance(choices, list):
            answer.problem("choices", f"not a list: {choices!r}")
            return
        answer.choices = max(answer.choices, len(choices))
        if not choices and not isinstance(usage, dict):
            answer.problem("choices", "empty in an event without usage")
        for choice in choices:
            self._choice(choice)

    def _identity(self, event: dict[str, Any]) -> None:
        answer, seen = self.answer, event.get("id")
        if answer.response_id is None and isinstance(seen, str):
            answer.response_id = seen
        elif seen != answer.response_id:
            answer.problem("one_id", f"{seen!r} after {answer.response_id!r}")

    def _usage(self, usage: dict[str, Any]) -> None:
        answer = self.answer
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not (type(prompt) is int and type(completion) is int and prompt >= 0 and completion >= 0):
            answer.problem("usage", f"not counts: {usage}")
            return
        if answer.completion_tokens is not None:
            answer.problem("usage_once", f"{usage} after {answer.completion_tokens} completion tokens")
        answer.prompt_tokens, answer.completion_tokens = prompt, completion
        if usage.get("total_tokens") not in (None, prompt + completion):
            answer.problem("usage", f"total is not the sum: {usage}")

    def _choice(self, choice: object) -> None:
        answer = self.answer
        if not isinstance(choice, dict):
            answer.problem("choices", f"not an object: {choice!r}")
            return
        text = _text(choice, self.answer.endpoint)
        if text is None:
            answer.problem("text", f"no text in {str(choice)[:120]}")
        elif text:
            if answer.finish_reason is not None and answer.choices < 2:
                answer.problem("finish_last", f"text after the finish reason: {text!r}")
            if "\ufffd" in text:
                answer.problem("characters", f"U+FFFD in {text!r}")
            answer.parts.append(text)
            answer.token_times_s.append(self._at_s)
        self._finish(choice.get("finish_reason"))

    def _finish(self, reason: object) -> None:
        answer = self.answer
        if reason is None:
            return
        if reason not in FINISH_REASONS:
            answer.problem("finish_reason", f"unknown word {reason!r}")
        if answer.finish_reason is not None and answer.choices < 2:
            answer.problem("finish_once", f"{reason!r} after {answer.finish_reason!r}")
        answer.finish_reason = str(reason)

    def _end(self) -> None:
        """The HTTP message is over: look at what only a whole one shows."""
        if self.streaming:
            if self._body.strip():
                self.answer.problem("event_end", f"bytes without an empty line after them: {bytes(self._body[:80])!r}")
            self._body.clear()
            return
        body, self._body = bytes(self._body), bytearray()
        if self.answer.status == 200:
            self._whole(body)
        else:
            self._refusal(body)

    def _whole(self, body: bytes) -> None:
        answer = self.answer
        try:
            event = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer.problem("body_json", body[:200])
            return
        if not isinstance(event, dict):
            answer.problem("body_object", body[:200])
        elif _is_error(event):
            answer.error_text = body[:BODY_LIMIT].decode(errors="replace")
            answer.error_type = _error_type(event)
            answer.problem("error_as_success", answer.error_text)
        elif "choices" in event:
            self._chunk(event)
            if answer.finish_reason is None:
                answer.problem("finish_once", "no finish reason in a whole answer")

    def _refusal(self, body: bytes) -> None:
        self.answer.error_text = body[:BODY_LIMIT].decode(errors="replace")
        try:
            event = orjson.loads(body)
        except orjson.JSONDecodeError:
            return
        self.answer.error_type = _error_type(event) if isinstance(event, dict) else None


def _whole_events_end(body: bytearray) -> int:
    """Where the last whole event ends: behind the last empty line; 0 where there is none yet."""
    return max((body.rfind(gap) + len(gap) for gap in (b"\n\n", b"\r\n\r\n", b"\r\r") if gap in body), default=0)


def _text(choice: dict[str, Any], endpoint: Endpoint) -> str | None:
    """The text of a choice; None where its type is wrong. A chat delta may have none (role, finish)."""
    if endpoint is Endpoint.CHAT:
        part = choice.get("delta", choice.get("message"))
        if not isinstance(part, dict):
            return None
        text = part.get("content", "")
        return text if isinstance(text, str) else "" if text is None else None
    text = choice.get("text")
    return text if isinstance(text, str) else None


def _is_error(event: dict[str, Any]) -> bool:
    """OpenAI's shape, or the flat ones of some frameworks (`detail`, `message`)."""
    if event.get("error") is not None or event.get("object") == "error":
        return True
    return "choices" not in event and any(isinstance(event.get(word), (str, list)) for word in ("detail", "message"))


def _error_type(event: dict[str, Any]) -> str | None:
    """The kind of an error in OpenAI's shape (`error.type`, else `error.code`), or in the flat shape that some servers use."""
    error = event.get("error")
    body = error if isinstance(error, dict) else event
    if not isinstance(body.get("message"), str) or not body["message"]:
        return None
    kind = body.get("type") or body.get("code")
    return str(kind) if kind else None


__all__ = ["Answer", "HTTPParseError", "Reader"]
