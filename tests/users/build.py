"""Small helpers of the tests: a request, and one exchange of it with a server of bytes."""

import json
from collections.abc import Callable
from typing import Any

from analysis.record import RequestRecord
from analysis.vocabulary import Ending, Endpoint, Role
from faults.fault import Fault
from faults.none import Nothing
from tests.fakes.raw import LAST_CHUNK, STREAM_HEAD, Peer, RawServer, event
from users.exchange import Exchange, Release
from users.request import Place, Request, head
from users.wire import Address, Link

PLACE = Place(stage="cancel", group="some", item=0, role=Role.FAULTY, prompt="short_1", row=None)
BODY = b'{"prompt":"Hello"}'


def request(
    fault: Fault | None = None, ending: Ending = Ending.FIN, *, stream: bool = True, deadline_s: float = 10.0, refusal_event: bool = False
) -> Request:
    """A completions request; normal unless a fault is given."""
    return Request(
        request_id="r0123456789abcdefw000n00000000x", worker=0, sequence=0, place=PLACE, endpoint=Endpoint.COMPLETIONS, stream=stream,
        method="POST", head=head("POST", "/v1/completions", {"Host": "server", "Content-Length": str(len(BODY))}), body=BODY, max_tokens=8,
        fault=fault or Nothing(), ending=ending, deadline_s=deadline_s, refusal_event=refusal_event,
    )  # fmt: skip


def link(server: RawServer) -> Link:
    """A user's link to the server."""
    return Link(Address.parse(f"http://127.0.0.1:{server.port}"))


def exchange(
    server: RawServer, asked: Request | None = None, kept: Link | None = None, noted: Callable[[str], None] = lambda phase: None
) -> RequestRecord:
    """The record of one exchange."""
    used = kept or link(server)
    done = Exchange(asked or request(), used, Release(), noted)
    done.run()
    if kept is None:
        used.drop()
    return done.record()


def token(text: str, finish: str | None = None, **more: Any) -> str:
    """The data of one event of a completion stream."""
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return json.dumps({"id": "cmpl-1", "object": "text_completion", "choices": [choice], **more})


def usage(prompt: int, completion: int) -> str:
    """The data of a usage event."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return json.dumps({"id": "cmpl-1", "choices": [], "usage": counts})


def answered(*data: str) -> Callable[[Peer], None]:
    """A script: take a request, answer with a stream of these events, and end it well."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD + b"".join(map(event, data)) + LAST_CHUNK)

    return script


GOOD = (token(" one"), token(" two", "length"), usage(1, 2), "[DONE]")
