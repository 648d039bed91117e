"""stability.*: texts against the reference of their prompt, and text that belongs to somebody else."""

import dataclasses

from analysis.checks import stability
from analysis.finding import Finding
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role, Status
from tests.analysis import build

RED = "".join(build.GOOD["red"])
BLUE = "".join(build.GOOD["blue"])


def red_bystander(record: RequestRecord) -> bool:
    return record.role is Role.BYSTANDER and record.prompt == "red"


def red_control(record: RequestRecord) -> bool:
    return record.role is Role.CONTROL and record.prompt == "red"


def red_follow_up(record: RequestRecord) -> bool:
    return record.role is Role.FOLLOW_UP and record.prompt == "red"


def output(run: build.Run) -> Finding:
    return stability.OUTPUT.judge(run.evidence())


def crosstalk(run: build.Run) -> Finding:
    return stability.CROSSTALK.judge(run.evidence())


def test_a_good_run_passes() -> None:
    assert output(build.good()).status is Status.PASS
    assert crosstalk(build.good()).status is Status.PASS


def test_one_lost_token_of_a_bystander_is_a_fault_and_its_place_is_named() -> None:
    run = build.good()
    [record] = run.spoil(red_bystander, 1, text=RED.replace(" ruby", ""))
    finding = output(run)
    assert finding.status is Status.FAIL
    assert record.request_id in finding.evidence[0] and "differs at character 15: 'brick rust wine' for 'ruby brick" in finding.evidence[0]


def test_a_text_that_ends_early_is_a_fault() -> None:
    run = build.good()
    run.spoil(red_bystander, 1, text=RED[:-5])
    assert output(run).status is Status.FAIL


def test_another_finish_reason_is_a_fault() -> None:
    run = build.good()
    run.spoil(red_bystander, 1, finish_reason="stop")
    assert output(run).status is Status.FAIL


def shorter(run: build.Run, tokens_seen: int, tokens_made: int) -> Finding:
    """What is said of a bystander that asked for `tokens_made` tokens and got the text of `tokens_seen`."""
    run.spoil(red_bystander, 1, text="".join(build.GOOD["red"][:tokens_seen]), completion_tokens=tokens_made, max_tokens=tokens_made)
    return stability.OUTPUT.judge(run.evidence())


def test_a_shorter_answer_has_the_text_of_all_its_tokens() -> None:
    assert shorter(build.good(), 3, 3).status is Status.PASS
    finding = shorter(build.good(), 2, 3)
    assert finding.status is Status.FAIL and "3 tokens have the text ' cherry tomato'" in finding.evidence[0]


def test_where_events_carry_several_tokens_the_text_of_a_shorter_answer_is_not_known() -> None:
    run = build.good()
    run.spoil(lambda one: one.role is Role.REFERENCE, token_chars=(20, len(RED)))
    assert shorter(run, 2, 3).status is Status.PASS


def test_a_client_that_left_must_have_seen_the_beginning_of_the_reference() -> None:
    run = build.good()
    run.spoil(lambda record: record.outcome is Outcome.CANCELLED and len(record.text) > 8, 1, text=" cherry pie")
    assert output(run).status is Status.FAIL


def test_a_character_cut_in_half_at_the_end_is_legal() -> None:
    run = build.good()
    run.spoil(lambda record: record.outcome is Outcome.CANCELLED and record.prompt == "red", 1, text=" cherry\ufffd")
    assert output(run).status is Status.PASS


def test_two_endless_answers_that_part_beyond_the_reference_are_a_fault() -> None:
    run = build.good()
    run.spoil(lambda record: record.role is Role.HOLDER and record.item == 0, 1, text=RED + " mars fox")
    run.spoil(lambda record: record.role is Role.HOLDER and record.item == 1, 1, text=RED + " mars")
    assert output(run).status is Status.PASS
    run.spoil(lambda record: record.role is Role.HOLDER and record.item == 1, 1, text=RED + " venus")
    finding = output(run)
    assert finding.status is Status.FAIL and "part" in finding.evidence[0]


def test_references_without_text_prove_nothing() -> None:
    run = build.good()
    run.spoil(lambda one: True, text="", token_chars=())
    assert stability.OUTPUT.judge(run.evidence()).status is Status.UNKNOWN


def test_without_a_reference_nothing_is_known() -> None:
    run = build.good()
    run.drop(lambda record: record.role is Role.REFERENCE)
    assert output(run).status is Status.UNKNOWN
    run.drop(lambda record: record.role is Role.CONTROL)
    run.plan = dataclasses.replace(run.plan, prompts={"red": build.PROMPTS["red"]})
    assert crosstalk(run).status is Status.UNKNOWN


def test_a_server_that_never_claimed_it_is_held_to_what_fault_free_load_showed() -> None:
    run = build.good()
    run.retarget(batch_invariant=False)
    run.spoil(red_bystander, 1, text=RED.replace(" ruby", " mars"))
    assert output(run).status is Status.FAIL, "24 texts under fault-free load did not change"
    run.spoil(red_control, 1, text=RED.replace(" wine", " mars"))
    finding = output(run)
    assert finding.status is Status.PASS and "made in company differ and are not judged" in finding.summary


def test_a_new_text_alone_on_a_server_whose_batches_change_texts_is_unknown() -> None:
    run = build.good()
    run.retarget(batch_invariant=False)
    run.spoil(red_control, 1, text=RED.replace(" wine", " mars"))
    run.spoil(red_follow_up, 1, text=RED.replace(" wine", " mars"))
    assert output(run).status is Status.PASS, "fault-free load said the same before"
    run.spoil(red_follow_up, 1, text=RED.replace(" ruby", " venus"))
    assert output(run).status is Status.UNKNOWN


def test_a_neighbours_text_is_named_with_both_requests() -> None:
    run = build.good()
    [record] = run.spoil(red_bystander, 1, text=RED[:13] + BLUE[5:])
    finding = crosstalk(run)
    assert finding.status is Status.FAIL
    donor = next(one for one in run.records if one.prompt == "blue" and one.request_id in finding.evidence[0])
    assert record.request_id in finding.evidence[0] and donor.started_unix_s < record.started_unix_s + record.ended_s


def test_words_that_two_prompts_share_are_no_crosstalk() -> None:
    run = build.good()
    run.spoil(red_bystander, 1, text=RED[:13] + " sky")
    assert crosstalk(run).status is Status.PASS
