"""From a scenario and a target to a plan: drawn from the seed, scaled with the cap, and strict about what it does not know."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.plan import Plan, PlanError, Target
from analysis.vocabulary import Endpoint, Role
from users import scenario
from users.scenario import Choice

ROOT = Path(__file__).resolve().parents[2]
TARGET = Target(
    profile="some", base_url="http://127.0.0.1:1", model="m", active_cap=8, context_length=4096, request_id_in_body=True, ignore_eos=True,
    batch_invariant=True, stream_refusal="status", queue="queued", queued_leaver="at_once", health_path=None, metrics_path=None,
    running_gauge=None, waiting_gauge=None, gauges="none", trace=None, launched=False,
)  # fmt: skip
CHOICE = Choice(seed=7, nonce="0" * 16, deadline_s=None, endpoint=None, refuses=(), serves=(), honours=())


def plan(name: str = "quick", target: Target = TARGET, choice: Choice = CHOICE) -> Plan:
    return scenario.load(name, target, choice)


@pytest.mark.parametrize("name", ["quick", "standard", "clean"])
def test_a_scenario_makes_a_plan_that_survives_its_file(name: str) -> None:
    made = plan(name)
    assert Plan.from_json(made.to_json()) == made
    assert len({stage.name for stage in made.stages}) == len(made.stages)


def test_equal_seeds_give_equal_plans_and_others_do_not() -> None:
    assert plan() == plan()
    assert plan(choice=replace(CHOICE, seed=8)).stages != plan().stages


def test_users_and_items_scale_with_the_cap() -> None:
    def holders(cap: int) -> tuple[int, int]:
        stages = {stage.name: stage for stage in plan(target=replace(TARGET, active_cap=cap)).stages}
        group = next(group for group in stages["overload"].groups if group.name == "holders")
        return group.users, len(group.items)

    assert [holders(cap) for cap in (1, 8, 32)] == [(1, 1), (8, 8), (32, 32)]


def test_one_endpoint_can_be_asked_for() -> None:
    made = plan(choice=replace(CHOICE, endpoint=Endpoint.CHAT))
    used = {item.endpoint for stage in made.stages for group in stage.groups for item in group.items if item.role is not Role.BAD}
    assert used == {Endpoint.CHAT}


def test_every_prompt_that_is_compared_has_a_reference() -> None:
    for name in ("quick", "standard", "clean"):
        items = [item for stage in plan(name).stages for group in stage.groups for item in group.items]
        known = {(item.prompt, item.endpoint) for item in items if item.role is Role.REFERENCE}
        compared = {
            (item.prompt, item.endpoint) for item in items if item.role in (Role.CONTROL, Role.BYSTANDER, Role.NORMAL, Role.FOLLOW_UP)
        }
        assert compared <= known


def test_the_clean_scenario_misbehaves_nowhere() -> None:
    made = plan("clean")
    assert not any(stage.faulty for stage in made.stages)
    assert {(item.fault, item.row) for stage in made.stages for group in stage.groups for item in group.items} == {("none", None)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[stage]]\nname='a'\nsurprise=1", "surprise"),
        ("[[stage]]\nname='a'\n[[stage.group]]\nname='b'\nuser='NormalUser'\nrole='normal'\nusres=1", "usres"),
        ("[[stage]]\nname='a'\n[[stage.group]]\nname='b'\nuser='NormalUser'\nrole='hero'", "hero"),
        ("[[stage]]\nname='a'\n[[stage.group]]\nname='b'\nuser='NormalUser'\nrole='normal'\nfaults=['sulk']", "sulk"),
        ("[[stage]]\nname='a'\n[[stage.group]]\nname='b'\nuser='NormalUser'\nrole='normal'\nsizes=['big']", "big"),
        ("name='empty'", "[[stage]]"),
        ("name=", "cannot read"),
    ],
)
def test_what_it_does_not_know_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(PlanError) as caught:
        plan(str(path))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_name_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(PlanError, match="clean, quick, standard"):
        plan("quik")


def test_what_a_worker_imports_is_small() -> None:
    code = "import sys, users.clients, users.worker, users.gate; print({'pandas', 'torch', 'transformers', 'pyarrow'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
