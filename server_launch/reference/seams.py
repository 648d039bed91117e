"""Every decision point of the server as one small method, so that a planted bug is a subclass that overrides one or two.

The scheduler and the HTTP side ask these methods instead of deciding in place; the bodies here are the whole honest
behaviour, and no bug code is on the clean server's path. Methods that take a `scheduler` run under its lock unless they say
otherwise, and reach everything through it: `scheduler.active`, `.pending`, `.engine`, `.metrics`, `.options`.
`HttpServer` is the HTTP side: `server.scheduler`, `.options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server_launch.reference import admission, answers, bodies, trace
from server_launch.reference.request import Call, Endpoint, Finish, FinishReason, Phase, Piece, Request, TerminalReason

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Send

    from server_launch.reference.engine import Cache
    from server_launch.reference.errors import ApiError
    from server_launch.reference.http import HttpServer
    from server_launch.reference.scheduler import Scheduler


class Seams:
    """The honest server."""

    # --- a request comes in (event loop, no lock) ----------------------------------------------------------------

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        """The whole ASGI application. Sees every request and response; `scope["extensions"]["transport"]` is the connection's."""
        return app

    def validate(self, server: HttpServer, endpoint: Endpoint, body: dict[str, Any]) -> tuple[Call, list[tuple[str, str]]]:
        """A parsed body to a call and its chat messages; raises ApiError."""
        return bodies.validate(endpoint, body, model=server.options.served_model_name)

    def accepted(self, server: HttpServer, request: Request) -> None:
        """The scheduler took the request; its events will come."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        """The connection of a request that is not over went away."""
        server.scheduler.abort(request)

    # --- the queue -----------------------------------------------------------------------------------------------

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        """Why the scheduler cannot take the request."""
        return admission.refusal(request, context_length=scheduler.context_length)

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        """Put it into the queue."""
        scheduler.pending.append(request)

    def may_admit(self, scheduler: Scheduler) -> bool:
        """Whether one more may become active."""
        return len(scheduler.active) < scheduler.options.active_cap

    def dequeue(self, scheduler: Scheduler) -> Request:
        """Whose turn it is."""
        return scheduler.pending.popleft()

    # --- the engine (scheduler thread, no lock) ------------------------------------------------------------------

    def tick(self, scheduler: Scheduler) -> None:
        """Once before every round, and at least ten times a second when idle."""

    def prefill(self, scheduler: Scheduler, request: Request) -> tuple[Cache, int]:
        """The cache and first token of a request that was just admitted."""
        return scheduler.engine.prefill(request.prompt_ids)

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        """The next token of each row."""
        caches = [request.cache for request in rows if request.cache is not None]
        return scheduler.engine.decode(caches, [request.tokens[-1] for request in rows])

    # --- a step (under the lock) ---------------------------------------------------------------------------------

    def rows(self, scheduler: Scheduler) -> list[Request]:
        """Who takes part in the next decode step."""
        return [request for request in scheduler.active if request.phase is Phase.DECODE]

    def has_left(self, scheduler: Scheduler, request: Request) -> bool:
        """Whether an active request is to be retired because its client left."""
        return request.gone

    def finish_reason(self, scheduler: Scheduler, request: Request, token: int) -> FinishReason | None:
        """Whether this token, already in `request.tokens`, is the last; stop strings are looked at afterwards."""
        if token == scheduler.engine.eos_token_id and not request.call.ignore_eos:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(request.tokens) >= request.max_tokens else None

    def text(self, scheduler: Scheduler, request: Request, token: int, finish: FinishReason | None) -> str:
        """The text of a token; an end of sequence that ends the request has none."""
        return "" if finish is FinishReason.STOP else scheduler.tokenizer.decode([token])

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        """Hand text to the HTTP side."""
        request.deliver(piece)

    # --- the end of a request (under the lock) -------------------------------------------------------------------

    def free(self, scheduler: Scheduler, request: Request) -> None:
        """Give back what a request held: its place in the queue or its slot, and its cache."""
        if request in scheduler.active:
            scheduler.active.remove(request)
        elif request in scheduler.pending:
            scheduler.pending.remove(request)
        request.cache = None

    def write_trace(self, scheduler: Scheduler, request: Request, line: dict[str, Any]) -> None:
        """Log the trace of a request that just ended."""
        trace.write(line)

    def deliver_finish(self, scheduler: Scheduler, request: Request, reason: FinishReason | None, error: str | None) -> None:
        """Tell the HTTP side that nothing more comes."""
        request.deliver(Finish(reason, error))

    # --- figures -------------------------------------------------------------------------------------------------

    def running(self, scheduler: Scheduler) -> float:
        """The gauge of running requests (read at every scrape, no lock)."""
        return len(scheduler.active)

    def waiting(self, scheduler: Scheduler) -> float:
        """The gauge of waiting requests (read at every scrape, no lock)."""
        return len(scheduler.pending)

    def count_prompt(self, scheduler: Scheduler, request: Request) -> None:
        """A prefill is done."""
        scheduler.metrics.prefilled(len(request.prompt_ids))

    def count_token(self, scheduler: Scheduler, request: Request) -> None:
        """A token was accepted."""
        scheduler.metrics.generated(1)

    def count_finished(self, scheduler: Scheduler, request: Request, reason: TerminalReason) -> None:
        """A request ended."""
        scheduler.metrics.finished(request, reason)

    # --- the answer (event loop, no lock) ------------------------------------------------------------------------

    def piece_events(self, request: Request, piece: Piece) -> list[str]:
        """The data of the SSE events for one new token."""
        return [answers.chunk(request, piece.text)]

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        """The data of the SSE events after the last token of a good stream."""
        usage = [answers.usage_chunk(request, self.usage(request))] if request.call.include_usage else []
        return [answers.chunk(request, "", finish.finish_reason), *usage, answers.DONE]

    def error_events(self, request: Request, error: ApiError) -> list[str]:
        """The data of the SSE events after which a stream that failed ends."""
        return [answers.compact(error.body())]

    def usage(self, request: Request) -> dict[str, int]:
        """Token counts as the client gets them."""
        prompt, completion = len(request.prompt_ids), len(request.tokens)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def whole(self, request: Request, text: str, finish: Finish) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        return answers.whole(request, text, finish.finish_reason, self.usage(request))

    def frame(self, request: Request, data: str) -> bytes:
        """The bytes of one SSE event."""
        return b"data: " + data.encode("utf-8") + b"\n\n"

    async def write(self, request: Request, send: Send, payload: bytes) -> None:
        """Put one SSE event on the wire."""
        await send({"type": "http.response.body", "body": payload, "more_body": True})

    async def close_stream(self, request: Request, send: Send) -> None:
        """End the body of a stream."""
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def health(self, server: HttpServer) -> ApiError | None:
        """None: 200. Otherwise what /health answers."""
        return server.health()
