"""An engine without tensors: the next token is a pure function of the tokens so far.

Some words of a prompt make it misbehave on request, so that a test can steer a server process through HTTP alone.
"""

import re
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from server_launch.reference.engine import Cache, RankFailed

VOCAB_SIZE = 512
EOS = 0
FIRST_WORD = 10
"""Tokens from here on are words that mean nothing."""
SPECIAL = {"slow": 1, "lose-rank": 2, "explode": 3, "end-soon": 4, "die-in-decode": 5, "stuck": 6}
"""`slow`: half a second of prefill. `lose-rank`: the peer is gone. `explode`: a bug in prefill. `end-soon`: end of sequence
after five tokens. `die-in-decode`: RankFailed at the fourth token. `stuck`: a prefill that takes a minute."""
SLOW_S = 0.5
STUCK_S = 60.0
ENDS_AFTER = 5


def text_of(token: int) -> str:
    """The visible text of a token; one in seven has multi-byte characters."""
    return f" é✓{token}" if token % 7 == 0 else f" t{token}"


def answer(prompt: Sequence[int], count: int) -> list[int]:
    """The first tokens of the answer to a prompt, as the server must give them."""
    cache = StandInCache()
    tokens: list[int] = []
    cache.add(prompt)
    for _ in range(count):
        tokens.append(cache.next())
        cache.add(tokens[-1:])
    return tokens


@dataclass(slots=True)
class StandInCache:
    """A digest of the tokens so far, and which special ones were among them."""

    digest: int = 0
    length: int = 0
    generated: int = 0
    special: set[int] = field(default_factory=set)

    def add(self, tokens: Sequence[int]) -> None:
        self.digest = zlib.crc32(b"".join(b"%d," % token for token in tokens), self.digest)
        self.length += len(tokens)
        self.special.update(token for token in tokens if token < FIRST_WORD)

    def next(self) -> int:
        """Any token but the special ones."""
        return FIRST_WORD + self.digest % (VOCAB_SIZE - FIRST_WORD)


class StandInEngine:
    """See the module."""

    eos_token_id: int | None = EOS
    vocab_size = VOCAB_SIZE

    def __init__(self, context_length: int = 4096) -> None:
        self.context_length = context_length
        self.well = True
        self.prefills: list[tuple[int, ...]] = []
        self.batches: list[int] = []
        self.closed = False

    def prefill(self, prompt: Sequence[int]) -> tuple[StandInCache, int]:
        self.prefills.append(tuple(prompt))
        words = set(prompt)
        if SPECIAL["slow"] in words:
            time.sleep(SLOW_S)
        if SPECIAL["stuck"] in words:
            time.sleep(STUCK_S)
        if SPECIAL["explode"] in words:
            raise ZeroDivisionError("a bug that a test asked for")
        if SPECIAL["lose-rank"] in words:
            self.well = False
        cache = StandInCache()
        cache.add(prompt)
        return cache, self._advance(cache)

    def decode(self, caches: Sequence[Cache], tokens: Sequence[int]) -> list[int]:
        self.batches.append(len(caches))
        new = []
        for cache, token in zip(caches, tokens, strict=True):
            assert isinstance(cache, StandInCache)
            cache.add([token])
            new.append(self._advance(cache))
        return new

    def _advance(self, cache: StandInCache) -> int:
        cache.generated += 1
        if SPECIAL["end-soon"] in cache.special and cache.generated > ENDS_AFTER:
            return EOS
        if SPECIAL["die-in-decode"] in cache.special and cache.generated > 3:
            raise RankFailed("a test asked for it")
        return cache.next()

    def healthy(self) -> bool:
        return self.well

    def close(self) -> None:
        self.closed = True


class StandInTokenizer:
    """One token a word."""

    def encode(self, text: str) -> list[int]:
        return [SPECIAL.get(word, FIRST_WORD + zlib.crc32(word.encode()) % (VOCAB_SIZE - FIRST_WORD)) for word in re.findall(r"\S+", text)]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(text_of(token) for token in ids)

    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str:
        if messages[0][0] == "assistant":
            raise ValueError("the template wants the user first")
        return "\n".join(f"{role}: {content}" for role, content in messages) + "\nassistant:"


def build(*, context_limit: int, **_options: object) -> tuple[StandInEngine, StandInTokenizer]:
    """What `--engine` names."""
    return StandInEngine(context_limit), StandInTokenizer()
