"""From an item of the plan to a request that is ready to be sent: its bytes, its fault, its deadline."""

import json
from dataclasses import dataclass

from analysis.plan import Plan
from analysis.vocabulary import Role
from faults import FAULTS, bad_requests, legal
from faults.fault import Aim, Fault
from users.agenda import Job
from users.lessons import Book
from users.request import Place, Request, head
from users.wire import Address

HOLD_S = 30.0
"""An endless answer of a holder is at least this much work for the server, as far as its context allows."""
ENDLESS_S = 10.0
"""... and that of a client that leaves by itself: enough to be wasted, and little enough that one lost abort does not block the run."""
ENDLESS_TOKENS = 256
"""... and never fewer tokens than this."""
MARGIN_TOKENS = 96
"""What a chat template and a tokenizer may add to a prompt whose bytes were counted as tokens."""
HOLDING = 3
"""A holder waits for others, each of whom has a deadline of its own."""
UNSTATED_CONTEXT = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes the requests of one worker. `book` is looked at anew for each."""

    plan: Plan
    worker: int
    api_key: str | None
    address: Address
    book: Book

    def make(self, job: Job, sequence: int, request_id: str) -> Request:
        """The request of an item."""
        item, target = job.item, self.plan.target
        if item.row is not None:
            return self._bad(job, sequence, request_id, item.row)
        max_tokens = self._size(job)
        body = legal.body(
            target, item.endpoint, self.plan.prompts[item.prompt], stream=item.stream, max_tokens=max_tokens, request_id=request_id
        )
        body |= {"stream_options": {"include_usage": True}} if item.stream else {}
        data = json.dumps(body, ensure_ascii=False).encode("utf-8")
        own = {"Content-Type": "application/json"}
        return self._request(job, sequence, request_id, _Bytes("POST", legal.PATHS[item.endpoint], own, data, max_tokens))

    def _bad(self, job: Job, sequence: int, request_id: str, row: str) -> Request:
        item = job.item
        context = bad_requests.Context(
            target=self.plan.target, prompt=self.plan.prompts[item.prompt], request_id=request_id,
            max_tokens=max(1, job.round.speed.unit_tokens), reference=self.book.text(item.prompt, item.endpoint) or "",
        )  # fmt: skip
        built = bad_requests.build(bad_requests.catalogue()[row], item.endpoint, item.stream, context)
        return self._request(job, sequence, request_id, _Bytes(built.method, built.path, built.headers, built.body, built.max_tokens))

    def _request(self, job: Job, sequence: int, request_id: str, sent: "_Bytes") -> Request:
        item = job.item
        headers = self._headers(request_id, item.stream) | {"Content-Length": str(len(sent.body))} | sent.headers
        return Request(
            request_id=request_id,
            worker=self.worker,
            sequence=sequence,
            place=Place(
                stage=self.plan.stages[job.round.stage].name, group=job.group.name, item=job.index, role=item.role, prompt=item.prompt,
                row=item.row,
            ),
            endpoint=item.endpoint,
            stream=item.stream,
            method=sent.method,
            head=head(sent.method, self.address.prefix + sent.path, headers),
            body=sent.body,
            max_tokens=sent.max_tokens,
            fault=self._fault(job),
            ending=item.ending,
            deadline_s=job.round.deadline_s * (HOLDING if item.role is Role.HOLDER else 1),
            refusal_event=self.plan.target.stream_refusal == "status_or_event",
        )  # fmt: skip

    def _fault(self, job: Job) -> Fault:
        speed = job.round.speed
        aim = Aim(
            tokens=job.item.tokens, hold_tokens=job.group.hold_tokens, hold_s=job.group.hold_s,
            first_token_s=self.book.first_token_s(job.item.prompt) or speed.first_token_s, token_gap_s=speed.token_gap_s,
            draw=job.draw.random(),
        )  # fmt: skip
        return FAULTS[job.item.fault](aim)

    def _headers(self, request_id: str, stream: bool) -> dict[str, str]:
        headers = {
            "Host": self.address.host_header,
            "User-Agent": "llm-reliability-gate",
            "Accept": "text/event-stream" if stream else "application/json",
            "X-Request-Id": request_id,
        }
        return headers | ({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {})

    def _size(self, job: Job) -> int:
        """max_tokens of a request. Endless: what the context surely holds, and no more than some seconds of work (longer for a holder)."""
        size, speed = job.item.size, job.round.speed
        if size == "unit":
            return speed.unit_tokens
        if size != "endless":
            return int(size)
        prompt = self.plan.prompts[job.item.prompt]
        room = (self.plan.target.context_length or UNSTATED_CONTEXT) - len(prompt.encode()) - MARGIN_TOKENS
        seconds = HOLD_S if job.item.role is Role.HOLDER else ENDLESS_S
        work = int(seconds / speed.token_gap_s) if speed.token_gap_s else room
        return max(16, min(room, max(ENDLESS_TOKENS, work)))


@dataclass(frozen=True, slots=True)
class _Bytes:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    max_tokens: int | None
