"""The documents say what is there: every module, every word, every command and option."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from analysis import glossary
from analysis.vocabulary import ExitCode
from server_launch import profile

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LAYERS = ("analysis", "faults", "users", "server_launch")


def modules() -> set[str]:
    found = {str(path.relative_to(ROOT)) for layer in LAYERS for path in (ROOT / layer).rglob("*.py") if path.name != "__init__.py"}
    return found | {"locustfile.py"}


def commands(text: str) -> list[list[str]]:
    """The indented lines of a page that start a program, continued lines joined."""
    joined = re.sub(r"\\\n\s+", "", text)
    lines = [line.strip() for line in joined.splitlines() if line.startswith("    ")]
    return [shlex.split(line.split("  #")[0]) for line in lines if line.startswith(("make ", "locust ", "python ", ".venv/"))]


def test_the_tour_names_every_module_once() -> None:
    named = re.findall(r"^- `([\w/]+\.py)`:", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(modules()), f"missing {sorted(modules() - set(named))}, gone {sorted(set(named) - modules())}"


def test_the_words_are_in_step_with_the_vocabulary() -> None:
    assert (ROOT / "docs" / "outcomes.md").read_text(encoding="utf-8") == glossary.page(), "run make docs"


def test_the_exit_codes_of_the_readme_are_those_of_the_gate() -> None:
    table = dict(re.findall(r"^\| (\d) \| \**(\w+)", README, re.MULTILINE))
    assert {int(code) for code in table} == set(ExitCode)
    assert table["0"] == "pass" and table["1"] == "fail" and table["3"] == "unknown"


def test_the_readme_names_every_profile_and_scenario() -> None:
    for name in profile.names():
        assert f"`{name}`" in README
    for path in (ROOT / "scenarios").glob("*.toml"):
        if path.stem not in ("prompts", "thresholds"):
            assert f"`{path.stem}`" in README


def test_the_readme_names_every_option_of_the_gate() -> None:
    code = "from argparse import ArgumentParser as P; from users import options; p = P(); options.add(Q(p)); p.print_help()"
    wrapper = (
        "class G:\n"
        "    def __init__(self, g): self.g = g\n"
        "    def add_argument(self, *a, env_var=None, is_secret=None, include_in_web_ui=None, **k): self.g.add_argument(*a, **k)\n"
        "class Q(G):\n"
        "    def add_argument_group(self, name): return G(self.g.add_argument_group(name))\n"
    )
    shown = subprocess.run([sys.executable, "-c", wrapper + code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    options = set(re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE))
    assert len(options) >= 10
    assert not [option for option in options if f"`{option}" not in README]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_what_a_page_tells_one_to_run_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for words in commands(page.read_text(encoding="utf-8")):
        if words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= targets, words
        elif words[0].endswith("python") and "-m" in words:
            name = words[words.index("-m") + 1].split(".")
            place = ROOT.joinpath(*name)
            assert place.with_suffix(".py").exists() or (place / "__main__.py").exists() or name[0] in ("pytest", "venv", "mypy"), words


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_the_changelog_begins_with_what_is_not_released() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads and heads[0] == "Unreleased"


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned_and_has_its_reason(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line.strip()]
    for before, line in zip(["", *lines], lines, strict=False):
        if not line.startswith(("#", "-r ")):
            assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line), line
            assert before.startswith("#") or "==" in before, f"{line} has no word on why it is there"


def test_the_project_file_can_be_read_and_is_strict() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tool["mypy"]["strict"] and "--strict-markers" in tool["pytest"]["ini_options"]["addopts"]
