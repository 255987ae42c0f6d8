"""Which records of a log are worth telling a person, on which channel, and when? Pure decisions."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, NamedTuple

from holdfast import timestamps
from holdfast.model.event import Event
from holdfast.model.session import Session
from holdfast.notify.settings import Channel, Kind, QuietHours
from holdfast.store.types import Notification

TOO_OLD_S = 86400.0  # a hub that was down for longer does not report what happened meanwhile
TEXT = 500  # characters of a message
LOGIN = frozenset({"auth", "login", "billing"})  # causes of a wait that only a person can end
ENDED: dict[str, Kind] = {"interrupted": "died", "failed": "failed", "succeeded": "finished"}
TITLES: dict[Kind, str] = {
    "asks": "An agent asks for permission",
    "waits": "A task waits for you",
    "login": "An agent needs a login",
    "died": "An agent died",
    "failed": "A task failed",
    "finished": "A task is done",
}


class Occasion(NamedTuple):
    """Something that people may want to know."""

    kind: Kind
    session: str
    task: str
    seq: int
    at: str
    text: str
    ask: str = ""  # asks: which request


def occasion(session: str, event: Event) -> Occasion | None:
    """What a record is worth telling; replayed records have no effects."""
    if event.replayed or event.task is None:
        return None
    body = event.body
    if event.kind == "permission" and body.get("answer") is None:
        ask = str(body.get("ask", body.get("call")))
        return Occasion("asks", session, event.task, event.seq, event.at, _call(body), ask)
    if event.kind != "task" or body.get("op") != "status":
        return None
    reason = str(body.get("reason") or "")[:TEXT]
    if body.get("status") == "waiting":
        cause = str((body.get("waiting_for") or {}).get("cause"))
        kind: Kind | None = "login" if cause in LOGIN else "waits" if cause == "person" else None
    else:
        kind = ENDED.get(str(body.get("status")))
    if kind is None:
        return None
    return Occasion(kind, session, event.task, event.seq, event.at, reason)


def notification(
    found: Occasion, session: Session, channel: Channel, node: str, page_url: str | None, now: float
) -> Notification | None:
    """The notification of an occasion on a channel; None if it is not wanted there, or too old."""
    if found.kind not in channel.on or not wants_key(channel.keys, session.key):
        return None
    if now - timestamps.parse(found.at) > TOO_OLD_S:
        return None
    body = {
        "kind": found.kind,
        "title": f"{TITLES[found.kind]}: {session.key or session.title or session.id}",
        "text": found.text,
        "at": found.at,
        "session": session.id,
        "task": found.task,
        "key": session.key,
        "agent": session.agent,
        "cwd": session.cwd,
        "ask": found.ask or None,
        "url": f"{page_url.rstrip('/')}/#/s/{session.id}" if page_url else None,
    }
    name = f"{channel.name}\n{found.kind}\n{session.id}\n{found.seq}"
    return Notification(
        id="n" + sha256(name.encode()).hexdigest()[:24],
        node=node,
        channel=channel.name,
        kind=found.kind,
        session=session.id,
        task=found.task,
        body=json.dumps(body, ensure_ascii=False),
        created_at=timestamps.stamp(now),
        due_at=timestamps.stamp(after_quiet(channel.quiet, now + channel.delay_s)),
    )


def wants_key(patterns: tuple[str, ...], key: str | None) -> bool:
    """Whether a key fits one of the patterns; a session without a key fits only `*`."""
    return any(pattern == "*" or (key is not None and fnmatchcase(key, pattern)) for pattern in patterns)


def after_quiet(quiet: QuietHours | None, at: float) -> float:
    """The time itself, or the end of the quiet hours that it is in; local time."""
    if quiet is None or quiet.start == quiet.end:
        return at
    local = datetime.fromtimestamp(at)
    minute = local.hour * 60 + local.minute
    inside = (
        quiet.start <= minute < quiet.end
        if quiet.start < quiet.end
        else minute >= quiet.start or minute < quiet.end
    )
    if not inside:
        return at
    end = local.replace(hour=quiet.end // 60, minute=quiet.end % 60, second=0, microsecond=0)
    return (end if end > local else end + timedelta(days=1)).timestamp()


def _call(body: dict[str, Any]) -> str:
    given = body.get("input")
    if isinstance(given, dict) and isinstance(given.get("command"), str):
        shown = given["command"]
    else:
        shown = json.dumps(given, ensure_ascii=False)
    return f"{body.get('name')}: {shown}"[:TEXT]
