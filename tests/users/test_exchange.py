"""The exchange over real sockets: each way in which an answer can come, break, or be left."""

import threading

import pytest

from analysis.vocabulary import Ending, ErrorKind, Outcome, Phase
from tests.fakes.raw import LAST_CHUNK, PATIENCE_S, STREAM_HEAD, Peer, RawServer, event, response
from tests.users.build import GOOD, answered, exchange, link, request, token, usage

WHOLE = (
    b'{"id":"cmpl-1","choices":[{"index":0,"text":" one two","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
)
REFUSAL = b'{"error":{"message":"no","type":"invalid_request_error"}}'


def test_a_whole_stream_is_completed_with_all_that_it_said() -> None:
    with RawServer(answered(*GOOD)) as server:
        record = exchange(server)
    assert (record.outcome, record.error, record.phase, record.problems) == (Outcome.COMPLETED, ErrorKind.NONE, Phase.FINISHED, ())
    assert (record.text, record.finish_reason, record.prompt_tokens, record.completion_tokens) == (" one two", "length", 1, 2)
    assert (record.status, record.content_type, record.response_id, record.token_events) == (200, "text/event-stream", "cmpl-1", 2)
    times = [record.connected_s, record.sent_s, record.headers_s, record.first_token_s, record.last_token_s, record.ended_s]
    assert None not in times and times == sorted(times, key=lambda each: each or 0.0)


def test_an_event_is_stamped_before_the_next_one_is_sent() -> None:
    seen = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD + event(token(" one")))
        assert seen.wait(PATIENCE_S), "the client sat on the first event"
        peer.send(event(token(" two", "length")) + event("[DONE]") + LAST_CHUNK)

    with RawServer(script) as server:
        record = exchange(server, noted=lambda phase: seen.set() if phase == "first_token" else None)
    assert record.outcome is Outcome.COMPLETED
    assert record.token_times_s[0] < record.token_times_s[1]


def test_a_whole_body_is_completed() -> None:
    with RawServer(lambda peer: (peer.request(), peer.send(response(WHOLE)))[1]) as server:
        record = exchange(server, request(stream=False))
    assert (record.outcome, record.text, record.completion_tokens, record.token_times_s) == (Outcome.COMPLETED, " one two", 2, ())


def test_a_body_that_ends_with_the_connection_is_completed() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + WHOLE)

    with RawServer(script) as server:
        record = exchange(server, request(stream=False))
    assert (record.outcome, record.text) == (Outcome.COMPLETED, " one two")


def test_a_stream_that_ends_with_the_connection_is_completed_when_it_was_terminated() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        peer.send("".join(f"data: {data}\n\n" for data in GOOD).encode())

    with RawServer(script) as server:
        record = exchange(server)
    assert (record.outcome, record.text, record.problems) == (Outcome.COMPLETED, " one two", ())


def test_an_interim_answer_is_no_answer() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n" + response(WHOLE))

    with RawServer(script) as server:
        record = exchange(server, request(stream=False))
    assert (record.outcome, record.status, record.text) == (Outcome.COMPLETED, 200, " one two")


# --- what a server breaks ---------------------------------------------------------------------------------------------


def _cut_after(data: bytes) -> RawServer:
    return RawServer(lambda peer: (peer.request(), peer.send(data))[1])


@pytest.mark.parametrize(
    ("sent", "error", "phase"),
    [
        (b"", ErrorKind.CUT, Phase.AWAITING_HEADERS),
        (b"HTTP/1.1 200 OK\r\ncontent-ty", ErrorKind.CUT, Phase.AWAITING_HEADERS),
        (STREAM_HEAD, ErrorKind.CUT, Phase.AWAITING_FIRST_TOKEN),
        (STREAM_HEAD + event(token(" one")), ErrorKind.CUT, Phase.STREAMING),
        (STREAM_HEAD + event(token(" one", "length")), ErrorKind.CUT, Phase.FINISHED),
        (STREAM_HEAD + event(token(" one")) + LAST_CHUNK, ErrorKind.CUT, Phase.FINISHED),
        (STREAM_HEAD + event(token(" one", "length")) + LAST_CHUNK, ErrorKind.CUT, Phase.FINISHED),
        (response(WHOLE)[:-5], ErrorKind.CUT, Phase.AWAITING_FIRST_TOKEN),
        (b"SMTP ready\r\n\r\n", ErrorKind.PROTOCOL, Phase.AWAITING_HEADERS),
        (response(b"oops", "500 Internal Server Error"), ErrorKind.SERVER_ERROR, Phase.FINISHED),
        (response(b"{}", "302 Found"), ErrorKind.PROTOCOL, Phase.FINISHED),
        (response(b"not json"), ErrorKind.PROTOCOL, Phase.FINISHED),
    ],
)
def test_what_a_server_breaks_is_a_failure(sent: bytes, error: ErrorKind, phase: Phase) -> None:
    with _cut_after(sent) as server:
        record = exchange(server)
    assert (record.outcome, record.error, record.phase) == (Outcome.FAILED, error, phase)
    assert record.detail


def test_a_reset_in_the_middle_is_a_failure() -> None:
    arrived = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD + event(token(" one")))
        assert arrived.wait(PATIENCE_S)
        peer.reset()

    with RawServer(script) as server:
        record = exchange(server, noted=lambda phase: arrived.set() if phase == "first_token" else None)
    assert (record.outcome, record.error, record.ending, record.text) == (Outcome.FAILED, ErrorKind.RESET, Ending.BY_SERVER, " one")


def test_nobody_listens() -> None:
    with RawServer() as server:
        pass
    record = exchange(server)
    assert (record.outcome, record.error, record.phase) == (Outcome.FAILED, ErrorKind.REFUSED_CONNECTION, Phase.CONNECTING)


def test_a_4xx_is_a_rejection_with_its_type() -> None:
    with _cut_after(response(REFUSAL, "400 Bad Request")) as server:
        record = exchange(server)
    assert (record.outcome, record.status, record.error_type) == (Outcome.REJECTED, 400, "invalid_request_error")
    assert record.error_body == REFUSAL.decode()


@pytest.mark.parametrize(
    ("allowed", "data", "outcome", "error"),
    [
        (True, (REFUSAL.decode(), "[DONE]"), Outcome.REJECTED, ErrorKind.NONE),
        (True, (REFUSAL.decode(),), Outcome.REJECTED, ErrorKind.NONE),
        (False, (REFUSAL.decode(), "[DONE]"), Outcome.FAILED, ErrorKind.ERROR_EVENT),
        (True, (token(" one"), REFUSAL.decode(), "[DONE]"), Outcome.FAILED, ErrorKind.ERROR_EVENT),
    ],
)
def test_an_error_event_is_a_rejection_only_where_that_form_is_allowed_and_no_token_came(
    allowed: bool, data: tuple[str, ...], outcome: Outcome, error: ErrorKind
) -> None:
    with RawServer(answered(*data)) as server:
        record = exchange(server, request(refusal_event=allowed))
    assert (record.outcome, record.error, record.error_type) == (outcome, error, "invalid_request_error")


# --- one deadline over it all -------------------------------------------------------------------------------------------


def test_a_silent_server_is_a_timeout() -> None:
    with RawServer(lambda peer: (peer.request(), peer.until_end(), None)[2]) as server:
        record = exchange(server, request(deadline_s=0.2))
    assert (record.outcome, record.error, record.phase) == (Outcome.TIMEOUT, ErrorKind.DEADLINE, Phase.AWAITING_HEADERS)
    assert record.ended_s >= 0.2


def test_a_trickle_does_not_put_the_deadline_off() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD)
        try:
            while True:
                peer.send(event(token(" x")))
                threading.Event().wait(0.01)
        except OSError:
            peer.end = "reset"

    with RawServer(script) as server:
        record = exchange(server, request(deadline_s=0.3))
    assert (record.outcome, record.phase) == (Outcome.TIMEOUT, Phase.STREAMING)
    assert record.token_events > 1


# --- connections that are kept ------------------------------------------------------------------------------------------


def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    def script(peer: Peer) -> None:
        for _ in range(2):
            peer.request()
            peer.send(STREAM_HEAD + b"".join(map(event, GOOD)) + LAST_CHUNK)

    with RawServer(script) as server:
        kept = link(server)
        records = [exchange(server, kept=kept), exchange(server, kept=kept)]
        kept.drop()
    assert [record.reused for record in records] == [False, True]
    assert {record.outcome for record in records} == {Outcome.COMPLETED}
    assert len(server.peers) == 1


def test_a_connection_is_not_used_again_when_the_server_says_close() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(response(WHOLE, extra="connection: close\r\n"))
        assert peer.until_end() == "fin"

    with RawServer(script, script) as server:
        kept = link(server)
        records = [exchange(server, request(stream=False), kept) for _ in range(2)]
    assert [record.reused for record in records] == [False, False]
    assert {record.outcome for record in records} == {Outcome.COMPLETED}


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_kept_connection_that_went_stale_is_replaced_once_and_noted(how: str) -> None:
    closed = threading.Event()

    def first(peer: Peer) -> None:
        peer.request()
        peer.send(response(WHOLE))
        getattr(peer, how)()
        closed.set()

    def second(peer: Peer) -> None:
        peer.request()
        peer.send(response(WHOLE))

    with RawServer(first, second) as server:
        kept = link(server)
        exchange(server, request(stream=False), kept)
        assert closed.wait(PATIENCE_S)
        record = exchange(server, request(stream=False), kept)
        kept.drop()
    assert (record.outcome, record.reused, record.text) == (Outcome.COMPLETED, False, " one two")
    assert "fresh connection" in record.detail
    assert [problem.partition(":")[0] for problem in record.problems] == ["kept_connection"]


def test_a_fresh_connection_that_is_closed_without_an_answer_is_no_stale_one() -> None:
    with RawServer(lambda peer: (peer.request(), None)[1]) as server:
        record = exchange(server, request(stream=False))
    assert (record.outcome, record.error) == (Outcome.FAILED, ErrorKind.CUT)
    assert len(server.peers) == 1


def test_a_server_that_refuses_before_it_read_everything_is_heard() -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        peer.send(response(REFUSAL, "413 Payload Too Large", extra="connection: close\r\n"))
        peer.until_end()

    with RawServer(script) as server:
        record = exchange(server)
    assert (record.outcome, record.status) == (Outcome.REJECTED, 413)


def test_usage_alone_is_no_token() -> None:
    with RawServer(answered(token(" one", "stop"), usage(4, 1), "[DONE]")) as server:
        record = exchange(server)
    assert (record.token_events, record.completion_tokens, record.prompt_tokens) == (1, 1, 4)
