"""Traces that are missing, doubled, invented, contradictory or impossible."""

import logging
from typing import Any

from server_launch.reference import trace
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Request
from server_launch.reference.scheduler import Scheduler

Line = dict[str, Any]
_log = logging.getLogger("reference::scheduler")


@plant(Kind.FALSE_FIGURES, "huggingface/text-generation-inference #1199", "trace.coverage")
class AbortedHaveNoTrace(Planted):
    """A request whose client left after a token is not in the log."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        if line["terminal_reason"] != "cancelled":
            super().write_trace(scheduler, request, line)


@plant(Kind.FALSE_FIGURES, "vllm-project/production-stack #706", "trace.coverage")
class TenthTraceMissing(Planted):
    """Every tenth completed request is not in the log."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        if not (line["finish_reason"] == "length" and self.nth(10)):
            super().write_trace(scheduler, request, line)


@plant(Kind.FALSE_FIGURES, "sgl-project/sglang #21173", "trace.coverage")
class AbortTracedTwice(Planted):
    """Every fifth aborted request is in the log twice."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        super().write_trace(scheduler, request, line)
        if request.gone and self.nth(5):
            super().write_trace(scheduler, request, line)


@plant(Kind.FALSE_FIGURES, "sgl-project/sglang #36876", "trace.coverage")
class OrphanTrace(Planted):
    """Every fifteenth trace is followed by one of a request that nobody sent."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        super().write_trace(scheduler, request, line)
        if self.nth(15):
            super().write_trace(scheduler, request, {**line, "request_id": f"cmpl-internal-{self._counts['']}"})


@plant(Kind.FALSE_FIGURES, "vllm-project/vllm #31503", "trace.agreement")
class AbortTracedAsLength(Planted):
    """Every fourth cancelled request is logged as one that reached its length."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        if request.gone and self.nth(4):
            line = {**line, "terminal_reason": "completed_length", "finish_reason": "length"}
        super().write_trace(scheduler, request, line)


@plant(Kind.FALSE_FIGURES, "sgl-project/sglang PR #17321", "trace.agreement")
class CompletedTracedAsAbort(Planted):
    """Every eighth completed stream is logged as cancelled."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        if line["finish_reason"] == "length" and request.call.stream and self.nth(8):
            line = {**line, "terminal_reason": "cancelled", "finish_reason": None}
        super().write_trace(scheduler, request, line)


@plant(Kind.FALSE_FIGURES, "vllm-project/vllm #36830", "trace.coverage")
class TraceTorn(Planted):
    """Every twentieth trace is cut off in the middle of its line."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        if self.nth(20):
            _log.info('%s {"request_id":"%s","queued_at_unix_s":', trace.MARK, request.id)
        else:
            super().write_trace(scheduler, request, line)


@plant(Kind.FALSE_FIGURES, "vllm-project/vllm #8625", "trace.figures", "stream.content")
class TraceCountsOneMore(Planted):
    """The trace of a completed request counts one token more than there were."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        more = line["finish_reason"] == "length"
        super().write_trace(scheduler, request, {**line, "completion_tokens": line["completion_tokens"] + more})


class _Figure(Planted):
    """Changes some figures in every tenth trace of a request that was decoded."""

    def write_trace(self, scheduler: Scheduler, request: Request, line: Line) -> None:
        if line["decode_step_count"] and self.nth(10):
            line = {**line, **self.figures(line)}
        super().write_trace(scheduler, request, line)

    def figures(self, line: Line) -> Line:
        """What to write instead."""
        raise NotImplementedError


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router #2295", "trace.figures")
class FirstTokenBeforeAdmission(_Figure):
    """Some requests emit their first token before they are scheduled."""

    def figures(self, line: Line) -> Line:
        return {"first_token_emit_unix_s": line["scheduled_at_unix_s"] - 0.5}


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router #2295", "trace.figures")
class DurationNegative(_Figure):
    """Some requests waited a negative time in the queue."""

    def figures(self, line: Line) -> Line:
        return {"queue_wait_ms": -line["queue_wait_ms"] - 5.0}


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router #2295", "trace.figures")
class BatchBeyondActive(_Figure):
    """Some requests were in a batch larger than the number of active ones."""

    def figures(self, line: Line) -> Line:
        return {"decode_batch_size_max": line["active_set_size_max"] + 2}


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router #2295", "trace.figures", "state.cap")
class TerminalBeyondMaximum(_Figure):
    """Some requests end beside more active ones than there ever were during their life."""

    def figures(self, line: Line) -> Line:
        return {"active_set_size_at_terminal": line["active_set_size_max"] + 1, "healthy_baseline_after_terminal": False}
