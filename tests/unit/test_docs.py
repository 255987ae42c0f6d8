"""What the documents say must be so."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast import errors
from holdfast.cli.main import COMMANDS
from holdfast.resume import docs

ROOT = Path(__file__).parents[2]


def all_errors(base: type[errors.HoldfastError] = errors.HoldfastError) -> set[type[errors.HoldfastError]]:
    found = {base}
    for child in base.__subclasses__():
        found |= all_errors(child)
    return found


def test_every_error_is_in_the_table_of_exit_codes_under_its_status() -> None:
    text = (ROOT / "docs/exit-codes.md").read_text()
    told = {}
    for status, codes in re.findall(r"^\| (\d+) \| ([^|]*) \|", text, re.MULTILINE):
        for code in re.findall(r"`(\w+)`", codes):
            told[code] = int(status)
    assert told == {error.code: error.exit_status for error in all_errors()}


def test_the_page_of_verdicts_is_what_the_table_says() -> None:
    assert (ROOT / "docs/verdicts.md").read_text() == docs.page(), "run `make docs`"


def test_the_changelog_names_every_command() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    for command in COMMANDS:
        assert f"`{command}" in text or f"holdfast {command}" in text, command


def test_the_links_in_the_documents_lead_somewhere() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), (path.name, target)


def test_the_make_targets_that_the_readme_names_exist() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(
        re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    )
    assert {a or b for a, b in named} <= made
