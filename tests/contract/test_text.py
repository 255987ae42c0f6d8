"""Text: whatever Python can hold is stored and read back the same, or refused with nothing written."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent, Origin
from holdfast.model.json_codec import MAX_BODY, MAX_DEPTH
from holdfast.model.session import Link, Worktree
from holdfast.store.store import Store
from tests.conftest import Opener
from tests.support.store_model import OWNER, log_of, nothing_changes, said

# Anything goes in a body, a prompt, options, an outcome, metadata.
ODD = {
    "nothing": "",
    "NUL": "a\0b\0",
    "every control character": "".join(map(chr, range(0x20))) + "\x7f\x80\x9f",
    "a lone high surrogate": "cut in the emoji \ud83d",
    "a lone low surrogate": "\udc00 rest",
    "surrogates the wrong way round": "\ude00\ud83d",
    "line separators": "a\u2028b\u2029c\x85d\r\ne",
    "emoji and marks": "👩‍👩‍👧‍👦 e\u0301 \ufeff \uffff \U0010ffff",
    "escapes that are text": '\\u0000 \\ud800 \\n "quoted" \\',
    "a mirror line in a text": '{"session":"x"},"spool":1,"body":{},"crc":"00000000"}',
}
SPLIT_PAIR = "\ud83d\ude00"  # would come back as one character
PAIR = re.compile(r"\\ud[89ab]..\\ud[c-f]..")  # in JSON text, where a split one looks like a whole one

# Python's own equality takes 1, 1.0 and True for the same; their JSON texts differ.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),  # with surrogates
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int) -> Any:
    value: Any = "deep"
    for i in range(depth):
        value = [value] if i % 2 else {"a": value}
    return value


def exact(value: Any) -> str:
    """A text that tells 1 from 1.0 from True."""
    return json.dumps(value)


async def test_any_text_in_a_body_comes_back_the_same(store: Store, opener: Opener) -> None:
    session = (await store.create_session("claude")).id
    for text in ODD.values():
        body = {"text": text, "more": {text: [text]}}
        await store.commit(Commit(session, [NewEvent("user", body)]))
    await store.commit(Commit(session, [said(text) for text in ODD.values()]))
    other = await opener()
    for reader in (store, other):
        log = (await log_of(reader, session))[1:]
        assert [e.body["text"] for e in log] == [*ODD.values(), *ODD.values()]
        assert [e.body["more"] for e in log[: len(ODD)]] == [{t: [t]} for t in ODD.values()]
        lines = await reader.event_lines(session)
        assert not any("\n" in line for line in lines)
        assert [json.loads(line)["body"]["text"] for line in lines[1:]] == [e.body["text"] for e in log]
        changes = (await reader.changes()).changes[1:]
        assert [change.event for change in changes] == log


async def test_any_text_in_a_prompt_options_outcome_or_metadata_comes_back(
    store: Store, opener: Opener
) -> None:
    other = await opener()
    for text in ODD.values():
        metadata = {text: text, "in": [{text: text}]}
        session = await store.create_session("claude", metadata=metadata)
        assert session.metadata == metadata
        patched = {**metadata, "new": text}
        assert (await store.patch_metadata(session.id, {"new": text}, 1)).metadata == patched
        task = await store.enqueue(session.id, text, options=metadata)
        assert (task.prompt, task.options) == (text, metadata)
        await store.claim(task.id, 0, OWNER, 60)
        await store.set_status(task.id, "failed", generation=1, outcome=metadata)
        for reader in (store, other):
            assert (await reader.session(session.id)).metadata == patched
            found = await reader.task(task.id)
            assert (found.prompt, found.options, found.outcome) == (text, metadata, metadata)


async def test_a_split_surrogate_pair_is_refused(store: Store) -> None:
    session = (await store.create_session("claude", metadata={"a": 1})).id
    async with nothing_changes(store):
        for text in (SPLIT_PAIR, f"x{SPLIT_PAIR}y", f"\ud800{SPLIT_PAIR}"):
            for answer in (
                store.commit(Commit(session, [said("fine"), said(text)])),
                store.commit(Commit(session, [NewEvent("user", {"text": "", text: 1})])),
                store.enqueue(session, text),
                store.enqueue(session, "x", options={"a": text}),
                store.patch_metadata(session, {"a": text}, 1),
                store.create_session("claude", metadata={"a": text}),
            ):
                with pytest.raises(errors.UnstorableText):
                    await answer


async def test_numbers_come_back_as_they_were_or_are_refused(store: Store) -> None:
    session = (await store.create_session("claude")).id
    taken = [2**53 + 1, -(2**63), 2**64, 10**300, 0.1, 1e308, 5e-324, -0.0, 1.0, True, False, None, 0]
    await store.commit(Commit(session, [NewEvent("user", {"text": "", "n": taken})]))
    assert exact((await log_of(store, session))[-1].body["n"]) == exact(taken)
    async with nothing_changes(store):
        for number in (float("nan"), float("inf"), float("-inf"), 10**5000):
            for value in (number, [number], {"a": {"b": [1, number]}}, ["\ud800", number]):
                with pytest.raises(errors.UnstorableText):
                    await store.commit(Commit(session, [said(), NewEvent("user", {"text": "", "n": value})]))
                with pytest.raises(errors.UnstorableText):
                    await store.enqueue(session, "x", options={"n": value})


async def test_ten_megabytes_come_back_and_too_much_is_refused(store: Store) -> None:
    session = (await store.create_session("claude")).id
    large = "é\u2028\0" * (10 * 1024 * 1024 // 6)
    await store.commit(Commit(session, [said("before"), said(large), said("after")]))
    texts = [e.body["text"] for e in (await log_of(store, session))[1:]]
    assert texts == ["before", large, "after"]
    task = await store.enqueue(session, large[: 2**20])
    assert (await store.task(task.id)).prompt == large[: 2**20]
    too_large = "x" * (MAX_BODY + 1)
    events = (await store.session(session)).events
    with pytest.raises(errors.TooLarge):
        await store.commit(Commit(session, [said("fine"), said(too_large)]))
    with pytest.raises(errors.TooLarge):
        await store.enqueue(session, too_large)
    assert (await store.session(session)).events == events


async def test_what_is_nested_deep_can_be_read_from_any_stack_or_is_refused(store: Store) -> None:
    session = (await store.create_session("claude")).id
    deepest = nested(MAX_DEPTH - 1)  # its body is one more
    await store.commit(Commit(session, [NewEvent("user", {"text": "", "deep": deepest, "n": None})]))
    task = await store.enqueue(session, "x", options={"deep": nested(MAX_DEPTH - 3)})

    async def from_below(frames: int) -> Any:
        if frames:
            return await from_below(frames - 1)
        return (await store.events(session))[1].body["deep"], (await store.task(task.id)).options

    assert await asyncio.create_task(from_below(400)) == (deepest, {"deep": nested(MAX_DEPTH - 3)})
    async with nothing_changes(store):
        for depth in (MAX_DEPTH, 300, 495, 900, 980, 990, 1100, 5000):
            for value in (nested(depth), [nested(depth), None], [nested(depth), "\ud800"]):
                with pytest.raises(errors.UnstorableText):
                    await store.commit(
                        Commit(session, [said(), NewEvent("user", {"text": "", "deep": value})])
                    )
                with pytest.raises(errors.UnstorableText):
                    await store.enqueue(session, "x", options={"deep": value})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(JSON, min_size=1, max_size=5))
@example(bodies=["\ud83d\ude00"])
@example(bodies=[["\ud83d", "\ude00"]])
@example(bodies=[{"\ud83d": "\ude00", "": None}])
async def test_any_json_in_a_body_comes_back_the_same_or_is_refused(store: Store, bodies: list[Any]) -> None:
    session = (await store.create_session("claude")).id
    events = [NewEvent("user", {"text": "", "json": body}) for body in bodies]
    try:
        done = await store.commit(Commit(session, events))
    except errors.UnstorableText:
        assert any(PAIR.search(exact(body)) for body in bodies)
        assert (await store.session(session)).events == 1
        return
    assert len(done.seqs) == len(bodies)
    found = await store.events(session, after=1)
    assert [exact(e.body["json"]) for e in found] == [exact(body) for body in bodies]


async def test_header_texts_are_taken_whole_or_refused(store: Store) -> None:
    """They are searched and compared by the database, so what one cannot hold neither may."""
    session = (await store.create_session("claude")).id
    fine = "ü\u2028 👩‍👩‍👧 \x01 'x' \"y\" \\ % _ --"
    plain = await store.create_session("claude", key=fine, cwd=fine, title=fine, host=fine)
    assert (plain.key, plain.cwd, plain.title, plain.host) == (fine, fine, fine, fine)
    assert await store.resolve(fine) == plain.id
    assert [h.id for h in (await store.sessions(key=fine, empty=True)).sessions] == [plain.id]
    await store.see_token(plain.id, "claude", fine, protocol=fine, seen_in=fine)
    await store.revoke_token(plain.id, "claude", fine, fine)
    assert await store.sessions_of_token("claude", fine) == [plain.id]
    assert await store.sessions_of_token("claude", "\0") == []
    assert await store.sessions_of_token("\ud800", "x") == []
    task = await store.enqueue(session, "hi")
    for bad in ("a\0", "\ud800", SPLIT_PAIR, "x" * 5000):
        tree = Worktree("/w", bad, "/r", "now")
        place = Origin("claude", "n", bad)
        async with nothing_changes(store):
            for answer in (
                *[store.create_session("claude", **{n: bad}) for n in ("key", "cwd", "host", "title")],  # type: ignore[arg-type]
                store.create_session(bad),
                store.create_session("claude", worktree=tree),
                *[store.describe(session, **{n: bad}) for n in ("key", "cwd", "title")],
                store.describe(session, worktree=tree),
                store.archive(session, bad, "completed"),
                store.archive(session, "me", bad),
                store.see_token(session, bad, "n"),
                store.see_token(session, "claude", bad),
                store.see_token(session, "claude", "n", protocol=bad),
                store.see_token(session, "claude", "n", seen_in=bad),
                store.revoke_token(plain.id, "claude", fine, bad),
                store.reinstate_token(plain.id, "claude", fine, bad),
                store.set_status(task.id, "cancelled", reason=bad),
                store.commit(Commit(session, [NewEvent("user", {"text": ""}, origin=place)])),
            ):
                with pytest.raises((errors.UnstorableText, errors.TooLarge)):
                    await answer


async def test_a_link_and_an_owner_hold_any_text_or_refuse_it(store: Store) -> None:
    for text in ODD.values():
        try:
            session = await store.create_session("claude", link=Link(text, text))
        except errors.BadInput:
            continue
        assert session.link == Link(text, text) == (await store.session(session.id)).link
        owner = type(OWNER)(host=text, pid=1, started=0.1, boot=text)
        task = await store.claim((await store.enqueue(session.id, "x")).id, 0, owner, 60)
        assert (await store.task(task.id)).owner == owner
    bad = type(OWNER)(host="h", pid=1, started=float("nan"), boot="b")
    task = await store.enqueue((await store.create_session("claude")).id, "x")
    async with nothing_changes(store):
        with pytest.raises(errors.UnstorableText):
            await store.claim(task.id, 0, bad, 60)
