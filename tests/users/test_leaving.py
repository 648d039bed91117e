"""The exchange over real sockets: how a client leaves, what the server sees of it, and what ends a request from outside."""

import threading

import pytest

from analysis.vocabulary import Ending, ErrorKind, Outcome, Phase
from faults.abandon_whole import AbandonWhole
from faults.cancel_after_tokens import CancelAfterTokens
from faults.fault import Dwell
from faults.leave_after_headers import LeaveAfterHeaders
from faults.leave_after_send import LeaveAfterSend
from tests.fakes.raw import PATIENCE_S, STREAM_HEAD, Peer, RawServer, event
from tests.users.build import GOOD, answered, exchange, link, request, token
from users.exchange import Exchange, Release

# --- how we leave -----------------------------------------------------------------------------------------------------------


def _streams_until_left(peer: Peer) -> None:
    peer.request()
    peer.send(STREAM_HEAD + event(token(" one")) + event(token(" two")))
    peer.until_end()


@pytest.mark.parametrize(
    ("ending", "seen"), [(Ending.FIN, "fin"), (Ending.RST, "reset")]
)  # fmt: skip
def test_leaving_looks_to_the_server_as_it_was_asked(ending: Ending, seen: str) -> None:
    with RawServer(_streams_until_left) as server:
        record = exchange(server, request(CancelAfterTokens(tokens=2), ending))
        server.join()
    assert server.peers[0].end == seen
    assert (record.outcome, record.ending, record.landed, record.phase) == (Outcome.CANCELLED, ending, True, Phase.STREAMING)
    assert record.text == " one two"
    assert record.cut_s is not None and record.last_token_s is not None
    assert record.last_token_s <= record.cut_s <= record.ended_s


def test_leaving_with_bytes_unread_is_a_reset_and_counted() -> None:
    flooded = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD + event(token(" one")))
        peer.send(event(token(" two")) * 2_000)
        flooded.set()
        peer.until_end()

    def noted(phase: str) -> None:
        if phase == "first_token":
            assert flooded.wait(PATIENCE_S)

    with RawServer(script) as server:
        record = exchange(server, request(CancelAfterTokens(tokens=1), Ending.FIN_UNREAD), noted=noted)
        server.join()
    assert (record.ending, server.peers[0].end) == (Ending.FIN_UNREAD, "reset")
    assert record.unread_bytes > 0


def test_leaving_before_the_first_token_is_a_disconnect() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.until_end()

    with RawServer(script) as server:
        record = exchange(server, request(LeaveAfterSend(dwell=Dwell(seconds=0.05)), Ending.RST))
        server.join()
    assert (record.outcome, record.phase, record.landed) == (Outcome.DISCONNECTED, Phase.AWAITING_HEADERS, True)
    assert record.cut_s is not None and record.sent_s is not None and record.cut_s - record.sent_s >= 0.05
    assert server.peers[0].end == "reset"


def test_leaving_at_the_headers() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD)
        peer.until_end()

    with RawServer(script) as server:
        record = exchange(server, request(LeaveAfterHeaders()))
    assert (record.outcome, record.phase, record.landed, record.status) == (Outcome.DISCONNECTED, Phase.AWAITING_FIRST_TOKEN, True, 200)


def test_a_fault_that_came_too_late_did_not_land() -> None:
    with RawServer(answered(*GOOD)) as server:
        record = exchange(server, request(LeaveAfterHeaders()))
    assert record.landed is False
    assert record.outcome in (Outcome.COMPLETED, Outcome.CANCELLED)


def test_an_answer_that_was_over_before_its_client_left_is_completed() -> None:
    with RawServer(answered(*GOOD)) as server:
        record = exchange(server, request(CancelAfterTokens(tokens=2)))
    assert (record.outcome, record.landed) == (Outcome.COMPLETED, False)


def test_abandoning_a_whole_answer() -> None:
    with RawServer(lambda peer: (peer.request(), peer.until_end(), None)[2]) as server:
        record = exchange(server, request(AbandonWhole(dwell=Dwell(seconds=0.05)), stream=False))
        server.join()
    assert (record.outcome, record.landed, server.peers[0].end) == (Outcome.DISCONNECTED, True, "fin")


# --- what ends from outside ---------------------------------------------------------------------------------------------


class _Killed(BaseException):
    """As gevent kills a greenlet."""


def test_an_exchange_that_is_killed_is_one_that_the_harness_stopped() -> None:
    def kill(phase: str) -> None:
        raise _Killed

    with RawServer(_streams_until_left) as server:
        done = Exchange(request(), link(server), Release(), kill)
        with pytest.raises(_Killed):
            done.run()
        record = done.record()
        server.join()
    assert (record.outcome, record.error) == (Outcome.HARNESS_STOPPED, ErrorKind.STOPPED)
    assert server.peers[0].end


def test_our_own_mistake_is_named_and_proves_nothing() -> None:
    def broken(phase: str) -> None:
        raise KeyError("no such thing")

    with RawServer(_streams_until_left) as server:
        record = exchange(server, noted=broken)
    assert (record.outcome, record.error) == (Outcome.HARNESS_STOPPED, ErrorKind.HARNESS)
    assert "KeyError" in record.detail
