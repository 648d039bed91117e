"""Dealing a stage to workers, and what one worker makes of its part."""

from dataclasses import replace

import pytest

from analysis.plan import Group, Item, Plan, Stage
from analysis.vocabulary import Ending, Endpoint, Role
from tests.users.test_scenario import TARGET
from users.agenda import Agenda
from users.director import Share, deal, unit_tokens
from users.lessons import Lesson
from users.rounds import Round, Speed

ITEM = Item(
    role=Role.NORMAL, endpoint=Endpoint.COMPLETIONS, stream=True, prompt="p", size="unit", fault="none", ending=Ending.NORMAL, tokens=0,
    row=None,
)  # fmt: skip
GROUP = Group(
    name="g", user="NormalUser", users=3, items=(ITEM,) * 7, min_count=7, loop=False, waits_for=None, spacing_s=0.0, released_by=(),
    hold_tokens=0, hold_s=0.0, needs=0,
)  # fmt: skip


def plan(*groups: Group) -> Plan:
    stage = Stage(name="s", groups=groups, budget_s=3600, limit_units=3, follow_ups=0, watch_s=0, faulty=False)
    return Plan(
        schema_version=1, scenario="x", seed=1, nonce="0" * 16, deadline_s=None, target=TARGET, prompts={"p": "Hello"}, rows={},
        thresholds={},
        stages=(stage,),
    )  # fmt: skip


def part(*groups: Group) -> Round:
    return Round(
        number=1, stage=0, follow_up=False, items={each.name: tuple(range(len(each.items))) for each in groups},
        users={each.name: each.users for each in groups}, deadline_s=20.0, speed=Speed(first_token_s=0.1, token_gap_s=0.01, unit_tokens=12),
    )  # fmt: skip


def agenda(*groups: Group) -> Agenda:
    made = Agenda(plan(*groups), 0, lambda kind, number, value: None)
    made.begin(part(*groups))
    return made


def test_every_item_is_dealt_once_and_every_user_too() -> None:
    parts = deal((GROUP, replace(GROUP, name="h", users=2)), {"0": {"NormalUser": 3}, "1": {"NormalUser": 2}})
    for name, users in (("g", 3), ("h", 2)):
        dealt = [index for share in parts.values() for index in share.items.get(name, ())]
        assert sorted(dealt) == list(range(7))
        assert sum(share.users.get(name, 0) for share in parts.values()) == users


def test_a_worker_without_seats_gets_nothing() -> None:
    parts = deal((GROUP,), {"0": {"NormalUser": 3}, "1": {}})
    assert parts["1"] == Share()
    assert len(parts["0"].items["g"]) == 7


def test_a_round_survives_the_wire() -> None:
    lesson = Lesson(prompt="p", endpoint=Endpoint.CHAT, text=" hi", first_token_s=0.1, token_gap_s=None)
    sent = replace(part(GROUP), lessons=(lesson,))
    assert Round.parse(sent.message()) == sent


def test_no_more_users_work_on_a_group_than_it_has() -> None:
    made = agenda(GROUP)
    jobs = [made._pick("NormalUser") for _ in range(4)]
    assert [job is None for job in jobs] == [False, False, False, True]
    assert jobs[0] is not None
    made.end(jobs[0])
    again = made._pick("NormalUser")
    assert again is not None and again.index == 3
    assert made._pick("MalformedUser") is None


def test_a_group_waits_for_its_milestone() -> None:
    made = agenda(GROUP, replace(GROUP, name="late", user="HoldingUser", waits_for="g:sent"))
    assert made._pick("HoldingUser") is None
    made.reach(1, "g:sent")
    assert made._pick("HoldingUser") is not None


def test_holders_are_released_by_all_their_milestones_and_by_a_cut() -> None:
    holders = replace(GROUP, user="HoldingUser", released_by=("a:sent", "b:ended"))
    made = agenda(holders)
    job = made._pick("HoldingUser")
    assert job is not None
    made.reach(1, "a:sent")
    assert job.release.at_s is None
    made.reach(1, "b:ended")
    assert job.release.at_s is not None
    other = agenda(holders)
    job = other._pick("HoldingUser")
    other.cut(1)
    assert job is not None and job.release.at_s is not None and other._pick("HoldingUser") is None


def test_loops_go_on_until_they_are_ended_and_number_their_items_on() -> None:
    made = agenda(replace(GROUP, items=(ITEM,) * 2, users=1, loop=True))
    numbers = []
    for _ in range(5):
        job = made._pick("NormalUser")
        assert job is not None
        numbers.append(job.index)
        made.end(job)
    assert numbers == [0, 1, 2, 3, 4]
    made.end_loops(1)
    assert made._pick("NormalUser") is None


@pytest.mark.parametrize(("gap_s", "tokens"), [(0.001, 48), (0.0, 48), (0.02, 25), (1.0, 12)])
def test_a_normal_request_is_half_a_second_long_within_limits(gap_s: float, tokens: int) -> None:
    assert unit_tokens(gap_s) == tokens


def test_what_is_said_of_a_round_that_is_over_means_nothing_for_the_next() -> None:
    holders = replace(GROUP, name="h", user="HoldingUser", released_by=("g:sent",))
    late, loop = replace(GROUP, name="late", waits_for="g:sent"), replace(GROUP, name="loop", user="MalformedUser", loop=True)
    made = agenda(holders, late, loop)
    made.begin(replace(part(holders, late, loop), number=2))
    job = made._pick("HoldingUser")
    made.reach(1, "g:sent")
    made.end_loops(1)
    made.cut(1)
    assert job is not None and job.release.at_s is None
    assert made._pick("NormalUser") is None and made._pick("MalformedUser") is not None
    made.reach(2, "g:sent")
    assert job.release.at_s is not None and made._pick("NormalUser") is not None
