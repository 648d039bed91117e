"""A scheduler whose rounds a test runs itself, in one thread, so that every interleaving is chosen and none is luck."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from server_launch.reference.engine import Cache
from server_launch.reference.options import parse
from server_launch.reference.request import Call, Endpoint, Event, Piece, Request
from server_launch.reference.scheduler import Scheduler
from server_launch.reference.seams import Seams
from server_launch.reference.stops import StopFilter
from tests.server_launch.reference import standin


class HookedEngine(standin.StandInEngine):
    """Runs `during` inside the next engine call, as another thread could."""

    def __init__(self) -> None:
        super().__init__()
        self.during: Callable[[], None] | None = None

    def prefill(self, prompt: Sequence[int]) -> tuple[standin.StandInCache, int]:
        self._hook()
        return super().prefill(prompt)

    def decode(self, caches: Sequence[Cache], tokens: Sequence[int]) -> list[int]:
        self._hook()
        return super().decode(caches, tokens)

    def _hook(self) -> None:
        during, self.during = self.during, None
        if during is not None:
            during()


class NotedSeams(Seams):
    """The honest server, with its traces kept."""

    def __init__(self) -> None:
        self.traces: list[dict[str, object]] = []

    def write_trace(self, scheduler: Scheduler, request: Request, line: dict[str, object]) -> None:
        self.traces.append(line)


@dataclass
class Bench:
    """A scheduler whose rounds the test runs itself, and the events of each request by its prompt."""

    scheduler: Scheduler
    engine: HookedEngine
    seams: NotedSeams
    got: dict[int, list[Event]] = field(default_factory=dict)

    @classmethod
    def with_seams(cls, seams: NotedSeams, *more_options: str) -> "Bench":
        engine = HookedEngine()
        options = parse(["--active-cap", "2", *more_options])
        scheduler = Scheduler(engine=engine, tokenizer=standin.StandInTokenizer(), seams=seams, options=options)
        return cls(scheduler, engine, seams)

    def submit(self, prompt: int, max_tokens: int = 3, **call: object) -> Request:
        self.got[prompt] = []
        request = Request(
            id=f"cmpl-{prompt}",
            model="tiny",
            call=Call(endpoint=Endpoint.COMPLETIONS, prompt=(prompt,), max_tokens=max_tokens, **call),  # type: ignore[arg-type]
            prompt_ids=(prompt,),
            max_tokens=max_tokens,
            created_unix_s=0,
            deliver=self.got[prompt].append,
            stops=StopFilter(call.get("stops", ())),  # type: ignore[arg-type]
        )
        self.scheduler.submit(request)
        return request

    def text(self, prompt: int) -> str:
        return "".join(event.text for event in self.got[prompt] if isinstance(event, Piece))

    def reasons(self) -> dict[str, object]:
        return {str(line["request_id"]): line["terminal_reason"] for line in self.seams.traces}

    def run(self) -> None:
        """Rounds until there is nothing left to do."""
        while self.scheduler.round():
            assert len(self.scheduler.active) <= self.scheduler.options.active_cap
