"""`holdfast import` takes every session once and whole, by as many processes as it likes, on both stores."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError, UnstorableText
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.location import Location
from holdfast.store.store import Store
from holdfast.store.types import CommitResult
from holdfast.transcripts import importer
from holdfast.transcripts.dedupe import REPLAY_MARKER
from holdfast.transcripts.importer import ImportOutcome, TranscriptImport, import_sessions
from holdfast.transcripts.reader import SessionRef
from tests.support.claude_transcripts import READER, SLUG, Made
from tests.support.terminal import Terminal

MANY = 20  # more than enough for several processes


class Cut(Exception):
    """The process ends here."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "claude" / "projects" / SLUG
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def terminal(home: Home, location: Location, root: Path, tmp_path: Path) -> Terminal:
    made = Terminal(home, str(tmp_path))
    made.env["CLAUDE_CONFIG_DIR"] = str(root.parent.parent)
    if location.kind == "postgres":
        made.env["HOLDFAST_STORE"] = location.address
    return made


def transcript(folder: Path, number: int, turns: int = 3) -> Made:
    made = Made(folder, f"{number:08x}-1111-4111-8111-111111111111")
    for turn in range(turns):
        made.user(f"prompt {turn} of {number}")
        made.calls(f"call{turn}")
        made.returns(f"call{turn}", f"line {turn}\n" * 5)
        made.says("the same words each time")
    made.place()
    return made


def told(events: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a reader told, as a log has it."""
    return [
        (e["kind"], e["body"], e["at"], e["origin"]) for e in events if e["kind"] not in ("session", "token")
    ]


def test_many_sessions_are_taken_once_each_and_whole(terminal: Terminal, root: Path) -> None:
    ids = {transcript(root, number).id for number in range(MANY)}
    done = terminal.asked("import", "claude")
    assert not done["failed"] and {one["native_id"] for one in done["adopted"]} == ids
    assert all(one["new"] and one["events"] == 12 for one in done["adopted"])
    assert len(terminal.asked("ls")) == MANY
    for one in done["adopted"][:: MANY // 4]:
        lines = terminal.give("history", "claude", one["native_id"], "--json").stdout.splitlines()
        log = terminal.log(one["session"])
        assert [e["kind"] for e in log[:2]] == ["session", "token"]
        assert told(log)[:-1] == told([json.loads(line) for line in lines])
        assert log[-1]["body"]["code"] == REPLAY_MARKER and all(e["replayed"] for e in log[2:])
    again = terminal.asked("import", "claude")
    assert [(one["new"], one["events"]) for one in again["adopted"]] == [(False, 0)] * MANY
    assert "no damage found" in terminal.give("doctor", "self").stdout


def test_where_nothing_is_nothing_is_taken(terminal: Terminal) -> None:
    assert terminal.asked("import", "claude") == {"adopted": [], "failed": []}


def test_two_imports_at_once_take_nothing_twice(terminal: Terminal, root: Path) -> None:
    for number in range(MANY):
        transcript(root, number, turns=100)  # long enough for the other to come between look and commit
    both = [terminal.start("import", "claude", "--json") for _ in range(2)]
    ends = [json.loads(one.communicate(timeout=60)[0]) for one in both]
    assert [one["failed"] for one in ends] == [[], []]
    assert sorted(sum(a["new"] for a in one["adopted"]) for one in ends) == [0, MANY]
    assert len(terminal.asked("ls")) == MANY


def test_transcripts_of_one_id_are_one_session(terminal: Terminal, root: Path) -> None:
    for number in range(MANY):
        transcript(root, number)
    elsewhere = root.parent / "-home-dev-elsewhere"
    elsewhere.mkdir()
    for number in range(MANY):
        transcript(elsewhere, number, turns=4)
    done = terminal.asked("import", "claude")
    assert len(done["adopted"]) == 2 * MANY and not done["failed"]
    assert len({one["session"] for one in done["adopted"]}) == len(terminal.asked("ls")) == MANY
    assert sum(one["events"] for one in done["adopted"]) == 16 * MANY


def test_a_session_that_cannot_be_taken_stops_no_other(terminal: Terminal, root: Path) -> None:
    made = [transcript(root, number) for number in range(MANY)]
    done = terminal.asked("import", "claude", made[3].id)
    terminal.give("rm", done["adopted"][0]["session"])
    made[3].says("And on it went.")
    made[3].place()
    done = json.loads(terminal.give("import", "claude", "--json", status=1).stdout)
    assert [one["native_id"] for one in done["failed"]] == [made[3].id]
    assert "trash" in done["failed"][0]["message"]
    assert len(done["adopted"]) == MANY - 1


def test_a_transcript_named_like_an_option_is_never_taken(terminal: Terminal, root: Path) -> None:
    """It would be resumed as `claude --resume --dangerously-skip-permissions`."""
    sound = transcript(root, 1)
    made = Made(root, "--dangerously-skip-permissions")
    made.user("hello")
    made.says("hello")
    made.place()
    hostile = root / "--dangerously-skip-permissions.jsonl"
    done = json.loads(terminal.give("import", "claude", "--json", status=1).stdout)
    assert [one["native_id"] for one in done["adopted"]] == [sound.id]
    (failed,) = done["failed"]
    assert failed["path"] == str(hostile) and "not a conversation id of Claude Code" in failed["message"]
    assert len(terminal.asked("ls")) == 1


def test_a_store_that_cannot_be_opened_is_said_once(
    terminal: Terminal, root: Path, location: Location
) -> None:
    if location.kind == "postgres":
        pytest.skip("its server is not ours to spoil")
    for number in range(MANY):
        transcript(root, number)
    os.mkdir(location.address)
    done = terminal.give("import", "claude", status=7)
    assert len(done.stderr.splitlines()) == 1 and location.address in done.stderr


async def test_cut_short_after_any_commit_it_is_completed(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH", 5)
    for cut in range(1, 4):  # of three
        place = transcript(root, cut).place()
        with monkeypatch.context() as patch, pytest.raises(Cut):
            dying = Dying(cut, store)
            patch.setattr(store, "commit", dying.commit)
            patch.setattr(store, "commit_all", dying.commit_all)
            await adopt(store, [place])
        (done,) = await adopt(store, [place])
        assert isinstance(done, TranscriptImport)
        assert [done.session] == await store.sessions_of_token("claude", place.native_id)
        log = await store.events(done.session)
        wanted = [(e.kind, e.body, e.origin) for e in READER.events(place)]
        assert [(e.kind, e.body, e.origin) for e in log[2:-1]] == wanted
        assert [e.seq for e in log if e.body.get("code") == REPLAY_MARKER] == [len(wanted) + 3]
        assert await adopt(store, [place]) == [TranscriptImport(done.session, False, 0)]


async def test_those_that_are_adopted_together_do_not_disturb_each_other(store: Store, root: Path) -> None:
    elsewhere = root.parent / "-home-dev-elsewhere"
    elsewhere.mkdir()
    odd = replace(transcript(root, 2).place(), title="a NUL \0 in it")
    places = [transcript(root, 1).place(), odd, transcript(elsewhere, 1, turns=4).place()]
    one, refused, more = await adopt(store, places)
    assert isinstance(one, TranscriptImport) and one.new and isinstance(refused, UnstorableText)
    assert more == TranscriptImport(one.session, False, 4)
    assert (await store.sessions_of_token("claude", odd.native_id)) == []
    assert len((await store.sessions()).sessions) == 1


async def adopt(store: Store, places: Sequence[SessionRef]) -> list[ImportOutcome]:
    return await import_sessions(
        store, READER, places, host="here", protocol=lambda place: None, check_id=lambda place: None
    )


class Dying:
    """The calls of a process that ends instead of doing that commit."""

    def __init__(self, at: int, store: Store):
        self._left = at
        self._commit = store.commit

    async def commit(self, commit: Commit) -> CommitResult:
        self._left -= 1
        if not self._left:
            raise Cut
        return await self._commit(commit)

    async def commit_all(self, commits: Sequence[Commit]) -> list[CommitResult | HoldfastError]:
        return [await self.commit(commit) for commit in commits]
