"""The Prometheus figures of the server, under vLLM's names, in a registry of their own."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from server_launch.reference.request import Request, TerminalReason

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
FINISHED = {
    TerminalReason.COMPLETED_STOP: "stop",
    TerminalReason.COMPLETED_LENGTH: "length",
    TerminalReason.CANCELLED: "abort",
    TerminalReason.DISCONNECTED: "abort",
    TerminalReason.ERROR: "error",
}
"""The `finished_reason` label of each end; a rejected request never ran and is not counted."""


class Metrics:
    """Counters, histograms and (where `gauges` is true) the two gauges, all with the label `model_name`."""

    def __init__(self, model: str, *, gauges: bool, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._model = model
        if gauges:
            self._gauge("vllm:num_requests_running", "Requests in prefill or decode.", running)
            self._gauge("vllm:num_requests_waiting", "Requests in the queue.", waiting)
        labels = ["model_name"]
        self._prompt = Counter("vllm:prompt_tokens", "Prompt tokens prefilled.", labels, registry=self.registry).labels(model)
        self._generated = Counter("vllm:generation_tokens", "Tokens generated.", labels, registry=self.registry).labels(model)
        self._success = Counter("vllm:request_success", "Requests that ended.", [*labels, "finished_reason"], registry=self.registry)
        for label in set(FINISHED.values()):
            self._success.labels(model, label)
        self._first_token = self._histogram("vllm:time_to_first_token_seconds", "From the queue to the first token.")
        self._latency = self._histogram("vllm:e2e_request_latency_seconds", "From the queue to the end.")

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        Gauge(name, text, ["model_name"], registry=self.registry).labels(self._model).set_function(read)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, ["model_name"], registry=self.registry, buckets=_SECONDS).labels(self._model)

    def prefilled(self, token_count: int) -> None:
        """A prompt of this many tokens went through prefill."""
        self._prompt.inc(token_count)

    def generated(self, token_count: int) -> None:
        """This many tokens were accepted."""
        self._generated.inc(token_count)

    def finished(self, request: Request, reason: TerminalReason) -> None:
        """A request reached its end."""
        line = request.timeline
        if reason in FINISHED:
            self._success.labels(self._model, FINISHED[reason]).inc()
        if line.queued_unix_s is not None and line.first_token_unix_s is not None:
            self._first_token.observe(line.first_token_unix_s - line.queued_unix_s)
        if line.queued_unix_s is not None and line.terminal_unix_s is not None and reason in FINISHED:
            self._latency.observe(line.terminal_unix_s - line.queued_unix_s)

    def text(self) -> bytes:
        """What GET /metrics answers."""
        return generate_latest(self.registry)
