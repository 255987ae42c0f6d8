"""Values of options: durations, whole numbers, and argparse's complaints in plain words."""

from __future__ import annotations

import argparse
import re

from holdfast.errors import BadInput

UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
LONGEST_S = 10.0**9
DURATION = "90, 90s, 45m, 1h30m or 2d"

_NUMBER = r"\d+(?:\.\d+)?"
_PART = rf"({_NUMBER})([dhms])"

# What argparse says (in Python 3.11 to 3.14), and what we say instead.
_REWORDED = (
    (r"argument (.+?): expected (?:one|at least one) argument", r"\1 needs a value"),
    (r"argument (.+?): ignored explicit argument (.+)", r"\1 takes no value, but got \2"),
    (r"argument (.+?): not allowed with argument (.+)", r"\1 and \2 exclude each other"),
    (r"argument (.+?): invalid choice: (.+?) \(choose from (.+)\)", r"\1 is one of \3, not \2"),
    (r"argument (.+?): (.+)", r"\1: \2"),
    (r"the following arguments are required: (.+)", r"missing: \1"),
    (r"unrecognized arguments: (.+)", r"unknown option or too many words: \1"),
)


def time_limit(text: str) -> float:
    """A length of time in seconds: a bare number, or numbers with units, as in `1h30m`."""
    value = text.strip().lower().replace(" ", "")
    if re.fullmatch(_NUMBER, value):
        seconds = float(value)
    elif re.fullmatch(f"(?:{_PART})+", value):
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in re.findall(_PART, value))
    else:
        raise BadInput(f"the time limit {text!r} is not a length of time", hint=f"write {DURATION}")
    if not 0 < seconds <= LONGEST_S:
        raise BadInput(f"the time limit {text!r} must be more than 0 and less than 30 years")
    return seconds


def whole_number(text: str) -> int:
    """A whole number, as a person writes one."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def reword(complaint: str) -> str:
    """A complaint of argparse in plain words."""
    for pattern, plain in _REWORDED:
        if found := re.fullmatch(pattern, complaint, re.DOTALL):
            return found.expand(plain)
    return complaint
