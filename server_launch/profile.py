"""What is known of a server, as data: one TOML file each in profiles/, or a file of the user's own.

A profile states facts, and only those: how to start it, what it promises, which witnesses it has. The command line may differ
from it in what depends on the installation (cap, context, model).
"""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "profiles"


class ProfileError(Exception):
    """A profile that does not exist or cannot be; one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Facts on a kind of server. Absent witnesses are None or empty, never assumed."""

    name: str
    about: str
    launch: tuple[str, ...] = ()
    """Command of a server that the gate can start; empty where it cannot. `{python}`, `{model}` and `{port}` are filled in."""
    ready_s: float = 300.0
    """How long it may take to be ready, in seconds."""
    model: str | None = None
    """Name that a launched server serves under."""
    active_cap: int | None = None
    context_length: int | None = None
    request_id_in_body: bool = False
    ignore_eos: bool = False
    batch_invariant: bool = False
    stream_refusal: str = "status_or_event"
    queue: str = "queued_or_refused"
    queued_leaver: str = "at_turn"
    health_path: str | None = "/health"
    metrics_path: str | None = None
    running_gauge: str | None = None
    waiting_gauge: str | None = None
    gauges: str = "none"
    trace: str | None = None
    refuses: tuple[str, ...] = ()
    """Rows of the catalogue of bad requests that this server refuses although others may serve them."""
    serves: tuple[str, ...] = ()
    """Rows that it is known to serve against the catalogue's contract."""


_WORDS = {
    "stream_refusal": ("status", "status_or_event"),
    "queue": ("queued", "queued_or_refused"),
    "queued_leaver": ("at_once", "at_turn"),
    "gauges": ("promised", "optional", "none"),
}


def load(name: str) -> Profile:
    """A profile by its name in profiles/, or a TOML file of that shape. Raises ProfileError."""
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        raise ProfileError(f"no server profile {name!r}: use one of {', '.join(names())}, or the path of a TOML file")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"cannot read the profile {path.name}: {error}") from error
    return _profile(path, raw)


def names() -> list[str]:
    """The profiles that come with the gate."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _profile(path: Path, raw: dict[str, Any]) -> Profile:
    known = {field.name for field in fields(Profile)}
    unknown = sorted(raw.keys() - known)
    if unknown:
        raise ProfileError(f"profile {path.name} has an unknown key {unknown[0]!r}: known are {', '.join(sorted(known))}")
    for key, allowed in _WORDS.items():
        if raw.get(key, allowed[0]) not in allowed:
            raise ProfileError(f"profile {path.name}: {key} is {raw[key]!r}, it may be {' or '.join(allowed)}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    values.setdefault("name", path.stem)
    try:
        return Profile(**values)
    except TypeError as error:
        raise ProfileError(f"profile {path.name}: {error}") from error
