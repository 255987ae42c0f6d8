"""Texts that people read are plain English: no phrase of this list is in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import paths

BANNED = (
    r"gone on with",
    r"go(?:es|ing)? on with",
    r"went on with",
    r"\banew\b",
    r"\bwhoever\b",
    r"\bwhomever\b",
    r"\bof itself\b",
    r"\bthat is none\b",
    r"\bNot just now\b",
    r"\bNot so\b",
    r"\bunforeseen\b",
    r"\bof theirs\b",
    r"\bof hapi's\b",
    r"\bheard again\b",
    r"\bhears? the spool\b",
    r"\bparts? from the log\b",
    r"\bmended?\b",
    r"\bmending\b",
    r"\bis told of\b",
    r"\bare told of\b",
    r"\bbegins? anew\b",
    r"\bfor ever\b",
    r"\btakes? the place of\b",
    r"\blet in\b",
    r"\bhad left running\b",
    r"\bas it stands\b",
    r"\bcolour\b|\bbehaviour\b|\bhonour|\bneighbour|\bcancelling\b|\bserialis|\bnormalis|\brecognis",
)
PATTERN = re.compile("|".join(f"(?:{phrase})" for phrase in BANNED), re.IGNORECASE)


def documents() -> list[Path]:
    tops = [paths.PROJECT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md")]
    return [*tops, *sorted((paths.PROJECT / "docs").glob("*.md"))]


def page_files() -> list[Path]:
    page = paths.PROJECT / "src" / "holdfast" / "hub" / "page"
    return sorted(path for path in page.iterdir() if path.suffix in (".js", ".html"))


def modules() -> list[Path]:
    return sorted((paths.PROJECT / "src" / "holdfast").rglob("*.py"))


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string of a module, docstrings included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("path", [*documents(), *page_files()], ids=lambda path: path.name)
def test_a_document_has_no_banned_phrase(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), 1)
    assert [(number, line.strip()) for number, line in lines if PATTERN.search(line)] == []


def test_no_text_in_the_code_has_a_banned_phrase() -> None:
    hits = [
        (str(path.relative_to(paths.PROJECT)), line, match[0])
        for path in modules()
        for line, text in strings(path)
        for match in PATTERN.finditer(text)
    ]
    assert hits == []
