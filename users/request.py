"""One request, ready to be sent: the bytes, the fault, and where it stands in the plan."""

from dataclasses import dataclass

from analysis.vocabulary import Ending, Endpoint, Role
from faults.fault import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a request stands in the plan."""

    stage: str
    group: str
    item: int
    role: Role
    prompt: str
    row: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`body` and `head` are what goes on the wire; `deadline_s` counts from the first step to connect."""

    request_id: str
    worker: int
    sequence: int
    place: Place
    endpoint: Endpoint
    stream: bool
    method: str
    head: bytes
    body: bytes
    max_tokens: int | None
    fault: Fault
    ending: Ending
    deadline_s: float
    refusal_event: bool
    """An error event before any token is a legal form of refusal here."""


def head(method: str, path: str, headers: dict[str, str]) -> bytes:
    """Request line and headers, empty line included. Values are sent as they are: bad ones are somebody's test."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass")
