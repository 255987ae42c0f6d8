"""`holdfast token`: a person lists, records, revokes and reinstates a session's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from tests.contract.test_completion import offered
from tests.support.terminal import Terminal

SAY: dict[str, Any] = {"say": "done"}


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Iterator[Terminal]:
    where = tmp_path / "work"
    where.mkdir()
    made = Terminal(home, str(where))
    yield made
    made.end_all()


def statuses(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(token["native_id"], token["status"]) for token in found["tokens"]]


def verdict(terminal: Terminal) -> tuple[str, str]:
    found = terminal.asked("verdict", "k")
    return found["action"], found["reasons"][0]["code"]


def test_a_revoked_token_is_not_resumed_until_it_is_reinstated(terminal: Terminal) -> None:
    session = terminal.run(SAY, words=["--key", "k"])["session"]
    before = terminal.asked("token", "k")
    (own,) = [token["native_id"] for token in before["tokens"]]
    assert (before["session"], before["agent"], before["current"]) == (session, "demo", own)
    assert verdict(terminal)[0] == "resume"

    revoked = terminal.asked("token", "k", "revoke", "--reason", "it goes round in circles")
    assert statuses(revoked) == [(own, "revoked")] and revoked["current"] is None
    assert revoked["tokens"][0]["reason"] == "it goes round in circles"
    assert verdict(terminal) == ("fresh", "token_revoked")
    assert terminal.asked("token", "k", "revoke", "--reason", "again") == revoked, "once is enough"
    assert "revoked" in terminal.asked_to_fail("token", "k", "record", own)["message"]

    back = terminal.asked("token", "k", "reinstate")
    assert statuses(back) == [(own, "current")] and back["current"] == own
    assert verdict(terminal)[0] == "resume"
    assert terminal.asked("token", "k", "reinstate") == back
    bodies = [event["body"] for event in terminal.log(session) if event["kind"] == "token"][1:]
    assert [body["op"] for body in bodies] == ["revoke", "reinstate"] and all(body["by"] for body in bodies)
    shown = terminal.give("token", "k").stdout
    assert shown.startswith("current ") and own in shown and "demo over acp" in shown


def test_a_recorded_token_is_resumed_and_the_old_one_stays(terminal: Terminal) -> None:
    """A person knows the id of the conversation that the thread should go on with."""
    terminal.run(SAY, words=["--key", "k"])
    terminal.run({"say": "the right one"}, words=["--key", "other"])
    (old,), (right,) = (
        [t["native_id"] for t in terminal.asked("token", key)["tokens"]] for key in ("k", "other")
    )
    terminal.give("rm", "other")
    found = terminal.asked("token", "k", "record", right, "--protocol", "acp")
    assert statuses(found) == [(old, "superseded"), (right, "current")]
    assert (found["tokens"][1]["seen_in"], found["tokens"][1]["protocol"]) == ("person", "acp")
    again = terminal.asked("token", "k", "record", old)
    assert statuses(again)[-1] == (old, "current") and len(again["tokens"]) == 3


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("k", "record"), 2, "record needs a token"),
        (("k", "record", ""), 2, "record needs a token"),
        (("k", "record", "x", "--protocol", "telepathy"), 2, "acp"),
        (("k", "record", "../../etc/passwd"), 2, "not a conversation id"),
        (("k", "record", "x", "--reason", "r"), 2, "--reason"),
        (("k", "revoke"), 2, "--reason"),
        (("k", "revoke", "--reason", " "), 2, "--reason"),
        (("k", "revoke", "nobody", "--reason", "r"), 3, "nobody"),
        (("k", "--protocol", "acp"), 2, "--protocol"),
        (("k", "forget"), 2, "record"),
        (("nowhere",), 3, "nowhere"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    terminal: Terminal, words: tuple[str, ...], status: int, says: str
) -> None:
    terminal.run(SAY, words=["--key", "k"])
    before = terminal.asked("token", "k")
    assert says in terminal.give("token", *words, status=status).stderr
    assert terminal.asked("token", "k") == before


def test_the_shell_completes_it(terminal: Terminal) -> None:
    session = terminal.run(SAY, words=["--key", "k"])["session"]
    assert "k" in offered(terminal, "token", "") or session in offered(terminal, "token", "")
    assert offered(terminal, "token", "k", "") == ["record", "revoke", "reinstate"]
    assert "--reason" in offered(terminal, "token", "k", "revoke", "--")
