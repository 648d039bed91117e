"""`python -m server_launch.reference.planted`: the planted bugs as a page of Markdown, kind by kind."""

from collections.abc import Iterator

from server_launch.reference.planted.bug import Kind
from server_launch.reference.planted.catalogue import PLANTED


def page() -> Iterator[str]:
    """The lines of the page."""
    yield "# Planted bugs"
    yield ""
    yield f"{len(PLANTED)} bugs that the reference server can be started with (`--plant NAME`), each after a public report."
    yield "A run of the gate must fail, and one of the checks named here must be among the failed ones."
    for kind in Kind:
        yield from (
            "",
            f"## {kind}. {kind.name.replace('_', ' ').capitalize()}",
            "",
            "| name | what is wrong | after | caught by |",
            "|---|---|---|---|",
        )
        for bug in PLANTED.values():
            if bug.kind is kind:
                yield f"| {bug.name} | {bug.sentence} | {bug.source} | {', '.join(bug.checks)} |"


if __name__ == "__main__":
    print("\n".join(page()))
