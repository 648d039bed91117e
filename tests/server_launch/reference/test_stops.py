"""Stop strings against the plain definition: cut the whole text before the first occurrence."""

from hypothesis import given
from hypothesis import strategies as st

from server_launch.reference.stops import StopFilter

pieces = st.lists(st.text("ab", max_size=4), max_size=12)
stop_strings = st.lists(st.text("ab", min_size=1, max_size=4), max_size=4)


def run(parts: list[str], stops: list[str]) -> tuple[list[str], bool]:
    """What is sent for each piece, and whether it was stopped."""
    matcher = StopFilter(stops)
    sent = []
    for part in parts:
        text, stopped = matcher.feed(part)
        sent.append(text)
        if stopped:
            return sent, True
    return [*sent, matcher.flush()], False


def first_cut(text: str, stops: list[str]) -> int | None:
    """Where the text has to end: at the first stop string to be complete as the text grows."""
    for end in range(len(text) + 1):
        found = [at for stop in stops if (at := text[:end].find(stop)) >= 0]
        if found:
            return min(found)
    return None


@given(pieces, stop_strings)
def test_what_is_sent_is_the_text_before_the_first_stop_string(parts: list[str], stops: list[str]) -> None:
    single = [letter for part in parts for letter in part]
    sent, stopped = run(single, stops)
    cut = first_cut("".join(parts), stops)
    assert stopped == (cut is not None)
    assert "".join(sent) == "".join(parts)[:cut]


@given(pieces, stop_strings)
def test_nothing_sent_ever_contains_a_stop_string(parts: list[str], stops: list[str]) -> None:
    sent, _ = run(parts, stops)
    assert not any(stop in "".join(sent) for stop in stops)


def test_without_stop_strings_nothing_is_held_back() -> None:
    assert run(["a", "b", ""], []) == (["a", "b", "", ""], False)


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    assert run(["xa", "b", "y"], ["abc"]) == (["x", "", "aby", ""], False)
