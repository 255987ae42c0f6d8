"""`decide`, pure: a view and a commit in, the records to add or the refusal out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast import errors
from holdfast.model import changes as c
from holdfast.model.commit import Commit, Decision, decide, prepare
from holdfast.model.event import NewEvent, Origin
from holdfast.model.projection import View, apply, replace
from holdfast.model.session import ArchiveNote, Deletion, Session
from holdfast.model.task import ACTIVE, MAY_BECOME, Owner, Task, WaitingFor
from holdfast.model.token import Token, TokenRules

NOW = "2026-01-31T12:00:00.000000Z"
SID = "s0123456789abcde"
TID = "t0123456789abcde"
RULES = TokenRules(frozenset({"claudeSessionId"}), {})
LIVE = Session(SID, "claude", "live", NOW, NOW, key="k", metadata={"a": 1}, events=1)
ARCHIVED = replace(LIVE, state="archived", archive=ArchiveNote("me", "r", NOW))
DELETED = replace(LIVE, state="deleted", deletion=Deletion("d1", "me", "r", NOW))
OWNER = Owner("here", 1, 2.0, "b")
DESCRIBE = c.Describe(title="t")
ARCHIVE = c.Archive(by="me", reason="r")
UNARCHIVE = c.Unarchive(by="me")
DELETE = c.Delete(id="d2", by="me", reason="r")
RESTORE = c.Restore(by="me", undoes="d1")
PATCH = c.PatchMetadata(patch={"b": 2}, version=1)
SEE = c.SeeToken(agent="claude", native_id="A", seen_in="stream")
USER = NewEvent("user", {"text": "x"})


def task(status: Any = "queued", **given: Any) -> Task:
    return Task(id=TID, session=SID, prompt="hi", status=status, queued_at=NOW, **given)


def token(native_id: str, status: Any, protocol: str | None = None) -> Token:
    return Token("claude", native_id, protocol, "stream", NOW, None, status)


def decided(
    view: View, *entries: Any, known: set[str] | None = None, holder: str | None = None, **given: Any
) -> Decision:
    commit = Commit(SID, entries, **given)
    return decide(view, commit, prepare(commit, NOW), known or set(), holder, RULES, NOW)


# state of the session, change, what comes of it: "done", "same" or the refusal's code
SESSION_TABLE: list[tuple[Session, c.Change, str]] = [
    *[(LIVE, change, "done") for change in (DESCRIBE, ARCHIVE, DELETE, PATCH, SEE)],
    (LIVE, UNARCHIVE, "same"),
    (LIVE, RESTORE, "same"),
    *[(ARCHIVED, change, "done") for change in (DESCRIBE, ARCHIVE, UNARCHIVE, DELETE, PATCH, SEE)],
    *[(DELETED, change, "session_deleted") for change in (DESCRIBE, ARCHIVE, UNARCHIVE, PATCH, SEE)],
    (DELETED, DELETE, "same"),
    (DELETED, RESTORE, "done"),
    (DELETED, c.Restore(by="me", undoes="another"), "same"),
    (LIVE, c.Create(agent="claude"), "illegal_change"),
    (LIVE, c.PatchMetadata(patch={"b": 2}, version=2), "version_mismatch"),
    (LIVE, c.PatchMetadata(patch={"a": 1}, version=1), "same"),
    (LIVE, c.PatchMetadata(patch={"a": True}, version=1), "done"),
    (LIVE, c.PatchMetadata(patch={"claudeSessionId": None}, version=1), "token_field"),
    (replace(LIVE, metadata=None, metadata_problem="no"), PATCH, "metadata_unreadable"),
]


@pytest.mark.parametrize(("session", "change", "result"), SESSION_TABLE)
def test_what_may_be_done_to_a_session(session: Session, change: c.Change, result: str) -> None:
    view = View(session)
    try:
        decision = decided(view, change)
    except errors.HoldfastError as refusal:
        assert refusal.code == result
        return
    assert result == ("same" if decision.unchanged else "done")
    assert len(decision.drafts) == 1 - decision.unchanged
    if decision.unchanged:
        assert decision.view == view


KEY_TABLE: list[tuple[View, c.Change]] = [
    (View(), c.Create(agent="claude", key="k")),
    (View(LIVE), c.Describe(key="k")),
    (View(ARCHIVED), UNARCHIVE),
    (View(DELETED), RESTORE),
]


@pytest.mark.parametrize(("view", "change"), KEY_TABLE)
def test_a_key_that_another_holds_is_refused(view: View, change: c.Change) -> None:
    with pytest.raises(errors.KeyTaken):
        decided(view, change, holder="s-other")
    assert decided(view, change, holder=None).drafts
    if view.session is not None:
        assert decided(view, change, holder=SID).drafts


def test_an_archived_session_is_restored_without_its_key() -> None:
    both = replace(ARCHIVED, state="deleted", deletion=DELETED.deletion)
    restored = decided(View(both), RESTORE, holder="s-other").view.session
    assert restored is not None and restored.state == "archived"


# lineage, id seen, protocol, whether that is news
TOKEN_TABLE: list[tuple[list[Token], str, str | None, bool]] = [
    ([], "A", None, True),
    ([token("A", "current")], "A", None, False),
    ([token("A", "current", "acp")], "A", None, False),
    ([token("A", "current", "acp")], "A", "acp", False),
    ([token("A", "current", "acp")], "A", "stream-json", True),
    ([token("A", "current")], "A", "acp", True),
    ([token("A", "current")], "B", None, True),
    ([token("A", "superseded"), token("B", "current")], "A", None, True),
    ([token("A", "revoked")], "A", None, False),
    ([token("A", "revoked")], "A", "acp", False),
    ([token("A", "revoked")], "B", None, True),
    ([token("A", "current", "acp"), token("B", "revoked")], "A", None, False),
    ([token("A", "current", "acp"), token("B", "revoked")], "B", None, True),
]


@pytest.mark.parametrize(("lineage", "native_id", "protocol", "news"), TOKEN_TABLE)
def test_what_a_seen_token_changes(
    lineage: list[Token], native_id: str, protocol: str | None, news: bool
) -> None:
    view = View(LIVE, tuple(lineage))
    change = c.SeeToken(agent="claude", native_id=native_id, seen_in="stream", protocol=protocol)
    decision = decided(view, change)
    assert decision.unchanged == (not news)
    if not news:
        assert decision.view == view
    after = decision.view.tokens
    assert [t.native_id for t in after[: len(lineage)]] == [t.native_id for t in lineage]
    assert len([t for t in after if t.status == "current"]) <= 1


WAITING_FOR = WaitingFor("leftovers", "sleep (12) still runs", "2026-01-31T12:00:00.000000Z")


@pytest.mark.parametrize(
    "change",
    [
        c.SetStatus(status="waiting"),
        c.SetStatus(status="failed", waiting_for=WAITING_FOR),
        c.SetStatus(status="failed", not_before="2026-01-31T12:00:00.000000Z"),
        c.SetStatus(status="waiting", waiting_for=WAITING_FOR, not_before="tomorrow"),
        c.SetStatus(status="waiting", waiting_for=WaitingFor("leftovers", "x", "now")),
    ],
)
def test_a_task_waits_for_something_and_only_a_waiting_one_does(change: c.SetStatus) -> None:
    with pytest.raises(errors.BadInput):
        decided(View(LIVE, (), {TID: task("queued")}), change, task=TID)


def test_what_a_task_waits_for_is_recorded_once_and_gone_when_it_starts() -> None:
    wait = c.SetStatus(status="waiting", waiting_for=WAITING_FOR, not_before="2026-01-31T12:01:00.000000Z")
    first = decided(View(LIVE, (), {TID: task("queued")}), wait, task=TID)
    waiting = first.view.tasks[TID]
    assert (waiting.status, waiting.waiting_for, waiting.owner) == ("waiting", WAITING_FOR, None)
    assert decided(first.view, wait, task=TID).drafts == []
    claim = c.ClaimTask(owner=OWNER, generation=1, lease_until="2026-01-31T12:00:00.000000Z")
    running = apply(SID, first.view, claim, "2026-01-31T12:00:00.000000Z", TID).tasks[TID]
    assert (running.status, running.waiting_for, running.not_before) == ("running", None, None)


def test_a_status_needs_the_owner_and_the_table() -> None:
    for before, after, owned in itertools.product(MAY_BECOME, MAY_BECOME, (True, False)):
        view = View(LIVE, (), {TID: task(before, generation=3)})
        waiting_for = WAITING_FOR if after == "waiting" else None
        change = c.SetStatus(status=after, waiting_for=waiting_for)  # type: ignore[arg-type]
        generation = 3 if owned else None
        if owned != (before in ACTIVE):
            with pytest.raises(errors.Refused):
                decided(view, change, task=TID, generation=generation)
        elif after in MAY_BECOME[before]:
            now = decided(view, change, task=TID, generation=generation).view.tasks[TID]
            assert now.status == after
        else:
            with pytest.raises(errors.IllegalChange):
                decided(view, change, task=TID, generation=generation)


@pytest.mark.parametrize("generation", [0, 2, 4])
def test_the_fence_stops_every_entry(generation: int) -> None:
    view = View(LIVE, (), {TID: task("running", generation=3)})
    for entry in (USER, SEE, DESCRIBE, c.Deliver(delivery="sent")):
        with pytest.raises(errors.StaleGeneration) as refusal:
            decided(view, entry, task=TID, generation=generation)
        assert refusal.value.facts == {"generation": 3, "status": "running"}
        assert decided(view, entry, task=TID, generation=3).drafts


def test_a_spool_offset_needs_a_generation_and_goes_on() -> None:
    view = View(LIVE, (), {TID: task("running", generation=1, spool=10)})
    with pytest.raises(errors.BadInput):
        decided(view, USER, task=TID, spool=11)
    with pytest.raises(errors.IllegalChange):
        decided(view, USER, task=TID, generation=1, spool=9)
    for spool in (10, 11):
        assert decided(view, USER, task=TID, generation=1, spool=spool).drafts


def test_a_running_session_is_not_deleted() -> None:
    for status in MAY_BECOME:
        view = View(LIVE, (), {TID: task(status)})
        if status in ACTIVE:
            with pytest.raises(errors.SessionRunning):
                decided(view, DELETE)
        else:
            assert decided(view, DELETE).drafts


def test_origins_are_dropped_and_counted() -> None:
    one, two = (NewEvent("user", {"text": r}, origin=Origin("a", "n", r)) for r in "12")
    known = prepare(Commit(SID, [one]), NOW).origins
    assert len(known) == 1
    fresh = decided(View(LIVE), one, two, USER, USER)
    assert (len(fresh.drafts), fresh.dropped) == (4, 0)
    again = decided(View(LIVE), one, two, two, USER, known=known)
    assert (len(again.drafts), again.dropped) == (2, 2)
    assert [d[4] for d in again.drafts] == ['{"text":"2"}', '{"text":"x"}']


def test_a_refusal_leaves_the_view_as_it_was() -> None:
    view = View(LIVE, (token("A", "current"),), {TID: task()})
    copy = View(LIVE, (token("A", "current"),), {TID: task()})
    with pytest.raises(errors.VersionMismatch):
        decided(view, USER, DESCRIBE, c.PatchMetadata(patch={"a": 9}, version=7))
    assert view == copy
    decided(view, PATCH)
    assert view == copy, "nor does what is taken change what was given"


BAD: list[c.Change] = [
    c.Describe(cwd=None),  # type: ignore[arg-type]
    c.Archive(by="me", reason=None),  # type: ignore[arg-type]
    c.Archive(by=5, reason="r"),  # type: ignore[arg-type]
    c.PatchMetadata(patch={"a": {1: 2}}, version=1),
    c.PatchMetadata(patch={"a": (1, 2)}, version=1),
    c.SeeToken(agent="claude", native_id="A", seen_in=None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("change", BAD)
def test_no_record_is_written_that_a_fold_could_not_read(change: c.Change) -> None:
    with pytest.raises(errors.BadInput):
        decided(View(LIVE), change)
