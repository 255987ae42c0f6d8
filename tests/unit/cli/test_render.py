"""Records as a person reads them in `holdfast log`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.cli.render import EventRenderer

OWNER = {"host": "here", "pid": 7, "started": 1.0, "boot": "b"}
ASK = {"call": "c", "ask": "a", "name": "Bash", "input": {"command": "rm -r x"}}


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("user", {"text": "hi\nthere"}, "hi there"),
        ("task", {"op": "queue", "prompt": "do it"}, "queued: do it"),
        ("task", {"op": "claim", "owner": OWNER, "generation": 1}, "claimed by process 7 on here"),
        ("task", {"op": "deliver", "delivery": "sent"}, "prompt sent"),
        ("task", {"op": "status", "status": "succeeded", "outcome": {"exit": 0}}, "succeeded"),
        ("task", {"op": "status", "status": "interrupted", "reason": "power"}, "interrupted: power"),
        ("session", {"op": "create", "agent": "demo"}, "create: agent demo"),
        (
            "session",
            {"op": "metadata", "patch": {"a": None}, "version": 2},
            'metadata: patch {"a": null}, version 2',
        ),
        ("session", {"op": "unarchive"}, "unarchive"),
        ("token", {"op": "seen", "agent": "demo", "native_id": "x"}, "seen: agent demo, native_id x"),
        ("permission", ASK, "may it run Bash rm -r x"),
        ("permission", {**ASK, "answer": "deny", "by": "eve"}, "deny by eve: Bash rm -r x"),
        ("notice", {"op": "odd"}, "op odd"),
        ("tool_progress", {"name": "Bash", "input": {"command": "ls"}}, 'Bash {"command": "ls"}'),
    ],
)
def test_a_line_of_the_log(kind: str, body: dict[str, Any], told: str) -> None:
    row = (12, kind, "2026-01-02T03:04:05.6Z", "t", False, None, None, True, json.dumps(body))
    assert EventRenderer(colored=False).log_line(row) == f"   12 2026-01-02 03:04:05 {kind}: {told}"
