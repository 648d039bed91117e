"""Writer and reader share one definition: what is written comes back, and what is not whole is refused."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import observation
from analysis.observation import MetricsReading, Observation
from analysis.plan import Plan, Threshold
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role
from tests.analysis import build

finite = st.floats(allow_nan=False, allow_infinity=False)
RECORD = build.completed("control", 0.0)
KINDS: tuple[type[Any], ...] = Observation.__args__  # type: ignore[attr-defined]

records = st.builds(
    dataclasses.replace,
    st.just(RECORD),
    text=st.text(st.characters()),
    detail=st.text(),
    outcome=st.sampled_from(Outcome),
    role=st.sampled_from(Role),
    token_times_s=st.lists(finite).map(tuple),
    token_chars=st.lists(st.integers()).map(tuple),
    problems=st.lists(st.text()).map(tuple),
    first_token_s=st.none() | finite,
    max_tokens=st.none() | st.integers(),
    row=st.none() | st.text(),
)


@settings(deadline=None)
@given(records)
def test_a_record_comes_back_as_it_was(record: RequestRecord) -> None:
    line = record.line()
    assert "\n" not in line and RequestRecord.parse(line) == record


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "1", '{"request_id": "x"}', "{" * 5_000])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        RequestRecord.parse(text)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RequestRecord)])
def test_a_record_without_one_of_its_fields_or_with_one_more_is_refused(name: str) -> None:
    raw = json.loads(RECORD.line())
    with pytest.raises(ValueError):
        RequestRecord.parse(json.dumps({key: value for key, value in raw.items() if key != name}))
    with pytest.raises(ValueError):
        RequestRecord.parse(json.dumps({**raw, f"{name}_too": 1}))


def values(hint: Any) -> Any:
    """A strategy for the type of a field."""
    simple = {str: st.text(), float: finite, int: st.integers(), bool: st.booleans(), dict[str, float]: st.dictionaries(st.text(), finite)}
    if hint in simple:
        return simple[hint]
    return st.none() | simple[hint.__args__[0]]


@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_an_observation_of_every_kind_comes_back_as_it_was(kind: type[Any], data: st.DataObject) -> None:
    note = kind(**{field.name: data.draw(values(field.type)) for field in dataclasses.fields(kind)})
    line = observation.line(note)
    assert "\n" not in line and observation.parse(line) == note


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"kind":"elsewhere"}', '{"kind":"stage","at_unix_s":1.0}', '{"kind":["stage"]}'])
def test_what_is_no_observation_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        observation.parse(text)


def test_an_absent_gauge_stays_absent() -> None:
    note = MetricsReading(at_unix_s=1.0, stage="x", moment="sample", gauges={"running": 0.0}, counters={})
    back = observation.parse(observation.line(note))
    assert isinstance(back, MetricsReading) and "waiting" not in back.gauges


@given(st.integers(), st.dictionaries(st.text(), st.text()), st.none() | finite, st.dictionaries(st.text(), finite))
def test_a_plan_comes_back_as_it_was(seed: int, prompts: dict[str, str], deadline_s: float | None, limits: dict[str, float]) -> None:
    thresholds = {name: Threshold(value=value, reason="why") for name, value in limits.items()}
    plan = build.plan(seed=seed, prompts=prompts, deadline_s=deadline_s, thresholds=thresholds)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"target": 1}', build.plan().to_json().replace('"stages"', '"acts"')])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Plan.from_json(text)
