"""Profiles are data: those of the project can be read and agree with the catalogue, and a wrong one is refused in one line."""

from pathlib import Path

import pytest

from faults import bad_requests
from server_launch.profile import ProfileError, load, names

EXPECTED = {"reference", "pegainfer", "vllm", "sglang", "llama-server", "transformers", "openai"}


def test_all_promised_profiles_are_there() -> None:
    assert set(names()) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_profile_of_the_project_can_be_read_and_names_rows_that_exist(name: str) -> None:
    profile, rows = load(name), bad_requests.catalogue()
    assert profile.name == name and profile.about
    assert set(profile.refuses) | set(profile.serves) <= rows.keys()
    assert set(profile.honours) <= {row.parameter for row in rows.values()}


def test_only_the_reference_server_starts_without_being_told_anything() -> None:
    free = [name for name in names() if load(name).launch and "{model_path}" not in "".join(load(name).launch)]
    assert free == ["reference"]


def test_a_file_of_the_user_is_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('about = "mine"\nactive_cap = 4\nready_s = 20\nlaunch = ["serve", "{port}"]\nenv = { A = "b" }\n')
    profile = load(str(path))
    assert (profile.name, profile.active_cap, profile.launch, profile.env) == ("mine", 4, ("serve", "{port}"), {"A": "b"})


WRONG = [
    ("", "no `about`"),
    ('about = "x"\nactive_kap = 4', "unknown key 'active_kap'"),
    ('about = "x"\nactive_cap = "eight"', "active_cap is 'eight', which is no whole number"),
    ('about = "x"\nactive_cap = true', "which is no whole number"),
    ('about = "x"\nignore_eos = 1', "which is no true or false"),
    ('about = "x"\nlaunch = "serve"', "which is no list of texts"),
    ('about = "x"\nenv = { A = 5 }', "which is no table"),
    ('about = "x"\nqueue = "sometimes"', "it may be queued or queued_or_refused"),
    ('about = "x"\ngauges = "promised"', "name metrics_path, running_gauge and waiting_gauge"),
    ('about = "x"\nready_line = "("', "no regular expression"),
    ('about = "x"\nready_line = "ready"', "has no group"),
    ('about = "x"\nrefuses = ["echo"]\nserves = ["echo"]', "echo is among refuses and among serves"),
    ("about = ", "cannot read the profile"),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_profile_that_cannot_be_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load(str(path))
    assert said in str(caught.value) and "\n" not in str(caught.value) and "wrong.toml" in str(caught.value)


def test_a_profile_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ProfileError, match="no server profile 'vlm': use one of llama-server, openai, pegainfer"):
        load("vlm")
