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
    parser = common.parser(name, "List a session's tokens (the agent's own ids), or change which is resumed.")
    parser.add_argument("session", metavar="ID", help="an id, a unique prefix of it, or a key")
    parser.add_argument("action", nargs="?", choices=ACTIONS, help="default: list them")
    parser.add_argument("native_id", metavar="NATIVE_ID", nargs="?", help="the agent's id; record needs it")
    parser.add_argument("--protocol", metavar="P", help="record: the protocol that uses this id")
    parser.add_argument("--reason", help="why; revoke needs it")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the lineage, after the change if one was asked for."""
    _check(options)
    found = _listed(options) if options.action is None else _changed(options)
    if options.json:
        output.json_line(found)
    else:
        _print(found)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.action == "record" and not options.native_id:
        raise BadInput("record needs a token", hint="holdfast token ID record NATIVE_ID")
    if options.action == "revoke" and not (options.reason or "").strip():
        raise BadInput("revoke needs a reason", hint="give it with --reason")
    if options.protocol is not None and options.action != "record":
        raise BadInput("--protocol is for `record`")
    if options.reason is not None and options.action not in ("revoke", "reinstate"):
        raise BadInput("--reason is for `revoke` and `reinstate`")


def _listed(options: argparse.Namespace) -> dict[str, Any]:
    async def question(sql: Sql) -> dict[str, Any]:
        session = await reads.resolve(sql, options.session)
        agent = (await reads.session(sql, session))["agent"]
        tokens = await reads.tokens(sql, session)
        now = [t["native_id"] for t in tokens if t["agent"] == agent and t["status"] == "current"]
        return {"session": session, "agent": agent, "current": now[0] if now else None, "tokens": tokens}

    return ask(*common.home_and_location(options), question)


def _changed(options: argparse.Namespace) -> dict[str, Any]:
    from holdfast.cli import send

    return send.via_hub(
        *common.home_and_location(options), lambda hub: _over(hub, options), lambda: _here(options)
    )


def _over(hub: HubClient, options: argparse.Namespace) -> dict[str, Any]:
    if options.action == "record":
        return hub.record_token(options.session, options.native_id, protocol=options.protocol)
    call = hub.revoke_token if options.action == "revoke" else hub.reinstate_token
    return call(options.session, options.reason or BY_HAND, native_id=options.native_id)


def _here(options: argparse.Namespace) -> dict[str, Any]:
    import asyncio

    import msgspec

    from holdfast import config
    from holdfast.agents.registry import AgentRegistry
    from holdfast.cli.common import current_user
    from holdfast.cli.open_store import open_for_change
    from holdfast.runner import tokens

    home, location = common.home_and_location(options)

    async def change() -> tokens.Lineage:
        async with open_for_change(home, location) as store:
            session = await store.resolve(options.session)
            if options.action == "record":
                registry = AgentRegistry.from_config(config.load(home).get("agents", {}))
                return await tokens.record(
                    store, registry, session, options.native_id, options.protocol, current_user()
                )
            call = tokens.revoke if options.action == "revoke" else tokens.reinstate
            return await call(store, session, options.native_id, options.reason or BY_HAND, current_user())

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
