"""The order of a run: what the master asks for, when it reads the server, and when it gives up."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gevent
import pytest

from analysis.observation import Observation, Problem, StageMark
from tests.users.test_rounds import GROUP, ITEM, plan
from users.director import HOPELESS_TIMEOUTS, Director
from users.rounds import Speed


@dataclass
class Diary:
    """A fleet of one worker that does each round at once, and a watcher; both write down what they are asked."""

    asked: list[str] = field(default_factory=list)
    observed: list[Observation] = field(default_factory=list)
    director: Director | None = None
    timeouts_a_round: int = 0

    def seats(self) -> Mapping[str, Mapping[str, int]]:
        return {"0": {"NormalUser": 3}}

    def send(self, kind: str, data: dict[str, Any], worker: str | None = None) -> None:
        if kind != "gate_round":
            return
        self.asked.append("follow-ups" if data["follow_up"] else "items")
        assert self.director is not None
        self.director.timeouts += self.timeouts_a_round
        gevent.spawn(self.director.progress, 0, data["number"], "done", "")

    def settle(self, stage: str) -> None:
        self.asked.append("settle")

    def reading(self, stage: str, moment: str) -> None:
        self.asked.append(moment)

    def watch(self, stage: str, seconds: float) -> None:
        self.asked.append("watch")

    def now_in(self, stage: str) -> None:
        self.asked.append(stage)


def walked(diary: Diary, stage_count: int = 1, speed: Speed | None = None) -> Diary:
    whole = plan(replace(GROUP, items=(ITEM,) * 2))
    stages = tuple(replace(whole.stages[0], name=f"s{number}", follow_ups=1, watch_s=1.0) for number in range(stage_count))
    diary.director = Director(plan=replace(whole, stages=stages), fleet=diary, watcher=diary, observe=diary.observed.append)
    diary.director.speed = speed or Speed()
    diary.director.run()
    return diary


def test_the_server_may_settle_before_each_reading_at_rest() -> None:
    assert walked(Diary()).asked == ["s0", "items", "settle", "settled", "follow-ups", "settle", "poked", "watch"]


@pytest.mark.parametrize("timeouts, stages", [(0, 4), (1, 1), (HOPELESS_TIMEOUTS, 1)])
def test_a_server_that_stopped_answering_is_not_waited_for_stage_after_stage(timeouts: int, stages: int) -> None:
    diary = walked(Diary(timeouts_a_round=timeouts), 4)
    assert sum(isinstance(one, StageMark) and one.edge == "begin" for one in diary.observed) == stages
    given_up = [one.detail for one in diary.observed if isinstance(one, Problem)]
    assert (stages < 4) is bool(given_up)
    assert all("the stages after s0 were not run" in detail for detail in given_up)


def test_one_deadline_is_no_reason_to_give_up_once_the_pace_is_known() -> None:
    diary = walked(Diary(timeouts_a_round=1), 3, Speed(first_token_s=0.1, token_gap_s=0.01, unit_tokens=48))
    assert sum(isinstance(one, StageMark) and one.edge == "begin" for one in diary.observed) == 3
