"""docs/outcomes.md from the vocabulary: `python -m analysis.glossary > docs/outcomes.md`. A test keeps the two in step."""

import ast
import sys
from enum import Enum
from pathlib import Path

from analysis import vocabulary

HEAD = """# The words and what they mean

Generated from `analysis/vocabulary.py` with `make docs`; change it there. Every word that stands in a file of a run is one of these.
"""


def page() -> str:
    """The whole page, as Markdown."""
    tree = ast.parse(Path(vocabulary.__file__).read_text(encoding="utf-8"))
    return "\n".join([HEAD, *(_section(node) for node in tree.body if isinstance(node, ast.ClassDef))])


def _section(node: ast.ClassDef) -> str:
    about = ast.get_docstring(node) or ""
    words: type[Enum] = getattr(vocabulary, node.name)
    said = _said(node)
    rows = "".join(f"| `{_spelled(word)}` | {said[word.name]} |\n" for word in words)
    return f"## {node.name}\n\n{about}\n\n| word | meaning |\n|---|---|\n{rows}"


def _spelled(word: Enum) -> str:
    return word.value if isinstance(word.value, str) else f"{word.value} {word.name.lower()}"


def _said(node: ast.ClassDef) -> dict[str, str]:
    """The sentence under each member. A string under an assignment is its docstring."""
    found = {}
    for member, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            name, text = member.targets[0], after.value.value
            if isinstance(name, ast.Name) and isinstance(text, str):
                found[name.id] = " ".join(text.split())
    return found


if __name__ == "__main__":
    sys.stdout.write(page())
