"""All planted bugs by name. A module of bugs becomes part of it by being listed here."""

from importlib import import_module

from server_launch.reference.planted.bug import BUGS, Bug

_MODULES = (
    "abandonment",
    "crashes",
    "leaks",
    "resources",
    "liveness",
    "health",
    "refusals",
    "parameters",
    "neighbours",
    "overload",
    "turns",
    "pressure",
    "stream_end",
    "stream_content",
    "crosstalk",
    "gauges",
    "traces",
    "ranks",
    "logs",
)


def _all() -> dict[str, Bug]:
    for module in _MODULES:
        import_module(f"server_launch.reference.planted.{module}")
    return dict(sorted(BUGS.items()))


PLANTED: dict[str, Bug] = _all()
