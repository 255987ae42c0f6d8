"""`holdfast token`: a session's tokens; record one by hand, revoke it, reinstate it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli import common, output
from holdfast.errors import BadInput
from holdfast.store import reads
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.client.client import HubClient
    from holdfast.store.sql import Sql

ACTIONS = ("record", "revoke", "reinstate")
BY_HAND = "by hand"


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and what to do."""
    made = common.parser(name, "List a session's tokens (the agent's own ids), or change which is resumed.")
    made.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    made.add_argument("action", nargs="?", choices=ACTIONS, help="without one: list them")
    made.add_argument("native_id", metavar="NATIVE_ID", nargs="?", help="the agent's id; record needs it")
    made.add_argument("--protocol", metavar="P", help="record: how the agent is driven with it")
    made.add_argument("--reason", help="why; revoke needs it")
    return made


def run(given: argparse.Namespace) -> int:
    """Print the lineage, after the change if one was asked for."""
    _check(given)
    found = _listed(given) if given.action is None else _changed(given)
    if given.json:
        output.json_line(found)
    else:
        _print(found)
    return 0


def _check(given: argparse.Namespace) -> None:
    if given.action == "record" and not given.native_id:
        raise BadInput("which token?", hint="holdfast token ID record NATIVE_ID")
    if given.action == "revoke" and not (given.reason or "").strip():
        raise BadInput("a token is revoked for a reason", hint="give it with --reason")
    if given.protocol is not None and given.action != "record":
        raise BadInput("--protocol is for `record`")
    if given.reason is not None and given.action not in ("revoke", "reinstate"):
        raise BadInput("--reason is for `revoke` and `reinstate`")


def _listed(given: argparse.Namespace) -> dict[str, Any]:
    async def question(sql: Sql) -> dict[str, Any]:
        session = await reads.resolve(sql, given.session)
        agent = (await reads.session(sql, session))["agent"]
        tokens = await reads.tokens(sql, session)
        now = [t["native_id"] for t in tokens if t["agent"] == agent and t["status"] == "current"]
        return {"session": session, "agent": agent, "current": now[0] if now else None, "tokens": tokens}

    return ask(*common.place(given), question)


def _changed(given: argparse.Namespace) -> dict[str, Any]:
    from holdfast.cli import send

    return send.handed(*common.place(given), lambda hub: _over(hub, given), lambda: _here(given))


def _over(hub: HubClient, given: argparse.Namespace) -> dict[str, Any]:
    if given.action == "record":
        return hub.record_token(given.session, given.native_id, protocol=given.protocol)
    call = hub.revoke_token if given.action == "revoke" else hub.reinstate_token
    return call(given.session, given.reason or BY_HAND, native_id=given.native_id)


def _here(given: argparse.Namespace) -> dict[str, Any]:
    import asyncio

    import msgspec

    from holdfast import config
    from holdfast.agents.registry import AgentRegistry
    from holdfast.cli.common import who
    from holdfast.cli.open_store import changing
    from holdfast.runner import tokens

    home, location = common.place(given)

    async def change() -> tokens.Lineage:
        async with changing(home, location) as store:
            session = await store.resolve(given.session)
            if given.action == "record":
                registry = AgentRegistry.from_config(config.load(home).get("agents", {}))
                return await tokens.record(store, registry, session, given.native_id, given.protocol, who())
            call = tokens.revoke if given.action == "revoke" else tokens.reinstate
            return await call(store, session, given.native_id, given.reason or BY_HAND, who())

    found: dict[str, Any] = msgspec.to_builtins(asyncio.run(change()))
    return found


def _print(found: dict[str, Any]) -> None:
    if not found["tokens"]:
        output.text(f"session {found['session']} has no token yet")
    for token in found["tokens"]:
        protocol = f" over {token['protocol']}" if token["protocol"] else ""
        why = f": {token['reason']}" if token["reason"] else ""
        source = f"{token['agent']}{protocol}, from {token['seen_in']}, {output.ago(token['at'])}"
        output.text(output.plain(f"{token['status']:<10}  {token['native_id']}  ({source}){why}"))
