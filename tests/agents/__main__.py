"""`python -m tests.agents [PYTEST OPTION …]`: installs the agents, then tests them without a network."""

from __future__ import annotations

import os
import sys

from tests.agents import install, namespace

INSIDE = "HOLDFAST_AGENT_LAB"  # set in the namespace; without it only the tests of the laboratory itself run
FOLDER = os.path.dirname(os.path.abspath(__file__))


def main() -> int:
    """Outside: install and step inside. Inside: pytest."""
    if os.environ.get(INSIDE):
        return _inside()
    if status := install.main():
        return status
    words = [sys.executable, "-m", "tests.agents", *sys.argv[1:]]
    try:
        inside = namespace.command(words)
        os.chdir(install.PROJECT)
        os.execve(inside[0], inside, {**os.environ, INSIDE: "1"})
    except OSError as problem:
        return _fail(str(problem))


def _inside() -> int:
    if not namespace.has_only_loopback():
        return _fail("this namespace has more than loopback")
    try:
        namespace.raise_loopback()
    except OSError as problem:
        return _fail(f"loopback stays down: {problem}")
    import pytest

    given = sys.argv[1:]
    named = any(os.path.exists(word.partition("::")[0]) for word in given)
    return int(pytest.main(given if named else [FOLDER, *given]))


def _fail(why: str) -> int:
    print(f"cannot run the agents without a network: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
