"""One sidecar out of all copies of a session: the live file, its backup, the agent's rows."""

from __future__ import annotations

from typing import Any

from holdfast.doctor.hermes import anchor, rows
from holdfast.doctor.hermes.chart import Chart
from holdfast.doctor.hermes.form import SCENES, Body, moved
from holdfast.history.hermes import facts as found_facts
from holdfast.history.hermes import merge, values
from holdfast.history.hermes.message import Message, read
from holdfast.history.hermes.sidecar import Sidecar
from holdfast.history.hermes.story import items_of

Places = dict[int, int]  # where messages of a copy stand now


def merged(chart: Chart) -> Body:
    """Everything that any copy has, each message once; what is there stays as it is, word for word."""
    live, backup = chart.facts.live, chart.facts.backup
    messages: list[Any] = []
    now_at: dict[str, Places] = {"sidecar": {}, "backup": {}}
    for row, side in chart.story().copies():
        if side is not None:
            place = int(side.place)
            now_at[side.source][place] = len(messages)
            told = (live if side.source == "sidecar" else backup).messages[place]
            messages.append(told if row is None else rows.completed(told, row))
        elif row is not None:
            messages.append(rows.message(row))
    head = _head(chart, messages)
    if anchor.FIELD in head:
        source, old = ("sidecar", live) if anchor.FIELD in live.head else ("backup", backup)
        head[anchor.FIELD] = anchor.moved(head[anchor.FIELD], old.messages, messages, now_at[source])
    return Body(head, messages, _cards(chart, now_at), _context(chart, messages))


def listed(told: list[Any]) -> list[merge.Item]:
    """As much of a sidecar's messages as is needed to know them again."""
    return items_of([_read(value, place) for place, value in enumerate(told)])


def _head(chart: Chart, messages: list[Any]) -> dict[str, Any]:
    """The live file's fields; what it has not, its backup's; what that has not, the row's."""
    facts = chart.facts
    head = dict(facts.live.head) if facts.live.usable or facts.live.state == "malformed" else {}
    if facts.backup.usable and not facts.why_shorter:
        for name in (SCENES, "anchor_scene_index"):
            mine, theirs = head.get(name), facts.backup.head.get(name)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                head[name] = {**theirs, **mine}
        head = {**facts.backup.head, **head}
    told = rows.head(chart.native_id, facts.header, chart.entry)
    head = {**told, **{name: value for name, value in head.items() if not _is_void(name, value, told)}}
    head["session_id"] = chart.native_id
    times = [at for value in messages if (at := _read(value, 0).at)]
    head.setdefault("title", rows.UNTITLED)
    head.setdefault("created_at", min(times, default=0.0))
    head.setdefault("updated_at", max(times, default=head["created_at"]))
    return head


def _is_void(name: str, value: Any, told: dict[str, Any]) -> bool:
    """Whether a field says nothing where its row says something; the web UI took "" for its own folder."""
    return name in ("workspace", "title", "created_at") and name in told and value in (None, "", 0)


def _cards(chart: Chart, now_at: dict[str, Places]) -> list[Any]:
    live, backup = chart.facts.live, chart.facts.backup
    found = moved(live.cards, now_at["sidecar"])
    known = {_card_name(card) for card in found}
    if backup.usable and not chart.facts.why_shorter:
        theirs = moved(backup.cards, now_at["backup"])
        found = [card for card in theirs if _card_name(card) not in known] + found
    return found


def _card_name(card: Any) -> str:
    if isinstance(card, dict) and (own := values.word(card.get("tid"))):
        return own
    return repr(card)


def _context(chart: Chart, messages: list[Any]) -> list[Any]:
    """What the model is told: its own copies where there are some, and nothing that was summed up comes back.

    Empty means the messages themselves.
    """
    live, backup = chart.facts.live, chart.facts.backup
    if any(_read(told, 0).summary for told in live.context):
        return list(live.context)
    older = backup.context if backup.usable and not chart.facts.why_shorter else []
    if not live.context and not older:
        return []
    base = _together(older, live.context)
    if any(_read(told, 0).summary for told in base):
        return base
    return _together(_projected(messages), base)


def _together(first: list[Any], second: list[Any]) -> list[Any]:
    """Two lists of messages as one; of what both have, the second's copy."""
    plan = merge.plan(listed(first), listed(second))
    twins = {theirs: mine for mine, theirs in plan.pairs.items()}
    found = [second[n] for n in plan.after.get(-1, ())]
    for place, told in enumerate(first):
        found.append(second[twins[place]] if place in twins else told)
        found += [second[n] for n in plan.after.get(place, ())]
    return found


def _projected(messages: list[Any]) -> list[Any]:
    return [told for told in messages if isinstance(told, dict) and not _read(told, 0).marker]


def _read(told: Any, place: int) -> Message:
    return read(told if isinstance(told, dict) else {"value": told}, "sidecar", str(place))


def goes_on(chart: Chart) -> bool:
    """Whether all that only other copies have was said before everything that the live file has."""
    live = chart.facts.live
    mine = [message.at for message in found_facts.messages(live, "sidecar") if not message.marker]
    told = [side or row for row, side in chart.story().copies()]
    lost = [message.at for message in told if message is not None and message.source != "sidecar"]
    began = [at for at in mine if at is not None]
    ended = [at for at in lost if at is not None]
    if len(began) < len(mine) or len(ended) < len(lost) or not began or not ended:
        return False
    return max(ended) < min(began)


def nothing_lost(chart: Chart, made: Sidecar) -> bool:
    """Whether a sidecar has every message that the copies it was made of have."""
    now = listed(made.messages)
    live = chart.facts.live
    mine = found_facts.messages(live, "sidecar") if live.usable else []
    told = [side or row for row, side in chart.story().copies()]
    every = [message for message in told if message is not None]
    return all(not merge.plan(now, items_of(copy)).after for copy in (mine, every))
