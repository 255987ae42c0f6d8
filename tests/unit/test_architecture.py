"""How the package is cut: unique class names, a purpose for every module."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.support import paths

PACKAGE = paths.PROJECT / "src" / "holdfast"
MAX_LINES = 400
# Longer than they should be; no module may join them.
LONG = {
    "runner/dispatch.py",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_no_class_name_is_used_twice() -> None:
    """A name that two classes share has to be looked up twice by every reader."""
    where: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(path.relative_to(PACKAGE)) for path in modules() if path.stat().st_size and not _doc(path)]
    assert silent == []


def test_no_module_is_longer_than_it_should_be() -> None:
    """A module that grows past this has more than one noun: split it."""
    long = {
        str(path.relative_to(PACKAGE)) for path in modules() if len(path.read_text().splitlines()) > MAX_LINES
    }
    assert long <= LONG, "split the new ones"


def _doc(path: Path) -> str | None:
    return ast.get_docstring(ast.parse(path.read_text()))
