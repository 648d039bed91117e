"""What is known of a server, as data: one TOML file each in profiles/, or a file of the user's own.

A profile states facts, and only those: how to start it, what it promises, which witnesses it has. The command line may differ
from it in what depends on the installation (cap, context, model).
"""

import re
import tomllib
import types
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin

FOLDER = Path(__file__).parent / "profiles"


class ProfileError(Exception):
    """A profile that does not exist or cannot be; one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Facts on a kind of server. Absent witnesses are None or empty, never assumed."""

    name: str
    about: str
    launch: tuple[str, ...] = ()
    """Command of a server that can be started here. `{python}`, `{model}`, `{model_path}` and `{port}` are filled in; empty: cannot."""
    launch_options: dict[str, list[str]] = field(default_factory=dict)
    """What `active_cap` and `context_length` add to the command; `{value}` is filled in."""
    env: dict[str, str] = field(default_factory=dict)
    """Added to the environment of a launched server."""
    ready_line: str = ""
    """Regular expression for a line of its output; its first group is the address. Empty: `ready_path` is asked instead."""
    ready_path: str = "/health"
    """Path that answers 200 once a launched server is ready."""
    ready_s: float = 300.0
    """How long it may take to be ready, in seconds."""
    stop_s: float = 15.0
    """How long it may take to stop after SIGTERM, in seconds; then it is killed."""
    memory_limit_gib: float | None = None
    """Memory for data that a launched server may have (RLIMIT_DATA), each of its processes."""
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
    health_path: str | None = None
    metrics_path: str | None = None
    running_gauge: str | None = None
    waiting_gauge: str | None = None
    gauges: str = "none"
    counts_aborts: bool = False
    """A counter of aborts moves with every client that left (vLLM has one that never moves)."""
    trace: str | None = None
    refuses: tuple[str, ...] = ()
    """Rows of the catalogue of bad requests that this server refuses although others may serve them."""
    serves: tuple[str, ...] = ()
    """Rows that it is known to serve against the catalogue's contract."""
    honours: tuple[str, ...] = ()
    """Parameters that it promises to honour where it accepts them; of others, being ignored is no fault."""


_WORDS = {
    "stream_refusal": ("status", "status_or_event"),
    "queue": ("queued", "queued_or_refused"),
    "queued_leaver": ("at_once", "at_turn"),
    "gauges": ("promised", "optional", "none"),
}


def load(name: str) -> Profile:
    """A profile by its name in profiles/, or a TOML file of that shape. Raises ProfileError."""
    path = FOLDER / f"{name}.toml" if name in names() else Path(name)
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
    values = {"name": path.stem, **raw}
    hints = {each.name: each.type for each in fields(Profile)}
    for key, value in values.items():
        if key not in hints:
            raise ProfileError(f"profile {path.name} has an unknown key {key!r}: known are {', '.join(sorted(hints))}")
        if not _fits(value, hints[key]):
            raise ProfileError(f"profile {path.name}: {key} is {value!r}, which is no {_spoken(hints[key])}")
        if key in _WORDS and value not in _WORDS[key]:
            raise ProfileError(f"profile {path.name}: {key} is {value!r}, it may be {' or '.join(_WORDS[key])}")
    if "about" not in values:
        raise ProfileError(f"profile {path.name} has no `about`: say in a sentence which server it describes")
    typed: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    profile = Profile(**typed)
    _check(path, profile)
    return profile


def _fits(value: Any, hint: Any) -> bool:
    """Whether a TOML value may stand for an annotation: lists for tuples, whole numbers for fractions, but no true for 1."""
    if isinstance(hint, types.UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    kind = get_origin(hint) or hint
    if kind is tuple:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind is dict:
        wanted = get_origin(get_args(hint)[1]) or get_args(hint)[1]
        return isinstance(value, dict) and all(isinstance(each, wanted) for each in value.values())
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _spoken(hint: Any) -> str:
    kind = next(each for each in (get_args(hint) if isinstance(hint, types.UnionType) else (hint,)) if each is not types.NoneType)
    words = {bool: "true or false", int: "whole number", float: "number", str: "text", tuple: "list of texts", dict: "table"}
    return words[get_origin(kind) or kind]


def _check(path: Path, profile: Profile) -> None:
    """What no single key shows."""
    if profile.gauges != "none" and None in (profile.metrics_path, profile.running_gauge, profile.waiting_gauge):
        raise ProfileError(f"profile {path.name}: gauges are {profile.gauges}: name metrics_path, running_gauge and waiting_gauge")
    try:
        groups = re.compile(profile.ready_line).groups
    except re.error as error:
        raise ProfileError(f"profile {path.name}: ready_line is no regular expression: {error}") from error
    if profile.ready_line and groups < 1:
        raise ProfileError(f"profile {path.name}: ready_line has no group: put the address into (…)")
    both = sorted(set(profile.refuses) & set(profile.serves))
    if both:
        raise ProfileError(f"profile {path.name}: {both[0]} is among refuses and among serves: leave it in one of them")
