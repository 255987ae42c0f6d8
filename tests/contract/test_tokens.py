"""A token never vanishes: for every agent of the registry, whatever is written beside it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast import errors
from holdfast.agents.base import Agent
from holdfast.model.changes import SeeToken
from holdfast.model.commit import Commit
from holdfast.model.token import TokenRules
from holdfast.store.store import Store
from tests.conftest import REGISTRY, Opener
from tests.support.store_model import WORKTREE, nothing_changes

EVERY_AGENT = REGISTRY.agents
REASONS = [
    "User terminated",
    "Session crashed",
    "Local launch failed: spawn ENOENT",
    "handed off to codex",
    "completed",
    "",
]


async def session_with_token(store: Store, agent: Agent) -> str:
    session = await store.create_session(agent.name, cwd="/w/t", host="here", worktree=WORKTREE)
    assert await store.see_token(session.id, agent.name, "native-A", protocol=agent.protocols[0])
    return session.id


async def check_token(store: Store, session: str, agent: Agent, native_id: str = "native-A") -> None:
    """Fetch and resume data have it."""
    assert [(t.native_id, t.protocol) for t in await store.tokens(session) if t.status == "current"] == [
        (native_id, agent.protocols[0])
    ]
    target = await store.resume_target(session)
    assert (target.agent, target.native_id, target.protocol) == (agent.name, native_id, agent.protocols[0])
    assert (target.cwd, target.host, target.worktree) == ("/w/t", "here", WORKTREE)
    assert await store.sessions_of_token(agent.name, native_id) == [session]


def test_the_table_has_every_agent_the_issue_names() -> None:
    names = {agent.name for agent in REGISTRY.agents}
    assert names >= {"claude", "codex", "gemini", "opencode", "cursor", "kimi", "my-acp"}


async def test_archiving_for_whatever_reason_leaves_the_token(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        lineage = await store.tokens(session)
        for reason in REASONS:
            archived = await store.archive(session, "hub", reason)
            assert archived.archive is not None and archived.archive.reason == reason
            assert await store.tokens(session) == lineage
            await check_token(store, session, agent)
            await store.unarchive(session, "hub")
            await check_token(store, session, agent)


async def test_a_new_id_becomes_current_and_the_old_one_stays(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        assert await store.see_token(session, agent.name, "native-B", protocol=agent.protocols[0])
        old, new = await store.tokens(session)
        assert (old.native_id, old.status, old.protocol) == ("native-A", "superseded", agent.protocols[0])
        assert old.reason and "native-B" in old.reason
        assert (new.native_id, new.status) == ("native-B", "current")
        assert await store.sessions_of_token(agent.name, "native-A") == [session]


async def test_the_same_id_again_changes_nothing(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        async with nothing_changes(store):
            assert not await store.see_token(session, agent.name, "native-A")
            assert not await store.see_token(session, agent.name, "native-A", seen_in="store")
            assert not await store.see_token(session, agent.name, "native-A", protocol=agent.protocols[0])
        await check_token(store, session, agent)


async def test_an_id_that_comes_back_is_a_third_step(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        for native_id in ("native-B", "native-A"):
            assert await store.see_token(session, agent.name, native_id, protocol=agent.protocols[0])
        lineage = [(t.native_id, t.status) for t in await store.tokens(session)]
        assert lineage == [("native-A", "superseded"), ("native-B", "superseded"), ("native-A", "current")]
        await check_token(store, session, agent)


async def test_a_protocol_is_learned_and_not_unlearned(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = (await store.create_session(agent.name)).id
        assert await store.see_token(session, agent.name, "native-A")
        assert await store.see_token(session, agent.name, "native-A", protocol="acp")
        assert not await store.see_token(session, agent.name, "native-A")
        (token,) = await store.tokens(session)
        assert (token.protocol, token.status) == ("acp", "current")


async def test_no_metadata_write_holds_or_clears_a_token(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        values: tuple[Any, ...] = (None, "", "native-Z", {}, [])
        async with nothing_changes(store):
            for field, value in itertools.product(agent.token_fields, values):
                with pytest.raises(errors.TokenField) as refusal:
                    await store.patch_metadata(session, {"note": 1, field: value}, 1)
                assert refusal.value.code == "token_field"
                with pytest.raises(errors.TokenField):
                    await store.create_session(agent.name, metadata={field: value})
        await check_token(store, session, agent)


async def test_no_other_write_touches_the_token(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        await store.patch_metadata(session, {"a": {"token": None}, "session": None}, 1)
        await store.patch_metadata(session, {"a": None}, 2)
        await store.describe(session, title="t", key="k")
        task = await store.enqueue(session, "go on")
        await store.set_status(task.id, "cancelled", reason="Local launch failed: no such file")
        await store.archive(session, "hub", "Session crashed")
        await store.delete(session, "me", "tidy")
        await store.restore(session, "me")
        await check_token(store, session, agent)


async def test_a_token_is_kept_when_another_opener_archives(store: Store, opener: Opener) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        other = await opener()
        await other.archive(session, "other hub", "Session crashed")
        await check_token(store, session, agent)
        await check_token(other, session, agent)


async def test_revoking_needs_a_reason_and_can_be_undone(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        async with nothing_changes(store):
            for reason in ("", None):
                with pytest.raises(errors.BadInput):
                    await store.revoke_token(session, agent.name, "native-A", reason)  # type: ignore[arg-type]
            with pytest.raises(errors.NotFound):
                await store.revoke_token(session, agent.name, "never-seen", "why")
        await store.revoke_token(session, agent.name, "native-A", "the agent lost it")
        (token,) = await store.tokens(session)
        assert (token.status, token.reason) == ("revoked", "the agent lost it")
        assert token.protocol == agent.protocols[0]
        with pytest.raises(errors.NoToken):
            await store.resume_target(session)
        async with nothing_changes(store):
            await store.revoke_token(session, agent.name, "native-A", "again")
            assert not await store.see_token(session, agent.name, "native-A", protocol=agent.protocols[0])
            with pytest.raises(errors.BadInput):
                await store.reinstate_token(session, agent.name, "native-A", "")
        await store.reinstate_token(session, agent.name, "native-A", "it was there after all")
        await check_token(store, session, agent)


async def test_a_reinstated_token_that_is_seen_again_keeps_its_protocol(store: Store) -> None:
    for agent in EVERY_AGENT:
        session = await session_with_token(store, agent)
        await store.revoke_token(session, agent.name, "native-A", "lost")
        await store.see_token(session, agent.name, "native-B")
        await store.revoke_token(session, agent.name, "native-B", "wrong one")
        await store.reinstate_token(session, agent.name, "native-A", "found")
        async with nothing_changes(store):
            assert not await store.see_token(session, agent.name, "native-A")
        await check_token(store, session, agent)


async def test_a_superseded_token_is_neither_revoked_nor_reinstated(store: Store) -> None:
    session = (await store.create_session("claude")).id
    await store.see_token(session, "claude", "A")
    await store.see_token(session, "claude", "B")
    async with nothing_changes(store):
        with pytest.raises(errors.IllegalChange):
            await store.revoke_token(session, "claude", "A", "why")
        with pytest.raises(errors.IllegalChange):
            await store.reinstate_token(session, "claude", "A", "why")


async def test_a_token_is_not_reinstated_over_a_newer_one(store: Store) -> None:
    session = (await store.create_session("claude")).id
    await store.see_token(session, "claude", "A")
    await store.revoke_token(session, "claude", "A", "lost")
    await store.see_token(session, "claude", "B")
    async with nothing_changes(store):
        with pytest.raises(errors.IllegalChange):
            await store.reinstate_token(session, "claude", "A", "found")


async def test_tokens_of_two_agents_do_not_supersede_each_other(store: Store) -> None:
    session = (await store.create_session("claude")).id
    await store.see_token(session, "claude", "A")
    await store.see_token(session, "codex", "B")
    assert [(t.agent, t.status) for t in await store.tokens(session)] == [
        ("claude", "current"),
        ("codex", "current"),
    ]
    assert (await store.resume_target(session)).native_id == "A"


async def test_a_cursor_id_without_a_protocol_routes_as_stream_json(store: Store) -> None:
    session = (await store.create_session("cursor")).id
    await store.see_token(session, "cursor", "A")
    assert [t.protocol for t in await store.tokens(session)] == [None]
    assert (await store.resume_target(session)).protocol == "stream-json"
    await store.see_token(session, "cursor", "A", protocol="acp")
    assert (await store.resume_target(session)).protocol == "acp"


async def test_a_token_knows_where_when_and_by_which_task_it_was_seen(store: Store) -> None:
    session = await store.create_session("claude")
    task = await store.enqueue(session.id, "hi")
    await store.see_token(session.id, "claude", "A", seen_in="store", task=task.id)
    (token,) = await store.tokens(session.id)
    assert (token.seen_in, token.task, token.reason) == ("store", task.id, None)
    assert token.at >= session.created_at


async def test_a_session_without_a_token_has_nothing_to_resume(store: Store) -> None:
    session = await store.create_session("claude")
    await store.see_token(session.id, "codex", "of-another-agent")
    with pytest.raises(errors.NoToken) as refusal:
        await store.resume_target(session.id)
    assert refusal.value.code == "resume_unavailable"


def test_every_agent_protects_its_token() -> None:
    """An agent that is added without a protected token field fails here."""
    rules: TokenRules = REGISTRY.token_rules()
    for agent in REGISTRY.agents:
        assert agent.protocols, agent.name
        assert f"{agent.name}SessionId" in agent.token_fields, agent.name
        assert agent.token_fields and set(agent.token_fields) <= rules.fields, agent.name
        if len(agent.protocols) > 1:  # an id without a protocol must have a way to go
            assert rules.default_protocol[agent.name] in agent.protocols


async def test_a_token_needs_an_id(store: Store) -> None:
    session = await store.create_session("claude")
    async with nothing_changes(store):
        for native_id in ("", None):
            with pytest.raises(errors.BadInput):
                await store.see_token(session.id, "claude", native_id)  # type: ignore[arg-type]


async def test_what_an_agent_began_instead_is_kept_and_does_not_take_the_place(store: Store) -> None:
    session = await store.create_session("claude")
    await store.see_token(session.id, "claude", "asked")
    instead = SeeToken(agent="claude", native_id="other", seen_in="stream", instead_of="asked")
    for _ in range(2):
        await store.commit(Commit(session.id, [instead]))
    found = [(t.native_id, t.status, t.reason) for t in await store.tokens(session.id)]
    assert found == [("asked", "current", None), ("other", "superseded", "begun instead of asked")]
    assert (await store.resume_target(session.id)).native_id == "asked"
    assert await store.sessions_of_token("claude", "other") == [session.id]
    assert await store.see_token(session.id, "claude", "other"), "named by itself it is current"
