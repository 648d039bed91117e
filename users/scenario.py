"""A scenario (TOML) and a target become the plan of a run: every item is drawn here, from the seed, before the first request."""

import itertools
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.plan import Group, Item, Plan, PlanError, Row, Stage, Target, Threshold
from analysis.vocabulary import Contract, Ending, Endpoint, Role
from faults import FAULTS, bad_requests
from faults.bad_requests import BadRow

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
_STAGE_WORDS = {"name", "group", "budget_s", "limit_units", "follow_ups", "watch_s", "faulty"}
_GROUP_WORDS = {
    "name", "user", "role", "users", "users_per_cap", "count", "count_per_cap", "min_count", "loop", "waits_for", "spacing_s",
    "released_by", "hold_tokens", "hold_s", "needs", "prompts", "endpoints", "streams", "sizes", "faults", "endings", "tokens", "rows",
    "thin",
}  # fmt: skip
LEAVING_TOKENS = 3
"""How much a client reads of an answer that may have no end, before it leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the command line asks of a scenario. `endpoint` None: both."""

    seed: int
    nonce: str
    deadline_s: float | None
    endpoint: Endpoint | None
    refuses: tuple[str, ...]
    serves: tuple[str, ...]
    """Rows in which the profile differs from the catalogue."""
    honours: tuple[str, ...]
    """Parameters that the profile promises to honour where they are accepted."""


def load(name: str, target: Target, choice: Choice) -> Plan:
    """The plan of a scenario, by its name in scenarios/ or as a file. Raises PlanError with one line that says what to do."""
    raw = _read(_path(name))
    thresholds = _read(FOLDER / "thresholds.toml") | raw.get("thresholds", {})
    prompts = {str(key): str(text) for key, text in raw.get("prompts", _read(FOLDER / "prompts.toml")).items()}
    _known(raw, {"name", "stage", "thresholds", "prompts"}, "the scenario")
    draw = random.Random(choice.seed)
    stages = tuple(_stage(each, target, choice, prompts, draw) for each in raw.get("stage", []))
    if not stages:
        raise PlanError(f"scenario {name!r} has no [[stage]]: add one")
    return Plan(
        schema_version=1,
        scenario=str(raw.get("name", Path(name).stem)),
        seed=choice.seed,
        nonce=choice.nonce,
        deadline_s=choice.deadline_s,
        target=target,
        prompts=prompts,
        rows=_rows(choice),
        thresholds={key: Threshold(value=float(entry["value"]), reason=str(entry["reason"])) for key, entry in thresholds.items()},
        stages=stages,
    )


def _path(name: str) -> Path:
    named = FOLDER / f"{name}.toml"
    if named.is_file() and name not in ("thresholds", "prompts"):
        return named
    if Path(name).is_file():
        return Path(name)
    known = sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem not in ("thresholds", "prompts"))
    raise PlanError(f"no scenario {name!r}: use one of {', '.join(known)}, or the path of a TOML file")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlanError(f"cannot read {path.name}: {error}") from error


def _known(raw: Mapping[str, Any], words: set[str], where: str) -> None:
    unknown = sorted(raw.keys() - words)
    if unknown:
        raise PlanError(f"{where} has an unknown key {unknown[0]!r}: known are {', '.join(sorted(words))}")


def _stage(raw: dict[str, Any], target: Target, choice: Choice, prompts: dict[str, str], draw: random.Random) -> Stage:
    name = str(raw.get("name", "?"))
    _known(raw, _STAGE_WORDS, f"stage {name!r}")
    groups = [_group(each, name, target, choice, prompts, draw) for each in raw.get("group", [])]
    return Stage(
        name=name,
        groups=tuple(group for group in groups if group.items),
        budget_s=float(raw.get("budget_s", 3600)),
        limit_units=float(raw.get("limit_units", 3)),
        follow_ups=int(raw.get("follow_ups", 0)),
        watch_s=float(raw.get("watch_s", 0)),
        faulty=bool(raw.get("faulty", False)),
    )


def _group(raw: dict[str, Any], stage: str, target: Target, choice: Choice, prompts: dict[str, str], draw: random.Random) -> Group:
    name = str(raw.get("name", "?"))
    _known(raw, _GROUP_WORDS, f"group {stage}/{name}")
    cap = target.active_cap or 8
    try:
        kinds = list(_kinds(raw, target, choice, prompts))
        count = int(raw.get("count", 0)) + int(raw.get("count_per_cap", 0)) * cap or len(kinds)
        if "rows" not in raw:
            draw.shuffle(kinds)
        items = tuple(_drawn(kind, raw, draw) for kind in itertools.islice(itertools.cycle(kinds), count if kinds else 0))
        users = max(1, round(float(raw.get("users_per_cap", 0)) * cap) + int(raw.get("users", 0)))
        return Group(
            name=name,
            user=str(raw["user"]),
            users=min(users, len(items)) if items else 0,
            items=items,
            min_count=int(raw.get("min_count", len(items))),
            loop=bool(raw.get("loop", False)),
            waits_for=raw.get("waits_for"),
            spacing_s=float(raw.get("spacing_s", 0)),
            released_by=tuple(raw.get("released_by", ())),
            hold_tokens=int(raw.get("hold_tokens", 0)),
            hold_s=float(raw.get("hold_s", 0)),
            needs=int(raw.get("needs", 0)),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise PlanError(f"group {stage}/{name}: {type(error).__name__} {error}; see the comments in scenarios/quick.toml") from error


def _kinds(raw: dict[str, Any], target: Target, choice: Choice, prompts: dict[str, str]) -> Iterator[Item]:
    """Every combination that a group names, once."""
    role = Role(raw["role"])
    endpoints = [word for word in map(Endpoint, raw.get("endpoints", ["completions", "chat"])) if choice.endpoint in (None, word)]
    if not endpoints and choice.endpoint is not None:
        endpoints = [choice.endpoint]
    keys = [key for prefix in raw.get("prompts", ["short"]) for key in prompts if key.startswith(prefix)]
    if "rows" in raw:
        yield from _row_kinds(raw, role, endpoints, keys, _sent_rows(raw["rows"], target, choice))
        return
    faults = raw.get("faults", ["none"])
    unknown = [fault for fault in faults if fault not in FAULTS]
    if unknown:
        raise ValueError(f"no fault {unknown[0]!r}, known are {', '.join(FAULTS)}")
    sizes = [str(size) for size in raw.get("sizes", ["unit"])]
    if wrong := [size for size in sizes if size not in ("unit", "endless") and not size.isdecimal()]:
        raise ValueError(f"no size {wrong[0]!r}: unit, endless, or a number of tokens")
    endings = raw.get("endings", ["fin"] if faults != ["none"] else ["normal"])
    for fault, endpoint, stream, key, ending, size in itertools.product(
        faults, endpoints, raw.get("streams", [True]), keys, endings, sizes
    ):
        yield Item(
            role=role, endpoint=endpoint, stream=bool(stream), prompt=key, size=size, fault=fault,
            ending=Ending(ending), tokens=0, row=None,
        )  # fmt: skip


def _sent_rows(chosen: list[str], target: Target, choice: Choice) -> Iterator[tuple[BadRow, bool]]:
    """The rows of a group, and whether their clients have to be ready to leave. What is beyond a context that nobody stated is not sent."""
    for row in bad_requests.catalogue().values():
        if (chosen == ["all"] or row.name in chosen) and not (row.needs_context and target.context_length is None):
            yield row, row.endless and _contract(row, choice) is not Contract.MUST_REFUSE


def _row_kinds(
    raw: dict[str, Any], role: Role, endpoints: list[Endpoint], keys: list[str], rows: Iterator[tuple[BadRow, bool]]
) -> Iterator[Item]:
    number = itertools.count()
    for place, (row, leaving) in enumerate(rows):
        its = [each for each in endpoints if each in row.endpoints]
        if its and raw.get("thin", False):
            its = [its[place % len(its)]]
        for endpoint, mode in itertools.product(its, [True] if leaving else row.modes):
            yield Item(
                role=role, endpoint=endpoint, stream=mode, prompt=keys[next(number) % len(keys)], size="unit", row=row.name,
                fault="cancel_after_tokens" if leaving else "none", ending=Ending.FIN if leaving else Ending.NORMAL,
                tokens=LEAVING_TOKENS if leaving else 0,
            )  # fmt: skip


def _drawn(kind: Item, raw: dict[str, Any], draw: random.Random) -> Item:
    """An item of a kind, with what is drawn for each anew."""
    low, high = raw.get("tokens", [0, 0])
    if not high:
        return kind
    return Item(
        role=kind.role, endpoint=kind.endpoint, stream=kind.stream, prompt=kind.prompt, size=kind.size, fault=kind.fault,
        ending=kind.ending, tokens=draw.randint(low, high), row=kind.row,
    )  # fmt: skip


def _contract(row: BadRow, choice: Choice) -> Contract:
    return Contract.MUST_REFUSE if row.name in choice.refuses else Contract.EITHER if row.name in choice.serves else row.contract


def _rows(choice: Choice) -> dict[str, Row]:
    known = bad_requests.catalogue()
    for name in (*choice.refuses, *choice.serves):
        if name not in known:
            raise PlanError(f"the profile names row {name!r}, which is not in faults/bad_requests.toml")
    rows = {}
    for name, row in known.items():
        proof = row.proof if row.parameter is None or row.parameter in choice.honours else None
        rows[name] = Row(contract=_contract(row, choice), why=row.why, traced=row.traced, proof=proof)
    return rows
