"""The load shape: as many users of each class as the widest stage needs, for as long as the director walks the plan.

Users take their work from the plan, so that a stage changes what they do, not how many there are: no user is ever killed in
the middle of a request because a stage ended.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from locust import LoadTestShape

from analysis.plan import Plan
from users.clients import USERS, Client


def mix(plan: Plan) -> dict[type[Client], int]:
    """Users of each class, for the stage that needs the most of them."""
    most: Counter[str] = Counter({"NormalUser": 1})
    for stage in plan.stages:
        here: Counter[str] = Counter()
        for group in stage.groups:
            here[group.user] += group.users
        most |= here
    return {user: most[user.__name__] for user in USERS if most[user.__name__]}


class PlanShape(LoadTestShape):
    """`begin` prepares a run and gives its plan, `over` says whether it has ended; both are set by whoever wires the run."""

    use_common_options = False
    begin: ClassVar[Callable[[], Plan]]
    over: ClassVar[Callable[[], bool]]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mix: dict[type[Client], int] | None = None

    def forget(self) -> None:
        """The run is over: the next tick begins another. Locust's own reset will not do: a master calls it in the middle of a start."""
        self._mix = None

    def tick(self) -> Any:
        """(users, users to spawn a second, classes), or None at the end."""
        if self._mix is None:
            self._mix = mix(type(self).begin())
            for user, count in self._mix.items():
                user.fixed_count = count
        if type(self).over():
            return None
        total = sum(self._mix.values())
        return total, total, list(self._mix)
