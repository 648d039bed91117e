"""Do nothing: the client stays to the end."""

from dataclasses import dataclass

from faults.fault import Aim, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """The do-nothing member of the family."""

    name: str = "none"

    def leaves(self, progress: Progress) -> bool:
        """Never."""
        return False

    def patience_s(self, progress: Progress) -> float | None:
        """For ever."""
        return None

    def landed(self, progress: Progress) -> bool:
        """Never: it does not leave."""
        return False


def make(aim: Aim) -> Nothing:
    """The fault; the aim means nothing to it."""
    return Nothing()
