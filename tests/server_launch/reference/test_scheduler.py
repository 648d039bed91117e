"""The scheduler round by round, on the stand-in engine, in one thread: every interleaving here is chosen, none is luck."""

import time

import pytest

from server_launch.reference.errors import ApiError
from server_launch.reference.request import Finish, FinishReason, Phase, Piece, TerminalReason
from server_launch.reference.scheduler import POLL_S, State
from tests.server_launch.reference import standin
from tests.server_launch.reference.bench import Bench, NotedSeams
from tests.server_launch.reference.server import eventually


@pytest.fixture
def bench() -> Bench:
    return Bench.with_seams(NotedSeams())


def expected(prompt: int, count: int) -> str:
    return "".join(standin.text_of(token) for token in standin.answer([prompt], count))


def test_requests_are_prefilled_in_the_order_they_came(bench: Bench) -> None:
    for prompt in (50, 20, 40, 30, 60):
        bench.submit(prompt)
    bench.run()
    assert bench.engine.prefills == [(50,), (20,), (40,), (30,), (60,)]


def test_no_more_than_the_cap_are_active_and_a_freed_slot_is_taken_in_the_next_round(bench: Bench) -> None:
    for prompt in (20, 30, 40):
        bench.submit(prompt)
    bench.scheduler.round()
    assert [len(bench.scheduler.active), len(bench.scheduler.pending)] == [2, 1]
    bench.scheduler.round()
    assert [request.prompt_ids for request in bench.scheduler.active] == []
    bench.scheduler.round()
    assert [request.prompt_ids for request in bench.scheduler.active] == [(40,)]


def test_all_active_rows_share_one_step(bench: Bench) -> None:
    bench.submit(20, max_tokens=2)
    bench.submit(30, max_tokens=4)
    bench.run()
    assert bench.engine.batches == [2, 1, 1]


def test_each_request_gets_its_own_tokens_whatever_runs_beside_it(bench: Bench) -> None:
    for prompt in range(20, 30):
        bench.submit(prompt, max_tokens=prompt - 18)
    bench.run()
    for prompt in range(20, 30):
        assert bench.text(prompt) == expected(prompt, prompt - 18)
        assert bench.got[prompt][-1] == Finish(FinishReason.LENGTH)


def test_every_token_is_an_event_of_its_own(bench: Bench) -> None:
    bench.submit(20, max_tokens=5)
    bench.run()
    tokens = standin.answer([20], 5)
    assert bench.got[20][:-1] == [Piece(standin.text_of(token), token) for token in tokens]


def test_one_token_needs_no_decode_step(bench: Bench) -> None:
    bench.submit(20, max_tokens=1)
    bench.run()
    assert bench.engine.batches == []
    assert bench.text(20) == expected(20, 1)


def test_no_tokens_at_all_finish_at_once_without_a_slot(bench: Bench) -> None:
    bench.submit(20, max_tokens=0)
    assert bench.got[20] == [Finish(FinishReason.LENGTH)]
    assert bench.engine.prefills == []
    assert bench.reasons() == {"cmpl-20": "completed_length"}


def test_the_end_of_sequence_ends_a_request_without_text(bench: Bench) -> None:
    prompt = standin.SPECIAL["end-soon"]
    request = bench.submit(prompt, max_tokens=50)
    bench.run()
    assert bench.text(prompt) == expected(prompt, standin.ENDS_AFTER)
    assert bench.got[prompt][-1] == Finish(FinishReason.STOP)
    assert len(request.tokens) == standin.ENDS_AFTER + 1


def test_the_end_of_sequence_is_a_token_like_any_other_when_ignored(bench: Bench) -> None:
    prompt = standin.SPECIAL["end-soon"]
    bench.submit(prompt, max_tokens=8, ignore_eos=True)
    bench.run()
    assert bench.text(prompt) == expected(prompt, standin.ENDS_AFTER) + standin.text_of(standin.EOS) * 3
    assert bench.got[prompt][-1] == Finish(FinishReason.LENGTH)


def test_a_stop_string_across_two_tokens_cuts_the_text_before_it(bench: Bench) -> None:
    whole = expected(20, 4)
    second = whole.index(standin.text_of(standin.answer([20], 2)[1]))
    stop = whole[second - 1 : second + 2]
    bench.submit(20, max_tokens=4, stops=(stop,))
    bench.run()
    assert bench.text(20) == whole[: whole.index(stop)]
    assert bench.got[20][-1] == Finish(FinishReason.STOP)
    assert bench.reasons() == {"cmpl-20": "completed_stop"}


def test_text_held_back_for_a_stop_string_that_never_came_is_sent_at_the_end(bench: Bench) -> None:
    whole = expected(20, 3)
    bench.submit(20, stops=(whole[-2:] + "more",))
    bench.run()
    assert bench.text(20) == whole
    assert bench.got[20][-1] == Finish(FinishReason.LENGTH)


def test_a_queued_client_that_leaves_is_out_of_the_queue_at_once_and_never_prefilled(bench: Bench) -> None:
    for prompt in (20, 30, 40):
        bench.submit(prompt)
    leaver = bench.submit(50)
    bench.submit(60)
    bench.scheduler.round()
    bench.scheduler.abort(leaver)
    assert leaver not in bench.scheduler.pending
    assert bench.reasons()["cmpl-50"] == "disconnected"
    bench.run()
    assert (50,) not in bench.engine.prefills
    assert bench.got[50] == [Finish(None)]


def test_a_client_that_leaves_during_decode_gets_no_further_token_and_its_neighbour_all_of_its_own(bench: Bench) -> None:
    leaver, _ = bench.submit(20, max_tokens=9), bench.submit(30, max_tokens=9)
    bench.scheduler.round()
    bench.engine.during = lambda: bench.scheduler.abort(leaver)
    bench.scheduler.round()
    assert bench.text(20) == expected(20, 2)
    assert bench.scheduler.active != []
    assert leaver.phase is Phase.DONE
    bench.run()
    assert bench.text(30) == expected(30, 9)
    assert bench.reasons() == {"cmpl-20": "cancelled", "cmpl-30": "completed_length"}


def test_a_client_that_leaves_during_prefill_is_a_disconnect_and_takes_part_in_no_step(bench: Bench) -> None:
    leaver = bench.submit(20)
    bench.engine.during = lambda: bench.scheduler.abort(leaver)
    bench.run()
    assert bench.got[20] == [Finish(None)]
    assert bench.engine.batches == []
    assert bench.reasons() == {"cmpl-20": "disconnected"}


def test_leaving_twice_or_after_the_end_changes_nothing(bench: Bench) -> None:
    done, left = bench.submit(20), bench.submit(30)
    bench.scheduler.round()
    bench.scheduler.abort(left)
    bench.scheduler.abort(left)
    bench.run()
    bench.scheduler.abort(done)
    bench.run()
    assert bench.reasons() == {"cmpl-20": "completed_length", "cmpl-30": "cancelled"}
    assert len(bench.seams.traces) == 2


def test_a_request_ends_once(bench: Bench) -> None:
    request = bench.submit(20)
    bench.run()
    bench.scheduler.retire(request, TerminalReason.ERROR, error="again")
    assert bench.reasons() == {"cmpl-20": "completed_length"}
    assert sum(isinstance(event, Finish) for event in bench.got[20]) == len(bench.seams.traces) == 1


def test_a_slot_is_free_again_however_its_request_ended(bench: Bench) -> None:
    for number in range(40):
        leaver = bench.submit(20 + number, max_tokens=5)
        if number % 4 < 3:
            for _ in range(number % 4):
                bench.scheduler.round()
            bench.scheduler.abort(leaver)
        bench.run()
    assert bench.scheduler.active == []
    assert not bench.scheduler.pending
    bench.submit(80), bench.submit(90)
    bench.scheduler.round()
    assert len(bench.scheduler.active) == bench.scheduler.options.active_cap


@pytest.mark.parametrize(
    ("call", "param"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"logprobs": 1}, "logprobs"),
        ({"adapter": "mine"}, "lora_adapter"),
        ({"max_tokens": 4096}, "max_tokens"),
    ],
)
def test_what_the_scheduler_refuses_has_a_reason_and_a_trace(bench: Bench, call: dict[str, object], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        bench.submit(20, **call)  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.param) == (400, param)
    [line] = bench.seams.traces
    assert (line["terminal_reason"], line["finish_reason"], line["error"]) == ("rejected", "error", refused.value.message)
    assert not bench.scheduler.pending


def test_prompt_and_answer_may_fill_the_context_exactly(bench: Bench) -> None:
    bench.submit(20, max_tokens=4095)
    assert len(bench.scheduler.pending) == 1


def test_a_lost_rank_ends_active_and_queued_requests_with_an_error(bench: Bench) -> None:
    bench.submit(standin.SPECIAL["die-in-decode"], max_tokens=9)
    for prompt in (30, 40):
        bench.submit(prompt, max_tokens=9)
    bench.scheduler.start()
    eventually(lambda: bench.scheduler.state is State.FAILED, "failure")
    assert bench.scheduler.join(5)
    for prompt in (30, 40):
        last = bench.got[prompt][-1]
        assert isinstance(last, Finish) and last.error is not None and "rank" in last.error
    assert set(bench.reasons().values()) == {"error"}
    with pytest.raises(ApiError) as refused:
        bench.submit(50)
    assert refused.value.status == 503
    assert len(bench.seams.traces) == 3


def test_a_rank_that_goes_while_the_server_is_idle_is_noticed(bench: Bench) -> None:
    bench.scheduler.start()
    bench.engine.well = False
    with pytest.raises(ApiError) as refused:
        bench.submit(20)
    assert refused.value.status == 503
    eventually(lambda: bench.scheduler.state is State.FAILED, "failure")


def test_a_rank_that_goes_within_a_long_step_is_noticed_within_the_step() -> None:
    bench = Bench.with_seams(NotedSeams(), "--step-interval-ms", "600000")
    bench.submit(20)
    bench.scheduler.start()
    eventually(lambda: bench.engine.batches, "a step under way")
    bench.engine.well = False
    assert bench.scheduler.join(5)
    assert bench.reasons() == {"cmpl-20": "error"}


def test_an_idle_scheduler_starts_at_once_rather_than_at_its_next_look(bench: Bench) -> None:
    bench.scheduler.start()
    began_s = time.monotonic()
    for count, prompt in enumerate(range(20, 60), start=1):
        bench.submit(prompt, max_tokens=1)
        eventually(lambda count=count: len(bench.seams.traces) == count, "done")  # type: ignore[misc]
    assert time.monotonic() - began_s < 40 * POLL_S / 2
    bench.scheduler.drain(0.0)
    assert bench.scheduler.join(5)


def test_a_bug_in_the_scheduler_thread_takes_the_same_path(bench: Bench) -> None:
    bench.submit(standin.SPECIAL["explode"])
    bench.submit(30)
    bench.scheduler.start()
    assert bench.scheduler.join(5)
    assert bench.scheduler.state is State.FAILED
    for events in bench.got.values():
        assert isinstance(events[-1], Finish) and "ZeroDivisionError" in str(events[-1].error)


def test_a_drain_finishes_what_was_taken_and_takes_nothing_more(bench: Bench) -> None:
    for prompt in (20, 30, 40):
        bench.submit(prompt)
    bench.scheduler.drain(5.0)
    with pytest.raises(ApiError) as refused:
        bench.submit(50)
    assert refused.value.status == 503
    bench.scheduler.start()
    assert bench.scheduler.join(5)
    assert set(bench.reasons().values()) == {"completed_length"}
    assert bench.scheduler.state is State.STOPPED


def test_a_drain_without_time_ends_the_rest_with_an_error(bench: Bench) -> None:
    for prompt in (20, 30, 40):
        bench.submit(prompt)
    bench.scheduler.round()
    bench.scheduler.drain(0.0)
    bench.scheduler.start()
    assert bench.scheduler.join(5)
    assert bench.reasons() == {"cmpl-20": "error", "cmpl-30": "error", "cmpl-40": "error"}


def test_steps_are_counted_by_their_company(bench: Bench) -> None:
    bench.submit(20, max_tokens=2)
    bench.submit(30, max_tokens=4)
    bench.run()
    short, long = bench.seams.traces
    names = ("decode_step_count", "batch_decode_steps", "singleton_decode_steps", "decode_batch_size_max")
    assert [short[name] for name in names] == [1, 1, 0, 2]
    assert [long[name] for name in names] == [3, 1, 2, 2]


def test_sizes_in_a_trace_are_the_peaks_of_that_requests_life(bench: Bench) -> None:
    for prompt in (20, 30, 40, 50):
        bench.submit(prompt, max_tokens=2)
    bench.run()
    bench.submit(60, max_tokens=2)
    bench.run()
    by_id = {str(line["request_id"]): line for line in bench.seams.traces}
    assert by_id["cmpl-20"]["active_set_size_max"] == 2
    assert by_id["cmpl-20"]["pending_queue_size_max"] == 4
    assert by_id["cmpl-20"]["pending_queue_size_at_terminal"] == 2
    assert by_id["cmpl-60"]["active_set_size_max"] == 1
    assert by_id["cmpl-60"]["pending_queue_size_max"] == 1
    assert by_id["cmpl-60"]["healthy_baseline_after_terminal"] is True
    assert by_id["cmpl-20"]["healthy_baseline_after_terminal"] is False
