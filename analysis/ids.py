"""Request ids of a run: made by workers, found again inside whatever a server decorates them with.

`r<16 hex digits of the run's nonce>w<3 digits of the worker>n<8 digits of its sequence>x`: fixed length, so that none is a
prefix of another, and ending in a letter, so that a child suffix (`-0`) is never mistaken for a part of it.
"""

import re
import secrets
from dataclasses import dataclass

LENGTH = 31
_PATTERN = re.compile(r"r([0-9a-f]{16})w(\d{3})n(\d{8})x", re.ASCII)
_CHILD = re.compile(r"-\d+(?![0-9A-Za-z_])", re.ASCII)
_NONCE = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An id of ours inside a longer text, taken apart."""

    request_id: str
    nonce: str
    worker: int
    sequence: int
    child: str
    """`-0`, `-1`, … straight after the id; empty where something else follows."""


def new_nonce() -> str:
    """16 random hex digits that mark one run."""
    return secrets.token_hex(8)


def make(nonce: str, worker: int, sequence: int) -> str:
    """The id of a request. Raises ValueError for numbers that do not fit, rather than making an id of another length."""
    if not _NONCE.fullmatch(nonce) or not 0 <= worker < 1_000 or not 0 <= sequence < 100_000_000:
        raise ValueError(f"no request id for nonce {nonce!r}, worker {worker}, sequence {sequence}")
    return f"r{nonce}w{worker:03d}n{sequence:08d}x"


def find(text: str, nonce: str | None = None) -> Found | None:
    """The first id in a text that belongs to this run (any run for None); None where there is none."""
    for match in _PATTERN.finditer(text):
        if nonce is None or match[1] == nonce:
            child = _CHILD.match(text, match.end())
            return Found(request_id=match[0], nonce=match[1], worker=int(match[2]), sequence=int(match[3]), child=child[0] if child else "")
    return None
