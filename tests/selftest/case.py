"""What the self-test runs: a server, how the gate is told about it, and what has to come out."""

from dataclasses import dataclass
from enum import StrEnum

from server_launch.reference.planted.catalogue import PLANTED


class Kind(StrEnum):
    """What a case proves."""

    BUG = "bug"
    """The run must fail, and the named check must be among the failed ones."""
    CLEAN = "clean"
    """The run must pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One server and one run of the gate against it."""

    name: str
    kind: Kind
    expected: tuple[str, ...]
    """For a bug: checks, at least one of which must fail."""
    server: tuple[str, ...] = ()
    """Options of the reference server, beyond name and port."""
    gate: tuple[str, ...] = ()
    """Options of the gate, beyond host, log, model and run directory."""
    profile: str = "reference"
    limit_s: float = 300.0
    """A run that takes longer is ended and counts as wrong."""


PACE = ("--step-interval-ms", "10")
"""A token every ten milliseconds."""


def bugs() -> tuple[Case, ...]:
    """A case for each planted bug."""
    return tuple(
        Case(name=name, kind=Kind.BUG, expected=bug.checks, server=(*PACE, *bug.server, "--plant", name), gate=bug.gate)
        for name, bug in sorted(PLANTED.items())
    )


def _clean(
    name: str, server: tuple[str, ...] = PACE, gate: tuple[str, ...] = (), profile: str = "reference", limit_s: float = 300.0
) -> Case:
    return Case(name=f"clean-{name}", kind=Kind.CLEAN, expected=(), server=server, gate=gate, profile=profile, limit_s=limit_s)


def clean() -> tuple[Case, ...]:
    """At least thirty clean servers: plain ones with different seeds, and the unusual but legal."""
    plain = [_clean(f"seed-{seed}", gate=("--seed", str(seed))) for seed in range(14)]
    caps = [
        _clean(f"cap-{cap}", server=(*PACE, "--active-cap", str(cap)), gate=("--active-cap", str(cap)), limit_s=600)
        for cap in (1, 2, 3, 16, 32)
    ]
    paces = [_clean(f"step-{ms}-ms", server=("--step-interval-ms", str(ms)), limit_s=600) for ms in (0, 2, 20, 50, 150)]
    slow = [_clean("one-token-a-second", server=("--step-interval-ms", "1000"), limit_s=1800)]
    blind = [
        _clean("no-gauges", server=(*PACE, "--no-metrics"), profile="pegainfer"),
        _clean("no-gauges-other-seed", server=(*PACE, "--no-metrics"), gate=("--seed", "99"), profile="pegainfer"),
        _clean("gauges-under-pegainfer", profile="pegainfer"),
        _clean("no-trace", server=(*PACE, "--no-trace"), profile="openai", gate=("--active-cap", "8")),
        _clean("no-trace-no-gauges", server=(*PACE, "--no-trace", "--no-metrics"), profile="openai", gate=("--active-cap", "8")),
    ]
    gates = [
        _clean("no-faults", gate=("--scenario", "clean")),
        _clean("chat", gate=("--endpoint", "chat")),
        _clean("completions", gate=("--endpoint", "completions")),
    ]
    return (*plain, *caps, *paces, *slow, *blind, *gates)
