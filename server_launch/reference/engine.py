"""The seam between the scheduler and whatever computes tokens.

The scheduler knows nothing of tensors or ranks: it hands token ids in and gets token ids back, one new token a row a step.
"""

from collections.abc import Sequence
from typing import Protocol


class RankFailed(Exception):
    """The expert-parallel peer died, stopped answering within its bound, or broke the exchange; the engine cannot go on."""


class Cache(Protocol):
    """The KV cache of one request; owned by the request, freed when it is dropped."""

    @property
    def length(self) -> int:
        """Number of positions that are filled."""


class Engine(Protocol):
    """Greedy decoding over one checkpoint. Not thread safe: one thread drives it."""

    eos_token_id: int | None
    vocab_size: int
    context_length: int

    def prefill(self, prompt: Sequence[int]) -> tuple[Cache, int]:
        """Run a whole prompt (at least one token id); return its cache and the first new token. Raises RankFailed."""

    def decode(self, caches: Sequence[Cache], tokens: Sequence[int]) -> list[int]:
        """One step for rows at any positions: feed `tokens[i]` to `caches[i]`, return the next token of each row. Raises RankFailed."""

    def healthy(self) -> bool:
        """False once the peer rank is known to be gone. Cheap; never blocks; may be called from any thread."""

    def close(self) -> None:
        """End the peer rank and free everything; idempotent, bounded in time."""


class Tokenizer(Protocol):
    """Text to token ids and back. Every token id decodes to visible text on its own."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens; empty for an empty text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids; concatenating the text of single ids gives the same."""

    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str:
        """The prompt text of (role, content) messages, ending where the assistant speaks."""
