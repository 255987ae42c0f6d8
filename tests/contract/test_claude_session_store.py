"""The Claude Agent SDK's session store on ours, judged by the SDK's own conformance suite."""

from __future__ import annotations

import asyncio
import copy
import json
import math
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk as sdk
from claude_agent_sdk.testing import run_session_store_conformance

from holdfast import errors
from holdfast.agents.claude.reader import ClaudeReader
from holdfast.claude_sdk import SessionStore, sdk_session
from holdfast.claude_sdk import entries as entries_of
from holdfast.claude_sdk.sdk_session import LONGEST_SUMMARY
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import decode, encode
from holdfast.store.store import Store
from holdfast.transcripts.importer import load_known_events
from tests.conftest import Opener
from tests.support.store_model import log_of

ID = "3f0c4cf2-6d1c-4d6e-9a55-0f4a8e0f7a11"
KEY: sdk.SessionKey = {"project_key": "-home-dev-proj", "session_id": ID}
SUB: sdk.SessionKey = {**KEY, "subpath": "subagents/agent-1"}


def uuid(n: int) -> str:
    return f"00000000-0000-4000-8000-{n:012d}"


def record(n: int, kind: str = "user", content: Any = "hi", **more: Any) -> Any:
    moment = f"2026-01-01T00:00:{n % 60:02d}.000Z"
    message = {"role": kind, "content": content}
    return {
        "type": kind,
        "uuid": uuid(n),
        "timestamp": moment,
        "message": message,
        "cwd": "/home/dev/proj",
        **more,
    }


CONVERSATION = [
    record(1, content="list the files"),
    record(2, "assistant", [{"type": "thinking", "thinking": "ls", "signature": "x"}]),
    record(
        3, "assistant", [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]
    ),
    record(4, content=[{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a\nb"}]),
    record(5, "assistant", [{"type": "text", "text": "Two"}, {"type": "text", "text": "files."}]),
    record(6, content="<command-name>/cost</command-name>"),
    record(7, content=[{"type": "text", "text": "[Request interrupted by user]"}]),
    record(8, content="meta", isMeta=True),
    {"type": "custom-title", "customTitle": "Files"},
    {"type": "x-of-the-future", "uuid": uuid(9), "deep": [{"a": [1, 2.5, None, "é"]}]},
]


async def test_the_conformance_suite_of_the_sdk(opener: Opener) -> None:
    store = await opener()

    async def make() -> SessionStore:
        for session in (await store.sessions(empty=True, limit=500)).sessions:
            await store.delete(session.id, "test", "next contract")
        return SessionStore(store)

    await run_session_store_conformance(make)


async def test_entries_come_back_and_the_conversation_is_in_the_log(opener: Opener) -> None:
    store = await opener()
    given_entries = copy.deepcopy(CONVERSATION)
    await SessionStore(store).append(KEY, given_entries)
    assert given_entries == CONVERSATION  # they are the caller's
    another = SessionStore(await opener())  # as another process would
    assert await another.load(KEY) == CONVERSATION
    session = (await store.sessions()).sessions[0]  # not hidden as empty
    assert (session.agent, session.cwd, session.key) == (
        "claude",
        "/home/dev/proj",
        sdk_session.session_key("-home-dev-proj", ID),
    )
    assert [t.native_id for t in await store.tokens(session.id)] == [ID]
    told = [event for event in await log_of(store, session.id) if event.kind not in ("session", "token")]
    assert [(e.kind, e.body.get("text", e.body.get("output"))) for e in told] == [
        ("user", "list the files"),
        ("thinking", "ls"),
        ("tool_progress", None),
        ("tool_summary", "a\nb"),
        ("assistant", "Two"),
        ("assistant", "files."),
        ("notice", "<command-name>/cost</command-name>"),
        ("notice", "[Request interrupted by user]"),
        ("notice", "meta"),
        ("notice", "custom-title: Files"),
        ("notice", "x-of-the-future"),
    ]
    assert told[0].at == "2026-01-01T00:00:01.000000Z"
    assert (told[3].body["name"], told[3].body["outcome"]) == ("Bash", "ok")


async def test_a_uuid_is_stored_once_and_entries_without_one_each_time(store: Store) -> None:
    sessions = SessionStore(store)
    tag: Any = {"type": "tag", "tag": "t"}
    await sessions.append(KEY, [record(1), tag])
    await sessions.append(KEY, [record(1), tag, record(2)])
    await sessions.append(SUB, [record(1)])  # another transcript
    assert await sessions.load(KEY) == [record(1), tag, tag, record(2)]
    assert await sessions.load(SUB) == [record(1)]


async def test_a_deleted_session_is_in_the_trash_and_can_come_back(store: Store) -> None:
    sessions = SessionStore(store)
    await sessions.append(KEY, [record(1)])
    await sessions.append(SUB, [record(2)])
    old = (await store.sessions()).sessions[0].id
    await sessions.delete(KEY)
    assert await sessions.load(SUB) is None and await sessions.list_sessions("-home-dev-proj") == []
    deletion = (await store.session(old)).deletion
    assert deletion is not None and deletion.by == "claude-agent-sdk"
    await sessions.append(KEY, [record(1), record(3)])  # a new one, with a uuid that the old one had
    assert await sessions.load(KEY) == [record(1), record(3)]
    assert await sessions.list_subkeys(KEY) == []
    with pytest.raises(errors.KeyTaken):
        await store.restore(old, "me")
    await sessions.delete(KEY)
    await store.restore(old, "me")
    assert await sessions.load(KEY) == [record(1)] and await sessions.load(SUB) == [record(2)]


async def test_a_deleted_subkey_can_be_written_again(store: Store) -> None:
    sessions = SessionStore(store)
    await sessions.append(SUB, [record(1)])
    assert await sessions.load(KEY) is None and await sessions.list_sessions("-home-dev-proj") == []
    await sessions.delete(SUB)
    await sessions.delete(SUB)
    assert await sessions.load(SUB) is None and await sessions.list_subkeys(KEY) == []
    await sessions.append(SUB, [record(1), record(2)])
    assert await sessions.load(SUB) == [record(1), record(2)]
    assert await sessions.list_subkeys(KEY) == ["subagents/agent-1"]


async def test_many_writers_lose_nothing(opener: Opener) -> None:
    writers = [SessionStore(await opener()) for _ in range(3)]
    await asyncio.gather(
        *(w.append(KEY, [record(100 * n + i)]) for n, w in enumerate(writers) for i in range(10)),
        *(w.append({**KEY, "subpath": f"subagents/agent-{n}"}, [record(n)]) for n, w in enumerate(writers)),
    )
    loaded = cast(list[Any], await writers[0].load(KEY))
    for n in range(3):  # in the order of each one's calls
        mine = [e["uuid"] for e in loaded if int(e["uuid"][-12:]) // 100 == n]
        assert mine == [uuid(100 * n + i) for i in range(10)]
    assert len(loaded) == 30 and len(await writers[1].list_subkeys(KEY)) == 3
    assert len(await writers[2].list_sessions("-home-dev-proj")) == 1


async def test_what_no_log_can_hold_is_kept_as_text(store: Store) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    odd: list[Any] = [
        {"type": "user", "uuid": uuid(1), "message": {"content": "cut \ud83d"}},
        {
            "type": "user",
            "uuid": uuid(2),
            "message": {"content": [{"type": "text", "text": "x"}]},
            "deep": deep,
        },
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "input": deep}]}},
        {"type": "x\0", "big": 10**40, "nul": "a\0b", "": {}, "float": -0.0},
        {"type": "x", "endless": math.inf},
    ]
    sessions = SessionStore(store)
    await sessions.append(KEY, odd)
    assert await sessions.load(KEY) == odd


async def test_odd_keys_do_not_meet(store: Store) -> None:
    sessions = SessionStore(store)
    keys: list[sdk.SessionKey] = [
        {"project_key": "a:b", "session_id": "c"},
        {"project_key": "a", "session_id": "b:c"},
        {"project_key": "a%3Ab", "session_id": "c"},
        {"project_key": "A", "session_id": "b:c"},
        {"project_key": "é/\0 %", "session_id": "\ud800"},
        {"project_key": "é/\0 %", "session_id": "s", "subpath": "x" * 3000},
    ]
    for n, key in enumerate(keys):
        await sessions.append(key, [record(n)])
    for n, key in enumerate(keys):
        assert await sessions.load(key) == [record(n)]
    assert [s["session_id"] for s in await sessions.list_sessions("a")] == ["b:c"]


async def test_a_summary_that_is_too_long_is_folded_anew(store: Store) -> None:
    sessions = SessionStore(store)
    long: Any = {"type": "last-prompt", "lastPrompt": "x" * (LONGEST_SUMMARY + 1)}
    await sessions.append(KEY, [record(1, content="first"), long])
    await sessions.append(KEY, [record(2, gitBranch="main")])
    summary = (await sessions.list_session_summaries("-home-dev-proj"))[0]
    assert summary["data"]["last_prompt"] == long["lastPrompt"]
    assert (summary["data"]["first_prompt"], summary["data"]["git_branch"]) == ("first", "main")


async def test_metadata_that_lost_its_place_is_an_error_and_nothing_is_lost(store: Store) -> None:
    sessions = SessionStore(store)
    await sessions.append(KEY, [record(1)])
    session = (await store.sessions()).sessions[0]
    await store.patch_metadata(session.id, {sdk_session.FIELD: None}, session.version)
    for call in (sessions.load(KEY), sessions.append(KEY, [record(2)])):
        with pytest.raises(errors.MetadataUnreadable):
            await call


async def test_the_sdk_reads_and_changes_sessions_through_it(store: Store, tmp_path: Path) -> None:
    sessions = SessionStore(store)
    directory = str(tmp_path)
    project = sdk.project_key_for_directory(directory)
    key: sdk.SessionKey = {"project_key": project, "session_id": ID}
    chain = [
        {**r, "sessionId": ID, "parentUuid": uuid(i) if i else None} for i, r in enumerate(CONVERSATION[:5])
    ]
    await sessions.append(key, cast(Any, chain))
    messages = await sdk.get_session_messages_from_store(sessions, ID, directory=directory)
    assert [m.uuid for m in messages] == [uuid(n) for n in range(1, 6)]
    await sdk.rename_session_via_store(sessions, ID, "A name", directory=directory)
    listed = await sdk.list_sessions_from_store(sessions, directory=directory)
    assert [(s.session_id, s.custom_title) for s in listed] == [(ID, "A name")]
    fork = await sdk.fork_session_via_store(sessions, ID, directory=directory)
    copied = await sdk.get_session_messages_from_store(sessions, fork.session_id, directory=directory)
    assert [m.message for m in copied] == [m.message for m in messages]
    await sdk.delete_session_via_store(sessions, ID, directory=directory)
    assert [s.session_id for s in await sdk.list_sessions_from_store(sessions, directory=directory)] == [
        fork.session_id
    ]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image"])},
    optional=dict.fromkeys(
        ("text", "thinking", "id", "tool_use_id", "content", "input", "name"), json_values
    ),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.text(max_size=8), json_values, max_size=3),
    st.sampled_from(["user", "assistant", "system"]),
    json_values | st.lists(block, max_size=3),
    st.fixed_dictionaries(
        {}, optional={"uuid": json_values, "timestamp": json_values, "isMeta": json_values}
    ),
)
def test_any_entry_is_told_and_given_back(more: Any, kind: str, content: Any, marks: Any) -> None:
    entry = {**more, **marks, "type": kind, "message": {"content": content}}
    try:
        through = json.loads(json.dumps(entry))
    except (ValueError, RecursionError):
        return
    found: list[NewEvent] = entries_of.events(entry, "native", "", 0, {}, "2026-01-01T00:00:00.000000Z")
    held = decode(encode(found[0].body))
    assert entries_of.stored_entry(held, "", 0) == through
    assert entries_of.stored_entry(held, "other", 0) is None and entries_of.stored_entry(held, "", 1) is None
    for event in found[1:]:
        assert entries_of.INSIDE not in event.body
        encode(event.body)


async def test_a_replay_of_the_transcript_itself_adds_nothing_that_was_said(
    store: Store, tmp_path: Path
) -> None:
    chain = [
        {**told, "sessionId": ID, "parentUuid": uuid(n) if n else None}
        for n, told in enumerate(CONVERSATION[:5])
    ]
    folder = tmp_path / "projects" / "-home-dev-proj"
    folder.mkdir(parents=True)
    path = folder / f"{ID}.jsonl"
    path.write_text("".join(json.dumps(told) + "\n" for told in chain))
    sessions = SessionStore(store)
    await sessions.append(KEY, cast(Any, chain))
    session = (await store.sessions()).sessions[0]
    reader = ClaudeReader()
    (place,) = reader.find(str(tmp_path), str(path))
    known = await load_known_events(store, session.id, reader)
    assert list(known.missing(reader.events(place))) == []
    assert await sessions.load(KEY) == chain
