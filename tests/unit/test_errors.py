"""Every error has a code of its own, an exit status and a sentence."""

from __future__ import annotations

import inspect

import pytest

from holdfast import errors

ALL = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.HoldfastError)
]


def test_there_are_some_and_no_two_share_a_code() -> None:
    codes = [error.code for error in ALL]
    assert len(ALL) > 20 and len(codes) == len(set(codes))


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_an_error_says_what_is_wrong(error: type[errors.HoldfastError]) -> None:
    assert error.code == error.code.lower() and error.code.replace("_", "").isalpha()
    assert "code" in vars(error), "a code of its own"
    assert 1 <= error.exit_status <= 125
    problem = error()
    assert problem.message.endswith(".") and problem.message[0].isupper() and "\n" not in problem.message
    assert str(problem) == problem.message
    assert problem.as_json() == {"code": error.code, "message": problem.message, "hint": error.hint}


def test_an_error_carries_its_facts_and_hint() -> None:
    problem = errors.VersionMismatch("it moved on", hint="look again", version=3, metadata={"a": 1})
    assert problem.as_json() == {
        "code": "version_mismatch",
        "message": "it moved on",
        "hint": "look again",
        "version": 3,
        "metadata": {"a": 1},
    }
    assert errors.VersionMismatch().hint != "look again"


def test_what_changed_nothing_is_refused_or_bad_input() -> None:
    """Callers tell by these two that nothing was written."""
    for error in ALL:
        if error.exit_status == 2:
            assert issubclass(error, errors.BadInput)
        if error.exit_status == 4:
            assert issubclass(error, errors.Refused)
