"""One request from the first step to connect to its end, under one deadline: the exchange that all users share.

Whatever happens, `record()` says what was seen; an exchange that is killed half-way is one that the harness stopped.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from geventhttpclient._parser import HTTPParseError

from analysis.record import RequestRecord
from analysis.vocabulary import Ending, ErrorKind, Outcome, Phase
from faults.fault import Progress
from users.account import Account
from users.request import Request
from users.stream import Answer, Reader
from users.wire import Link, Wire

KEPT_S = 1.0
"""A server that promised to keep a connection may close it when it was idle for long; not as soon as this."""
END_LIMIT_S = 5.0
"""How long a server may take to end an answer after it said that it was over."""


@dataclass(slots=True)
class Release:
    """Tells the holders of a stage when they may leave; `at_s` is on the monotonic clock."""

    at_s: float | None = None


class _StaleConnection(Exception):
    """A kept connection turned out to be closed before any byte of the answer: the request goes out again on a fresh one."""


@dataclass(slots=True)
class Exchange:
    """See the module. `noted` is told of `sent` and `first_token`, each once."""

    request: Request
    link: Link
    release: Release
    noted: Callable[[str], None]
    phase: Phase = Phase.CONNECTING
    _account: Account = field(default_factory=Account)
    _started_s: float = 0.0
    _limit_s: float = 0.0
    _release_tokens: int | None = None
    _answer: Answer = field(init=False)
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self._fresh()
        self._limit_s = self.request.deadline_s
        # taken together: one joins the server's log, the other measures
        self._account.started_unix_s, self._started_s = time.time(), time.perf_counter()

    def run(self) -> None:
        """Do it. Raises nothing of the network's; what kills the greenlet passes through."""
        try:
            try:
                self._attempt()
            except _StaleConnection:
                self._again()
        except HTTPParseError as error:
            self._parse_error(error)
        except TimeoutError:
            self._timeout()
        except OSError as error:
            self._broken(error)
        except Exception as error:  # noqa: BLE001 - the boundary of one request: our own mistake proves nothing about a server
            self._account.ended(Outcome.HARNESS_STOPPED, ErrorKind.HARNESS, f"{type(error).__name__}: {str(error)[:200]}")
        finally:
            self._account.ended_s = self._now_s()
            self._keep_or_drop()

    # --- the steps -----------------------------------------------------------------------------------------------

    def _fresh(self) -> None:
        self._answer = Answer(endpoint=self.request.endpoint)
        self._reader = Reader(self._answer, self.request.method)

    def _again(self) -> None:
        """A kept connection was gone: once more on a fresh one, as any HTTP client does, but not in silence."""
        idle_s = self._started_s - self.link.kept_s
        self.link.drop()
        self._fresh()
        if idle_s < KEPT_S:
            self._answer.problem("kept_connection", f"closed {idle_s * 1e3:.0f} ms after an answer that did not say so")
        self._account.again = True
        self._attempt()

    def _attempt(self) -> None:
        self._connect()
        self._send()
        self._read()

    def _connect(self) -> None:
        if self.link.wire is None:
            self.link.wire = Wire(self.link.address, self._left_s())
        self._account.reused = self.link.wire.used
        self._account.connected_s = self._now_s()
        self.phase = Phase.SENDING

    def _send(self) -> None:
        try:
            self._wire.send(self.request.head + self.request.body, self._left_s())
        except (BrokenPipeError, ConnectionResetError) as error:
            if self._account.reused:
                raise _StaleConnection from error
            # a server may answer before it has read everything, and close: the answer is still to be read
            self.phase = Phase.AWAITING_HEADERS
            return
        self._account.sent_s = self._now_s()
        self.phase = Phase.AWAITING_HEADERS
        self.noted("sent")

    def _read(self) -> None:
        fault = self.request.fault
        while True:
            progress = self._progress()
            if self.phase is not Phase.FINISHED and fault.leaves(progress):
                self._leave(progress)
                return
            data = self._receive(None if self.phase is Phase.FINISHED else fault.patience_s(progress))
            if data is None:
                continue
            self._arrived(data)
            if self._reader.complete:
                self._over()
                return
            if not data:
                self._cut()
                return

    def _receive(self, patience_s: float | None) -> bytes | None:
        """What arrived; None when it is only time to ask the fault again. Raises TimeoutError at the deadline."""
        left_s = self._left_s()
        if left_s <= 0:
            raise TimeoutError
        try:
            return self._wire.receive(left_s if patience_s is None else min(left_s, patience_s))
        except TimeoutError:
            return None
        except ConnectionResetError as error:
            if self._account.reused and self._answer.status is None:
                raise _StaleConnection from error
            raise

    def _arrived(self, data: bytes) -> None:
        at_s = self._now_s()
        if not data and self._account.reused and not self._reader.http.message_begun:
            raise _StaleConnection
        try:
            self._reader.feed(data, at_s)
        except HTTPParseError:
            if data:
                raise
            return  # the end came too early; `_cut` says so
        if self._account.headers_s is None and self._reader.headers_complete:
            self._account.headers_s = at_s
            self.phase = Phase.AWAITING_FIRST_TOKEN
        if self._answer.token_times_s and self.phase is Phase.AWAITING_FIRST_TOKEN:
            self.phase = Phase.STREAMING
            self.noted("first_token")
        if self._answer.finish_reason is not None or self._reader.complete:
            self.phase = Phase.FINISHED
        if self._answer.done_count or self._answer.error_event:
            self._limit_s = min(self._limit_s, at_s + END_LIMIT_S)

    # --- the ends ------------------------------------------------------------------------------------------------

    def _leave(self, progress: Progress) -> None:
        account = self._account
        account.landed = self.request.fault.landed(progress)
        account.ended(Outcome.CANCELLED if progress.tokens else Outcome.DISCONNECTED, ErrorKind.NONE, "")
        account.unread_bytes = self._wire.unread_bytes()
        account.cut_s = self._now_s()
        account.ending = self._wire.leave(self.request.ending)
        self.link.wire = None

    def _over(self) -> None:
        """The HTTP message is complete."""
        answer, status = self._answer, self._answer.status or 0
        if status == 200:
            self._served()
        elif 400 <= status < 500:
            self._account.ended(Outcome.REJECTED, ErrorKind.NONE, "")
        elif status >= 500:
            self._account.ended(Outcome.FAILED, ErrorKind.SERVER_ERROR, f"status {status}: {answer.error_text[:200]}")
        else:
            self._account.ended(Outcome.FAILED, ErrorKind.PROTOCOL, f"status {status} where 200 or an error was due")

    def _served(self) -> None:
        answer = self._answer
        if answer.error_event:
            refusal = self.request.refusal_event and not answer.token_times_s
            kind = (Outcome.REJECTED, ErrorKind.NONE) if refusal else (Outcome.FAILED, ErrorKind.ERROR_EVENT)
            self._account.ended(*kind, answer.error_text[:200])
            return
        if self.request.stream and not self._reader.streaming:
            answer.problem("content_type", f"{answer.content_type!r} for a stream")
        if self._reader.streaming and answer.done_count != 1:
            answer.problem("done_once", f"{answer.done_count} times")
        if answer.finish_reason is None and self.request.method == "POST":
            how = answer.problems[0] if answer.problems else "no finish reason came before the end"
            self._account.ended(Outcome.FAILED, ErrorKind.CUT if self._reader.streaming else ErrorKind.PROTOCOL, how)
        elif self._reader.streaming and not answer.done_count:
            self._account.ended(Outcome.FAILED, ErrorKind.CUT, "the stream ended without [DONE]")
        else:
            self._account.ended(Outcome.COMPLETED, ErrorKind.NONE, "")

    def _cut(self) -> None:
        seen = "after the headers" if self._answer.status is not None else "without any answer"
        self._account.ending = Ending.BY_SERVER
        self._account.ended(Outcome.FAILED, ErrorKind.CUT, f"the server closed the connection {seen}")

    def _timeout(self) -> None:
        if self.phase is Phase.CONNECTING:
            self._account.ended(Outcome.TIMEOUT, ErrorKind.DEADLINE, "no connection before the deadline")
        elif self._answer.done_count or self._answer.error_event:
            self._answer.problem("end", f"the answer was over and its stream still open {END_LIMIT_S:g} s later")
            self._account.ended(Outcome.TIMEOUT, ErrorKind.DEADLINE, "the stream was not ended after its last event")
        else:
            self._account.ended(Outcome.TIMEOUT, ErrorKind.DEADLINE, f"not over after {self._limit_s:.1f} s")

    def _broken(self, error: OSError) -> None:
        if self.phase is Phase.CONNECTING:
            self._account.ended(Outcome.FAILED, ErrorKind.REFUSED_CONNECTION, f"no connection: {error.strerror or error}")
            return
        self._account.ending = Ending.BY_SERVER
        reset = isinstance(error, (ConnectionError, BrokenPipeError))
        self._account.ended(Outcome.FAILED, ErrorKind.RESET if reset else ErrorKind.CUT, f"the connection broke: {error.strerror or error}")

    def _parse_error(self, error: HTTPParseError) -> None:
        self._answer.problem("http", error)
        self._account.ended(Outcome.FAILED, ErrorKind.PROTOCOL, f"not HTTP: {str(error)[:200]}")

    # --- bookkeeping ---------------------------------------------------------------------------------------------

    @property
    def _wire(self) -> Wire:
        assert self.link.wire is not None
        return self.link.wire

    def _now_s(self) -> float:
        return time.perf_counter() - self._started_s

    def _left_s(self) -> float:
        return self._limit_s - self._now_s()

    def _progress(self) -> Progress:
        tokens, now_s = len(self._answer.token_times_s), self._now_s()
        released_s = None if self.release.at_s is None else time.perf_counter() - self.release.at_s
        if released_s is not None and self._release_tokens is None:
            self._release_tokens = tokens
        return Progress(
            phase=self.phase,
            tokens=tokens,
            since_sent_s=None if self._account.sent_s is None else now_s - self._account.sent_s,
            released_s=released_s,
            released_tokens=tokens - (tokens if self._release_tokens is None else self._release_tokens),
            queue_certain=released_s is None,
        )

    def _keep_or_drop(self) -> None:
        wire = self.link.wire
        if wire is None:
            return
        if self._account.outcome in (Outcome.COMPLETED, Outcome.REJECTED) and self._reader.reusable:
            wire.used = True
            self.link.kept_s = time.perf_counter()
        else:
            self.link.drop()

    def record(self) -> RequestRecord:
        """What was seen, whether or not the exchange came to an end."""
        return self._account.record(self.request, self._answer, self.phase, self._now_s())
