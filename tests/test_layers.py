"""The layers: who may import whom, and what a worker must not pull in."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "analysis": set[str](),
    "faults": {"analysis"},
    "users": {"analysis", "faults"},
    "server_launch": {"analysis"},
    "locustfile": {"analysis", "users", "server_launch"},
}
"""locustfile -> users -> faults -> analysis, and server_launch beside them."""
HEAVY = ("pandas", "pyarrow", "torch", "transformers", "tokenizers", "safetensors", "starlette", "uvicorn", "pydantic")
LEAN = ("locustfile", "users.gate", "users.worker", "users.clients", "faults", "faults.bad_requests", "faults.proofs")


def modules(layer: str) -> list[Path]:
    folder = ROOT / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [ROOT / f"{layer}.py"]


def imported(path: Path) -> Iterator[str]:
    """Top-level names of everything that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}:{node.lineno}: say the whole name of what is imported"
            yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_go_one_way(layer: str) -> None:
    others = MAY_IMPORT.keys() - MAY_IMPORT[layer] - {layer} | {"tests"}
    wrong = [f"{path.relative_to(ROOT)} imports {name}" for path in modules(layer) for name in imported(path) if name in others]
    assert modules(layer) and not wrong


def test_no_layer_is_forgotten() -> None:
    found = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found - {"tests"} == MAY_IMPORT.keys()


def loaded_by(*names: str) -> set[str]:
    """Heavy modules in memory once a fresh interpreter has imported these."""
    code = f"import sys\n{''.join(f'import {name}{chr(10)}' for name in names)}print(*sorted({HEAVY!r} & sys.modules.keys()))"
    code = code.replace(repr(HEAVY), f"set({HEAVY!r})")
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


def test_what_a_worker_imports_is_lean() -> None:
    assert loaded_by(*LEAN) == set()


def test_starting_a_server_does_not_import_what_the_server_does() -> None:
    assert loaded_by("server_launch.profile", "server_launch.launch", "server_launch.attach", "server_launch.target") == set()


def test_the_probe_sees_what_is_heavy() -> None:
    assert "pandas" in loaded_by("analysis.judge")
