"""Deliberate bugs, by name, for judging the gate: each a subclass of `Seams` that gets one decision wrong.

They are only imported when one is asked for, so a clean server has none of this code in its process. `catalogue` has them all.
"""

from server_launch.reference.seams import Seams


class UnknownPlant(Exception):
    """No planted bug has this name."""


def load(name: str | None) -> Seams:
    """The seams of a server with this bug, or of the honest one for None. Raises UnknownPlant."""
    if name is None:
        return Seams()
    from server_launch.reference.planted.catalogue import PLANTED

    if name not in PLANTED:
        raise UnknownPlant(f"--plant {name}: no such planted bug; there are {', '.join(PLANTED)}")
    return PLANTED[name].seams()
