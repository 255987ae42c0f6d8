"""No text takes the page long: every expression of its Markdown is linear."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Window
from tests.browser.hub_process import HubProcess

N = 300_000  # squared, more than any browser does in the time that a test has

LINES = {
    "heading": f"'# ' + ' '.repeat({N}) + 'x' + ' '.repeat({N}) + 'y'",
    "heading_end": f"'# x' + ' #'.repeat({N}) + 'y'",
    "heading_separator": f"'# ' + ' '.repeat({N}) + '\\u2028x'",
    "table": f"'a|b\\n' + ' '.repeat({N}) + '-' + ' '.repeat({N}) + 'x'",
    "table_cells": f"'a|b\\n' + '-|'.repeat({N}) + 'x'",
    "item": f"'- ' + ' '.repeat({N}) + 'x\\u2028y'",
}


@pytest.mark.parametrize("line", LINES)
def test_a_hostile_line_is_shown_at_once(hub: HubProcess, window: Window, line: str) -> None:
    page = window.open(hub)
    script = f"import('/page/markdown.js').then((m) => m.markdown({LINES[line]}).textContent.length)"
    assert page.evaluate(script) > 0


def test_headings_and_tables_are_what_they_were(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)

    def shown(text: str) -> str:
        script = """(text) => import('/page/markdown.js').then((m) => {
            const into = document.createElement('div');
            into.append(m.markdown(text));
            return into.innerHTML;
        })"""
        return str(page.evaluate(script, text))

    assert "heading h2" in shown("## A title ##") and ">A title<" in shown("## A title ##  ")
    assert "heading" not in shown("#no title") and ">C#<" not in shown("# C#")
    for rule in ("|---|---|", "---|---", " | :-- | --: | ", ":-:|-"):
        assert "<table>" in shown(f"a|b\n{rule}\n1|2"), rule
    for rule in ("|---|x|", "- - -|", "|", "text - more"):
        assert "<table>" not in shown(f"a|b\n{rule}\n1|2"), rule
