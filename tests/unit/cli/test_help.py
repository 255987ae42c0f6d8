"""The help: commands in groups, an example in each, nothing wider than a terminal."""

from __future__ import annotations

from importlib import import_module

import pytest

from holdfast.cli import main
from holdfast.cli.examples import EXAMPLES


def test_the_overview_has_five_groups_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    shown = capsys.readouterr().out
    assert [line[:-1] for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")] == [
        "Run",
        "Look",
        "Decide",
        "Repair",
        "Operate",
    ]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", main.COMMANDS)
def test_each_command_has_an_example_that_its_own_parser_takes(name: str) -> None:
    import shlex

    command = import_module(f"holdfast.cli.commands.{main.COMMANDS[name][0]}").parser(name)
    shown = command.format_help()
    assert "examples:" in shown and max(map(len, shown.splitlines())) <= 90
    for example in EXAMPLES[name]:
        assert f"  {example}\n" in shown
        words = shlex.split(example.partition(" | ")[0])
        if words[0] == "eval":
            words = shlex.split(words[1][2:-1])
        assert words[:2] == ["holdfast", name]
        command.parse_args(words[2:])
