"""Who runs when: a first-come-first-served queue, at most `active_cap` active requests, one decode step a round.

One thread drives the engine. The HTTP side only calls `submit`, `abort` and the read-only properties; every change of
state happens under one lock that is never held while the engine computes, so a leaving client is dealt with at once:
taken out of the queue by the very call, or retired before the next token would be emitted.
"""

import logging
import threading
import time
from collections import deque
from enum import StrEnum

from server_launch.reference import trace
from server_launch.reference.engine import Engine, RankFailed, Tokenizer
from server_launch.reference.errors import unavailable
from server_launch.reference.metrics import Metrics
from server_launch.reference.options import Options
from server_launch.reference.peaks import Peaks
from server_launch.reference.request import FinishReason, Phase, Piece, Request, TerminalReason
from server_launch.reference.seams import Seams

_log = logging.getLogger("reference::scheduler")
POLL_S = 0.1
"""How often an idle or pacing scheduler looks at the peer rank."""


class State(StrEnum):
    """What the scheduler does with new work."""

    SERVING = "serving"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


class Scheduler:
    """See the module. `pending` and `active` may be read under `lock`; `lock` is re-entrant."""

    def __init__(self, *, engine: Engine, tokenizer: Tokenizer, seams: Seams, options: Options) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.seams = seams
        self.options = options
        self.lock = threading.Condition(threading.RLock())
        self.pending: deque[Request] = deque()
        self.active: list[Request] = []
        self.context_length = min(options.context_length, engine.context_length)
        self.state = State.SERVING
        self.failure = ""
        self.metrics = Metrics(
            options.served_model_name,
            gauges=options.gauges,
            running=lambda: seams.running(self),
            waiting=lambda: seams.waiting(self),
        )
        self._active_peaks = Peaks()
        self._pending_peaks = Peaks()
        self._woken = False
        self._drain_until_s = float("inf")
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    # --- the HTTP side -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a request. Raises ApiError: 4xx where the scheduler refuses it (with a trace), 503 where it takes nothing."""
        with self.lock:
            trouble = self.trouble()
            if trouble is not None:
                raise unavailable(f"the server takes no requests: {trouble}")
            request.timeline.queued_unix_s = trace.unix_now_s()
            request.timeline.queued_moment = self._active_peaks.now()
            refusal = self.seams.refusal(self, request)
            if refusal is not None:
                self.retire(request, TerminalReason.REJECTED, error=refusal.message)
                raise refusal
            if request.max_tokens == 0:
                self.retire(request, TerminalReason.COMPLETED_LENGTH)
                return
            self.seams.enqueue(self, request)
            self._note_sizes()
            self._wake()

    def abort(self, request: Request) -> None:
        """The client of this request left. A queued one is retired here and now, any other within the step under way."""
        with self.lock:
            if request.phase is Phase.DONE or request.gone:
                return
            request.gone = True
            if request.phase is Phase.QUEUED:
                self.retire(request, self.left_reason(request))
            self._wake()

    def trouble(self) -> str | None:
        """Why new requests are refused; None while serving. Cheap, from any thread."""
        if self.state is State.FAILED:
            return self.failure
        if self.state is not State.SERVING:
            return "it is shutting down"
        if not self.engine.healthy():
            return "the peer rank is gone"
        return None

    def drain(self, limit_s: float) -> None:
        """Take nothing new, finish what was taken within `limit_s`, end the rest with an error, then stop."""
        with self.lock:
            if self.state is State.SERVING:
                self.state = State.DRAINING
            self._drain_until_s = min(self._drain_until_s, time.monotonic() + limit_s)
            self._wake()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread to end; False if an engine call did not return in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def end_all(self, error: str) -> None:
        """Retire everything that is left with this error."""
        with self.lock:
            for request in [*self.active, *self.pending]:
                self.retire(request, TerminalReason.ERROR, error=error)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._drained():
                self.seams.tick(self)
                self._require_peer()
                if not self.round():
                    self._rest()
            self.end_all("the server is shutting down")
            self.state = State.STOPPED
        except RankFailed as error:
            self._fail(f"the peer rank failed: {error}")
        except Exception as error:  # noqa: BLE001 - the thread's boundary: nothing may leave requests behind
            _log.exception("the scheduler broke")
            self._fail(f"the scheduler broke: {type(error).__name__}: {error}")

    def _drained(self) -> bool:
        with self.lock:
            if self.state is not State.DRAINING:
                return False
            return time.monotonic() >= self._drain_until_s or not (self.active or self.pending)

    def round(self) -> bool:
        """Reap, admit, step; False if there was nothing to do."""
        self._reap()
        admitted = self._admit()
        return self._step() or admitted

    def _rest(self) -> None:
        with self.lock:
            if not self._woken:
                self.lock.wait(POLL_S)
            self._woken = False

    def _admit(self) -> bool:
        """Prefill from the queue, one by one, up to the cap."""
        admitted = False
        while (request := self._next()) is not None:
            admitted = True
            cache, token = self.seams.prefill(self, request)
            with self.lock:
                request.timeline.prefill_done_unix_s = trace.unix_now_s()
                self.seams.count_prompt(self, request)
                if self.seams.has_left(self, request):
                    self.retire(request, self.left_reason(request))
                    continue
                request.cache = cache
                request.phase = Phase.DECODE
                self._accept(request, token)
        return admitted

    def _next(self) -> Request | None:
        with self.lock:
            if not self.pending or not self.seams.may_admit(self):
                return None
            request = self.seams.dequeue(self)
            request.phase = Phase.PREFILL
            request.timeline.scheduled_unix_s = trace.unix_now_s()
            self.active.append(request)
            self._note_sizes()
            return request

    def _step(self) -> bool:
        """One decode step for all active rows; tokens of requests whose client left meanwhile are dropped."""
        with self.lock:
            rows = self.seams.rows(self)
        if not rows:
            return False
        began_s = time.monotonic()
        tokens = self.seams.decode(self, rows)
        self._pace(rows, began_s + self.options.step_interval_s)
        duration_s = time.monotonic() - began_s
        with self.lock:
            for request, token in zip(rows, tokens, strict=True):
                if request.phase is Phase.DECODE:
                    request.timeline.add_step(duration_s, len(rows))
                    self._accept(request, token)
        return True

    def _pace(self, rows: list[Request], until_s: float) -> None:
        """Make the step last until then or until nobody waits for it; go on noticing clients that leave, a dead peer, shutdown."""
        with self.lock:
            self._reap()
            while any(request.phase is Phase.DECODE for request in rows):
                left_s = min(until_s, self._drain_until_s) - time.monotonic()
                if left_s <= 0:
                    return
                self._require_peer()
                self.lock.wait(min(left_s, POLL_S))
                self._reap()

    def _accept(self, request: Request, token: int) -> None:
        """One new token of a request: count it, emit its text, retire the request if it was the last. Under the lock."""
        request.tokens.append(token)
        self.seams.count_token(self, request)
        finish = self.seams.finish_reason(self, request, token)
        text, stopped = request.stops.feed(self.seams.text(self, request, token, finish))
        if stopped:
            finish = FinishReason.STOP
        elif finish is not None:
            text += request.stops.flush()
        if request.timeline.first_token_unix_s is None:
            request.timeline.first_token_unix_s = trace.unix_now_s()
        if text:
            self.seams.emit(self, request, Piece(text, token))
        if finish is not None:
            stop = finish is FinishReason.STOP
            self.retire(request, TerminalReason.COMPLETED_STOP if stop else TerminalReason.COMPLETED_LENGTH)

    def _reap(self) -> None:
        """Retire the active requests whose clients left; one in prefill is seen to when its prefill returns."""
        with self.lock:
            for request in list(self.active):
                if request.phase is Phase.DECODE and self.seams.has_left(self, request):
                    self.retire(request, self.left_reason(request))

    def _require_peer(self) -> None:
        if not self.engine.healthy():
            raise RankFailed("it is gone or does not answer")

    def _fail(self, message: str) -> None:
        with self.lock:
            self.state = State.FAILED
            self.failure = message
            _log.error("no request can be served any more: %s", message)
            self.end_all(message)

    # --- the end of a request ------------------------------------------------------------------------------------

    def retire(self, request: Request, reason: TerminalReason, *, error: str | None = None) -> None:
        """The one way out: free the slot, write the trace, count, tell the HTTP side. Does nothing the second time."""
        with self.lock:
            if request.phase is Phase.DONE:
                return
            request.phase = Phase.DONE
            self.seams.free(self, request)
            self._note_sizes()
            request.timeline.terminal_unix_s = trace.unix_now_s()
            finish = _FINISH[reason]
            if self.options.trace:
                line = trace.record(request, reason, finish, self._sizes(request), error)
                self.seams.write_trace(self, request, line)
            self.seams.count_finished(self, request, reason)
            self.seams.deliver_finish(self, request, finish, error)

    def left_reason(self, request: Request) -> TerminalReason:
        """What to call the end of a request whose client left: the first emitted token makes the difference."""
        return TerminalReason.CANCELLED if request.timeline.first_token_unix_s is not None else TerminalReason.DISCONNECTED

    def _sizes(self, request: Request) -> trace.Sizes:
        since = request.timeline.queued_moment
        return trace.Sizes(
            active_max=self._active_peaks.since(since),
            pending_max=self._pending_peaks.since(since),
            active_now=len(self.active),
            pending_now=len(self.pending),
        )

    def _note_sizes(self) -> None:
        self._active_peaks.push(len(self.active))
        self._pending_peaks.push(len(self.pending))

    def _wake(self) -> None:
        self._woken = True
        self.lock.notify_all()


_FINISH: dict[TerminalReason, FinishReason | None] = {
    TerminalReason.COMPLETED_LENGTH: FinishReason.LENGTH,
    TerminalReason.COMPLETED_STOP: FinishReason.STOP,
    TerminalReason.CANCELLED: None,
    TerminalReason.DISCONNECTED: None,
    TerminalReason.REJECTED: FinishReason.ERROR,
    TerminalReason.ERROR: FinishReason.ERROR,
}
