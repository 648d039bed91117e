"""The catalogue: rows that can be built, bytes that are as bad as they say, and contracts that two honest servers keep."""

import http.client
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from analysis.plan import Target
from analysis.vocabulary import Contract, Endpoint
from faults import proofs
from faults.bad_requests import SHORT_TOKENS, BadRow, Built, Context, build, catalogue, rows
from server_launch.launch import ROOT, Asked, launch
from server_launch.profile import Profile, load

ROWS = catalogue()
GROUPS = {"json", "encoding", "model", "input", "context", "numbers", "features", "http", "legal"}
PROMPT = "Hello there"
ID = "r0123456789abcdefw000n00000001x"


def target(**words: object) -> Target:
    facts: dict[str, object] = {
        "profile": "any", "base_url": "http://127.0.0.1:1", "model": "tiny", "active_cap": 8, "context_length": 4096,
        "request_id_in_body": True, "ignore_eos": True, "batch_invariant": True, "stream_refusal": "status", "queue": "queued",
        "queued_leaver": "at_turn", "health_path": None, "metrics_path": None, "running_gauge": None, "waiting_gauge": None,
        "gauges": "none", "trace": None, "launched": False,
    }  # fmt: skip
    return Target(**facts | words)  # type: ignore[arg-type]


def context(**words: object) -> Context:
    return Context(target=target(**words), prompt=PROMPT, request_id=ID, max_tokens=12, reference="one two three four five")


def built(name: str, **words: object) -> Built:
    row = ROWS[name]
    return build(row, row.endpoints[0], False, context(**words))


def body(name: str, **words: object) -> dict[str, object]:
    found: dict[str, object] = json.loads(built(name, **words).body)
    return found


def kinds(row: BadRow) -> Iterator[tuple[Endpoint, bool]]:
    return itertools.product(row.endpoints, row.modes)


# --- data -----------------------------------------------------------------------------------------------------------------


def test_the_catalogue_covers_every_group_and_contract() -> None:
    assert len(ROWS) >= 100
    assert {row.group for row in ROWS.values()} == GROUPS
    assert {row.contract for row in ROWS.values()} == set(Contract)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_can_be_built_and_says_why(name: str) -> None:
    row = ROWS[name]
    assert row.why and row.endpoints and row.modes
    for endpoint, stream in kinds(row):
        made = build(row, endpoint, stream, context())
        assert made.path.startswith("/v1/") and made.method.isupper()


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.proof or row.parameter])
def test_a_proof_exists_and_stands_on_a_row_that_may_be_served(name: str) -> None:
    row = ROWS[name]
    assert row.proof in proofs.PROOFS
    assert row.contract is not Contract.MUST_REFUSE


def test_every_proof_is_used() -> None:
    assert {row.proof for row in ROWS.values()} - {None} == proofs.PROOFS.keys()


def test_no_two_rows_send_the_same() -> None:
    seen: dict[tuple[object, ...], str] = {}
    for name, row in ROWS.items():
        for endpoint, stream in kinds(row):
            made = build(row, endpoint, stream, context())
            key = (made.method, made.path, made.body, tuple(sorted(made.headers.items())), endpoint, row.proof)
            assert seen.setdefault(key, name) == name


def test_requests_that_may_be_served_without_end_have_no_other_reason_to_stay() -> None:
    assert not [name for name, row in ROWS.items() if row.endless and (row.proof or row.contract is Contract.MUST_SERVE)]


WRONG = [
    ('[json.a]\ncontract = "must_refuse"\nwhy = "x"\nwye = 5', "a: .*wye"),
    ('[json.a]\ncontract = "sometimes"\nwhy = "x"', "sometimes"),
    ('[json.a]\ncontract = "either"\nwhy = "x"\nreshape = "twirl"', "no reshape 'twirl', known are truncate"),
    ('[json.a]\ncontract = "either"\nwhy = "x"\n[numbers.a]\ncontract = "either"\nwhy = "x"', "two rows are named a"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_row_that_cannot_be_is_said_so(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rows(text)


# --- bytes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.group == "json" and row.contract is Contract.MUST_REFUSE])
def test_json_that_must_be_refused_is_no_object(name: str) -> None:
    try:
        value = json.loads(built(name).body)
    except (ValueError, RecursionError):
        return
    assert not isinstance(value, dict)


@pytest.mark.parametrize("name", ["utf8_invalid", "utf8_truncated", "prompt_latin1"])
def test_bytes_that_are_no_utf8(name: str) -> None:
    with pytest.raises(UnicodeDecodeError):
        built(name).body.decode("utf-8")


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("temperature_nan", b'"temperature": NaN'),
        ("temperature_infinite", b'"temperature": Infinity'),
        ("temperature_1e400", b'"temperature": 1e400'),
        ("max_tokens_null", b'"max_tokens": null'),
        ("prompt_ids_2_63", b"[9223372036854775808]"),
        ("max_tokens_2_63", b'"max_tokens": 9223372036854775807'),
    ],
)
def test_literals_are_written_as_they_are(name: str, written: bytes) -> None:
    assert written in built(name).body


def test_generators_make_what_they_say() -> None:
    stops = body("stop_many")["stop"]
    assert isinstance(stops, list) and len(set(stops)) == 100
    assert body("model_long")["model"] == "m" * 10_000
    assert body("max_tokens_over_context")["max_tokens"] == 4097
    assert body("max_tokens_whole_context", context_length=512)["max_tokens"] == 512
    assert body("surrogate_lone")["prompt"] == "Hello \ud800"
    assert built("json_deep_open").body == b"[" * 100_000
    assert body("legal_stop_string")["stop"] == ["four"]


@pytest.mark.parametrize("holds", [256, 4096])
def test_a_prompt_beyond_the_context_has_more_words_than_it_holds_tokens(holds: int) -> None:
    prompt = body("prompt_over_context", context_length=holds)["prompt"]
    assert isinstance(prompt, str) and holds < len(prompt.split()) < 8 * holds


def test_white_space_and_charset_change_nothing_else() -> None:
    plain = body("legal_charset")
    assert body("legal_spaces") == plain
    assert built("legal_spaces").body != built("legal_charset").body
    assert built("legal_charset").headers == {"Content-Type": "application/json; charset=utf-8"}


def test_the_id_and_the_end_of_sequence_are_only_mentioned_where_they_are_known() -> None:
    assert body("legal_charset")["request_id"] == ID and body("legal_charset")["ignore_eos"] is True
    assert not {"request_id", "ignore_eos"} & body("legal_charset", request_id_in_body=False, ignore_eos=False).keys()


def test_max_tokens_is_known_where_it_is_a_number() -> None:
    assert built("legal_one_token").max_tokens == 1
    assert built("legal_charset").max_tokens == 12, "an answer that is proved has the length of its reference"
    assert built("model_unknown").max_tokens == SHORT_TOKENS
    assert built("max_tokens_word").max_tokens is None and built("max_tokens_bool").max_tokens is None


def test_a_row_without_a_body_and_type_has_none() -> None:
    made = built("method_get")
    assert (made.method, made.body, made.headers) == ("GET", b"", {})


# --- contracts ------------------------------------------------------------------------------------------------------------


def contract(row: BadRow, profile: Profile) -> Contract:
    return Contract.MUST_REFUSE if row.name in profile.refuses else Contract.EITHER if row.name in profile.serves else row.contract


def answer(url: str, made: Built) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        connection.request(made.method, made.path, body=made.body, headers=made.headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def broken(url: str, profile: Profile, model: str) -> list[str]:
    """Rows whose contract a server does not keep."""
    found = []
    number = itertools.count()
    for row in ROWS.values():
        due = contract(row, profile)
        if row.endless and due is not Contract.MUST_REFUSE:
            continue
        for endpoint, stream in kinds(row):
            place = Context(target=target(model=model), prompt=PROMPT, request_id=f"row{next(number)}x", max_tokens=8, reference="")
            status, said = answer(url, build(row, endpoint, stream, place))
            fine = {Contract.MUST_REFUSE: 400 <= status < 500, Contract.MUST_SERVE: status == 200, Contract.EITHER: 200 <= status < 500}
            if not fine[due]:
                found.append(f"{row.name} on {endpoint}, {'streamed' if stream else 'whole'}: {status} {said[:100]!r}, due {due}")
    return found


@pytest.mark.slow
def test_the_reference_server_keeps_its_contract(tmp_path: Path) -> None:
    server = launch(load("reference"), Asked(model="tiny", log=tmp_path / "server.log"), time.sleep)
    try:
        assert broken(server.url, load("reference"), "tiny") == []
    finally:
        server.stop()


@pytest.mark.slow
def test_a_server_that_shares_no_code_keeps_the_contract_of_the_first_target() -> None:
    command = [sys.executable, "-m", "tests.fakes.server", "--port", "0", "--token-ms", "1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as fake:
        assert fake.stdout is not None
        try:
            port = int(fake.stdout.readline().split()[-1])
            assert broken(f"http://127.0.0.1:{port}", load("pegainfer"), "fake") == []
        finally:
            fake.terminate()
