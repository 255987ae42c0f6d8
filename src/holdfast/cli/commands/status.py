"""`holdfast status`: the hub, the agents, and what needs you."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from holdfast import config
from holdfast.agents.discovery import find
from holdfast.agents.registry import AgentRegistry
from holdfast.cli import common, output, render
from holdfast.client.discovery import running_hub
from holdfast.errors import BadInput, StoreMissing
from holdfast.store import reads
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.store.sql import Sql

DEMO = "demo"
NOTIFICATIONS = 20  # the latest are looked at
PERSON = "person"  # the cause of a wait that only a person can end


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options."""
    return common.parser(name, "Show the hub, the installed agents, and what needs you.")


def run(options: argparse.Namespace) -> int:
    """Print it; a machine without a home has a status, too."""
    home, location = common.home_and_location(options)
    hub = running_hub(home)
    found: dict[str, Any] = {
        "home": home.path,
        "hub": None if hub is None else {"url": hub.url, "pid": hub.pid, "since": hub.at},
        "agents": _installed(home),
        "tasks": {},
        "needs_you": [],
    }
    try:
        found |= ask(home, location, _question)
        begun = True
    except StoreMissing:
        begun = False
    if options.json:
        output.json_line(found)
    else:
        _print(found, begun)
    return 0


async def _question(sql: Sql) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for turn in await reads.turns(sql):
        counts[turn["status"]] = counts.get(turn["status"], 0) + 1
    needs = [
        _need("asks", one["task"], one["session"], render.call_text(one["body"]), "answer {} allow|deny")
        for one in await reads.asked(sql)
    ]
    for task in await reads.latest_tasks(sql, status="waiting", limit=reads.PAGE):
        if task["waiting_for"] and task["waiting_for"]["cause"] == PERSON:
            needs.append(
                _need(
                    "waits", task["id"], task["session"], render.waiting_text(task), "show " + task["session"]
                )
            )
    for task in await reads.redispatchable_tasks(sql):
        needs.append(
            _need(
                "interrupted", task["id"], task["session"], " ".join(task["prompt"].split()), "redispatch {}"
            )
        )
    for row in await sql.dicts("latest_notifications", limit=NOTIFICATIONS):
        if row["status"] == "failed" or (row["status"] == "waiting" and row["problem"]):
            text = f"a notification to {row['channel']} was not sent: {row['problem']}"
            needs.append(_need("notify", row["task"] or "", row["session"], text, "notify"))
            break
    return {"tasks": counts, "needs_you": needs}


def _need(what: str, task: str, session: str, text: str, command: str) -> dict[str, str]:
    return {
        "what": what,
        "task": task,
        "session": session,
        "text": text,
        "command": f"holdfast {command.format(task)}",
    }


def _need_line(one: dict[str, str], text: str) -> str:
    return f"needs you  {one['task']} {one['what']}: {text}"


def _installed(home: Home) -> list[dict[str, str]]:
    """The agents that can be run here; their versions, which are slow to read, are for `agents`."""
    tables = config.load(home).get("agents", {})
    found = []
    for agent in AgentRegistry.from_config(tables).agents:
        if agent.launch is None or agent.name == DEMO:
            continue
        try:
            installed = find(agent, tables.get(agent.name, {}), os.environ)
        except BadInput:  # `holdfast agents` says what is wrong with its settings
            continue
        if installed is not None:
            found.append({"name": agent.name, "path": installed.path})
    return found


def _print(found: dict[str, Any], begun: bool) -> None:
    hub = found["hub"]
    if hub is None:
        output.text("hub        not running; `holdfast up` starts it")
    else:
        output.text(f"hub        {hub['url']}, process {hub['pid']}, started {output.ago(hub['since'])}")
    output.text(f"home       {found['home']}" + ("" if begun else " (not made yet)"))
    names = ", ".join(agent["name"] for agent in found["agents"])
    output.text(f"agents     {names or 'none installed; `holdfast agents` says how to install one'}")
    counts = ", ".join(f"{count} {status}" for status, count in found["tasks"].items())
    output.text(f"tasks      {counts or 'none running or waiting'}")
    if not found["needs_you"]:
        output.text("needs you  nothing")
    for one in found["needs_you"]:
        text = output.shortened(output.plain(one["text"]), 60)
        output.text(f"needs you  {text}" if one["what"] == "notify" else _need_line(one, text))
        output.text(f"           {one['command']}")
    if not begun:
        output.note(
            'holdfast: to begin: `holdfast demo` is a tour, `holdfast run "PROMPT"` runs an agent, '
            "`holdfast up` starts the hub"
        )
