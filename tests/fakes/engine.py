"""The scheduler of the fake server: a cap, a queue, one decode step at a time, and a trace line for each request that ended.

It computes nothing: the n-th token of a prompt is a word drawn from the prompt and n, so equal prompts have equal answers in any batch.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

WORDS = tuple("amber birch cedar délta ember fjord grove haven iris jade kelp lotus maple næve opal pine quill reed sage thyme".split())


def word(prompt: str, position: int) -> str:
    """The token at a position of the answer to a prompt; each is visible text."""
    digest = blake2b(f"{prompt}/{position}".encode(), digest_size=4).digest()
    return " " + WORDS[int.from_bytes(digest, "big") % len(WORDS)]


@dataclass(eq=False, slots=True, kw_only=True)
class Task:
    """One request inside the scheduler. `emit(text, finish_reason)` is told of each token; `gone` says that its client left."""

    id: str
    prompt: str
    prompt_tokens: int
    max_tokens: int
    emit: Callable[[str, str | None], None]
    stops: tuple[str, ...] = ()
    gone: bool = False
    text: str = ""
    made: int = 0
    queued_unix_s: float = field(default_factory=time.time)
    scheduled_unix_s: float | None = None
    prefill_done_unix_s: float | None = None
    first_token_unix_s: float | None = None
    steps: int = 0
    batch_steps: int = 0
    batch_max: int = 0
    decode_s: float = 0.0
    first_decode_s: float | None = None
    active_max: int = 0
    pending_max: int = 0


@dataclass(slots=True, kw_only=True)
class Engine:
    """`write` gets each line for the log. `bugs` are words that make it misbehave; none by default."""

    cap: int
    token_s: float
    prefill_token_s: float
    write: Callable[[str], None]
    bugs: frozenset[str] = frozenset()
    active: list[Task] = field(default_factory=list)
    pending: deque[Task] = field(default_factory=deque)
    leaked: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def submit(self, task: Task) -> None:
        """Take a request; it waits for its turn."""
        self.pending.append(task)
        self._sizes()
        self._work.set()

    def leave(self, task: Task) -> None:
        """The client is gone: a queued one is dropped at once, an active one at the next step."""
        task.gone = True
        self._work.set()
        if task in self.pending and "compute_for_the_gone" not in self.bugs:
            self.pending.remove(task)
            self._retire(task, "disconnected", None)

    def reject(self, task: Task, error: str) -> None:
        """A refusal by the scheduler, which is traced."""
        task.active_max, task.pending_max = len(self.active), len(self.pending)
        self._retire(task, "rejected", "error", error)

    async def run(self) -> None:
        """Rounds for ever: drop who left, admit, one step for all."""
        while True:
            self._drop_gone()
            while self.pending and len(self.active) + self.leaked < self.cap:
                await self._admit(self.pending.popleft())
            if not self.active:
                self._work.clear()
                if not self.pending:
                    await self._work.wait()
                else:
                    await asyncio.sleep(self.token_s)
                continue
            await self._step()

    def _drop_gone(self) -> None:
        for task in [each for each in self.active if each.gone and "compute_for_the_gone" not in self.bugs]:
            self.active.remove(task)
            if "leak_slot" in self.bugs:
                self.leaked += 1
            self._retire(task, "cancelled" if task.made else "disconnected", None)

    async def _admit(self, task: Task) -> None:
        task.scheduled_unix_s = time.time()
        self.active.append(task)
        self._sizes()
        if task.max_tokens == 0:
            self.active.remove(task)
            self._retire(task, "completed_length", "length")
            task.emit("", "length")
            return
        await asyncio.sleep(self.prefill_token_s * task.prompt_tokens)
        task.prefill_done_unix_s = time.time()
        if not task.gone:
            self._emit(task)

    async def _step(self) -> None:
        rows, began_s = list(self.active), time.monotonic()
        await asyncio.sleep(self.token_s)
        took_s = time.monotonic() - began_s
        for task in rows:
            if task.gone and "compute_for_the_gone" not in self.bugs:
                continue
            task.steps += 1
            task.batch_steps += len(rows) > 1
            task.batch_max = max(task.batch_max, len(rows))
            task.decode_s += took_s
            task.first_decode_s = task.first_decode_s or took_s
            self._emit(task)

    def _emit(self, task: Task) -> None:
        shown = word(task.prompt, task.made)
        if "damage_neighbours" in self.bugs and any(each.gone for each in self.active) and not task.gone:
            shown = " xxx"
        task.first_token_unix_s = task.first_token_unix_s or time.time()
        task.made += 1
        self.tokens += 1
        task.text += shown
        stopped = next((stop for stop in task.stops if stop in task.text), None)
        reason = "stop" if stopped else "length" if task.made >= task.max_tokens else None
        if stopped:  # a stop string is no part of the answer
            shown = shown[: max(0, len(shown) - (len(task.text) - task.text.index(stopped)))]
        if reason:
            self.active.remove(task)
            self._retire(task, f"completed_{reason}", reason)
        task.emit(shown, reason)

    def _sizes(self) -> None:
        for task in (*self.active, *self.pending):
            task.active_max = max(task.active_max, len(self.active))
            task.pending_max = max(task.pending_max, len(self.pending))

    def _retire(self, task: Task, reason: str, finish: str | None, error: str | None = None) -> None:
        self.finished[finish or "abort"] = self.finished.get(finish or "abort", 0) + 1
        line = f"pegainfer_http_trace {json.dumps(self._trace(task, reason, finish, error))}"
        if "lose_traces" not in self.bugs or reason.startswith("completed"):
            self.write(f"INFO engine: {line}")
        if "double_traces" in self.bugs and reason == "cancelled":
            self.write(f"INFO engine: {line}")

    def _trace(self, task: Task, reason: str, finish: str | None, error: str | None) -> dict[str, object]:
        end_unix_s = time.time()
        active, pending = len(self.active), len(self.pending)
        return {
            "request_id": task.id, "queued_at_unix_s": task.queued_unix_s, "scheduled_at_unix_s": task.scheduled_unix_s,
            "prefill_done_unix_s": task.prefill_done_unix_s, "first_token_emit_unix_s": task.first_token_unix_s,
            "terminal_unix_s": end_unix_s, "queue_wait_ms": _between_ms(task.queued_unix_s, task.scheduled_unix_s),
            "scheduled_to_first_token_ms": _between_ms(task.scheduled_unix_s, task.first_token_unix_s),
            "scheduled_to_terminal_ms": _between_ms(task.scheduled_unix_s, end_unix_s),
            "prefill_ms": _between_ms(task.scheduled_unix_s, task.prefill_done_unix_s),
            "first_decode_ms": None if task.first_decode_s is None else task.first_decode_s * 1e3,
            "decode_total_ms": task.decode_s * 1e3, "decode_mean_ms": task.decode_s * 1e3 / task.steps if task.steps else None,
            "decode_step_count": task.steps, "batch_decode_steps": task.batch_steps,
            "singleton_decode_steps": task.steps - task.batch_steps, "decode_batch_size_max": task.batch_max,
            "prompt_tokens": task.prompt_tokens, "completion_tokens": task.made, "finish_reason": finish, "terminal_reason": reason,
            "active_set_size": task.active_max, "active_set_size_max": task.active_max, "pending_queue_size_max": task.pending_max,
            "active_set_size_at_terminal": active, "pending_queue_size_at_terminal": pending,
            "healthy_baseline_after_terminal": not active and not pending, "error": error,
        }  # fmt: skip


def _between_ms(begin_unix_s: float | None, end_unix_s: float | None) -> float | None:
    return None if begin_unix_s is None or end_unix_s is None else (end_unix_s - begin_unix_s) * 1e3
