"""What became of one request, as far as it is known: its times, its end, and the record that is made of both at the end.

Until something else is said, the harness stopped it: an exchange that is killed half-way proves nothing about a server.
"""

from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate

from analysis.record import RequestRecord
from analysis.vocabulary import Ending, ErrorKind, Outcome, Phase
from users.request import Request
from users.stream import Answer


@dataclass(slots=True)
class Account:
    """Times are seconds since the request began, as in the record."""

    started_unix_s: float = 0.0
    connected_s: float | None = None
    sent_s: float | None = None
    headers_s: float | None = None
    cut_s: float | None = None
    ended_s: float = 0.0
    outcome: Outcome = Outcome.HARNESS_STOPPED
    error: ErrorKind = ErrorKind.STOPPED
    detail: str = "the run ended while the request was open"
    ending: Ending = Ending.NORMAL
    landed: bool = False
    unread_bytes: int = 0
    reused: bool = False
    again: bool = False
    """It was sent a second time, since the kept connection was gone."""

    def ended(self, outcome: Outcome, error: ErrorKind, detail: str) -> None:
        """How it ended; the last word counts."""
        self.outcome, self.error, self.detail = outcome, error, detail

    def record(self, request: Request, answer: Answer, phase: Phase, now_s: float) -> RequestRecord:
        """The record, with what the answer said so far; `now_s` is its end where it has none yet."""
        place, text, tokens_s = request.place, answer.text, answer.token_times_s
        return RequestRecord(
            request_id=request.request_id,
            worker=request.worker,
            sequence=request.sequence,
            stage=place.stage,
            group=place.group,
            item=place.item,
            role=place.role,
            endpoint=request.endpoint,
            stream=request.stream,
            prompt=place.prompt,
            max_tokens=request.max_tokens,
            fault=request.fault.name,
            row=place.row,
            started_unix_s=self.started_unix_s,
            connected_s=self.connected_s,
            sent_s=self.sent_s,
            headers_s=self.headers_s,
            first_token_s=tokens_s[0] if tokens_s else None,
            last_token_s=tokens_s[-1] if tokens_s else None,
            cut_s=self.cut_s,
            ended_s=self.ended_s or now_s,
            phase=phase,
            outcome=self.outcome,
            error=self.error,
            detail=f"sent again on a fresh connection; {self.detail}".rstrip("; ") if self.again else self.detail,
            ending=self.ending,
            landed=self.landed,
            status=answer.status,
            content_type=answer.content_type,
            response_id=answer.response_id,
            text=text,
            text_sha256=sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else "",
            finish_reason=answer.finish_reason,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            token_events=len(tokens_s),
            token_times_s=tuple(round(at, 6) for at in tokens_s) if request.stream else (),
            token_chars=tuple(accumulate(map(len, answer.parts))) if request.stream else (),
            unread_bytes=self.unread_bytes,
            problems=tuple(answer.problems),
            error_body=answer.error_text,
            error_type=answer.error_type,
            reused=self.reused,
        )
