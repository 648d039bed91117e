"""Answers that carry what belongs to another request, share its id, or depend on who else is in the batch."""

from server_launch.reference.engine import Cache
from server_launch.reference.planted.bug import Kind, Planted, others, plant, wrong
from server_launch.reference.request import Piece, Request
from server_launch.reference.scheduler import Scheduler


@plant(Kind.CROSSTALK, "ml-explore/mlx-lm #965", "stability.crosstalk", "stability.output")
class StreamsSwapped(Planted):
    """After every eighth abort two requests get each other's text from there on."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        pair = others(scheduler, request)[:2]
        if len(pair) == 2 and self.nth(8):
            with scheduler.lock:
                pair[0].deliver, pair[1].deliver = pair[1].deliver, pair[0].deliver


@plant(Kind.CROSSTALK, "ml-explore/mlx-lm #965", "stability.output", "stability.crosstalk")
class TokenToNeighbour(Planted):
    """After every third abort one token of a live request goes to its neighbour."""

    _owed = 0

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self._owed += self.nth(3)

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        neighbour = others(scheduler, request)[:1]
        if self._owed and neighbour:
            self._owed -= 1
            neighbour[0].deliver(piece)
        else:
            super().emit(scheduler, request, piece)


@plant(Kind.CROSSTALK, "ollama/ollama #17475", "stability.crosstalk", "stability.output")
class NextContinuesCancelled(Planted):
    """After every fourth cancel the next request gets the cancelled one's cache, and goes on with its text."""

    def __init__(self) -> None:
        super().__init__()
        self._stale: list[tuple[Cache, int]] = []

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and request.cache is not None and self.nth(4):
            self._stale.append((request.cache, request.tokens[-1]))
        super().free(scheduler, request)

    def prefill(self, scheduler: Scheduler, request: Request) -> tuple[Cache, int]:
        if not self._stale:
            return super().prefill(scheduler, request)
        cache, token = self._stale.pop()
        return cache, scheduler.engine.decode([cache], [token])[0]


@plant(Kind.CROSSTALK, "ollama/ollama #17475", "stability.output", "stability.crosstalk", "stream.content")
class SlotKeepsLastToken(Planted):
    """The token that an aborted request had not sent yet comes first in the next answer."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[str] = []

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and request.tokens:
            self._kept = [scheduler.tokenizer.decode(request.tokens[-1:])]
        super().free(scheduler, request)

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        text = self._kept.pop() if self._kept and len(request.tokens) == 1 else ""
        super().emit(scheduler, request, Piece(text + piece.text, piece.token))


@plant(Kind.CROSSTALK, "vllm-project/vllm-omni #2048", "stream.protocol")
class IdFromWholeSeconds(Planted):
    """Response ids are made from whole seconds, so that several answers share one."""

    def frame(self, request: Request, data: str) -> bytes:
        prefix, _, _ = request.id.partition("-")
        return super().frame(request, data.replace(request.id, f"{prefix}-{request.created_unix_s}", 1))


@plant(Kind.CROSSTALK, "vllm-project/vllm #23138", "stability.output")
class BatchChangesText(Planted):
    """In a batch of more than two, every fortieth step rounds one row to another token."""

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        tokens = super().decode(scheduler, rows)
        if len(rows) > 2 and self.nth(40):
            tokens[1] = wrong(scheduler, tokens[1])
        return tokens
