"""Turns that a crash cut off, put into their session: the prompt, what its run told, and that it ended."""

from __future__ import annotations

from typing import Any

from holdfast.peers.hermes import inspect, journal, values
from holdfast.peers.hermes.conversation import NEAR_S
from holdfast.peers.hermes.messages import read_message
from holdfast.peers.hermes.session_state import SessionState
from holdfast.peers.hermes.sidecar import NO_PENDING_TURN, SidecarDraft

INTERRUPTED = (
    "**Response interrupted.**\n\nThe web UI stopped while this turn was being answered. "
    "What had been said by then stands above; the rest was never written."
)


def recover(chart: SessionState, body: SidecarDraft) -> None:
    """Every turn that began long enough ago; what is pending no more is cleared."""
    for turn, said in chart.turns():
        if not inspect.is_fresh(turn, chart.now):
            _recover(body, turn, said, chart.facts.runs.get(turn.stream), turn is chart.facts.pending)
    if chart.facts.pending is not None:
        body.head.update(NO_PENDING_TURN)


def _recover(
    body: SidecarDraft,
    turn: journal.JournaledTurn,
    said: bool,
    run: journal.JournaledRun | None,
    pending: bool,
) -> None:
    began = turn.at or values.seconds(body.head.get("updated_at")) or 0.0
    at = len(body.messages) if pending else _place(body, began)
    known = _answers(body, turn, said, at)
    made: list[dict[str, Any]] = []
    if turn.prompt and not said:
        made.append(_prompt(body, turn, began, pending))
    cards = _told(made, run, turn.stream, known, at)
    answered = said and bool(known) and not cards and not made
    over = run is not None and run.ended == "completed"
    if (turn.prompt or made) and not over and not answered:
        made.append(_marker(max(began, *(_time(one) for one in made)) if made else began))
    if at == len(body.messages):
        body.context += [_for_model(one) for one in made if not one.get("_error")] if body.context else []
        body.messages += made
    else:
        body.move(
            [*body.messages[:at], *made, *body.messages[at:]],
            {n: n + len(made) * (n >= at) for n in range(len(body.messages))},
        )
    body.cards += cards


def _prompt(body: SidecarDraft, turn: journal.JournaledTurn, began: float, pending: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"role": "user", "content": turn.prompt, "timestamp": int(began)}
    if pending and body.head.get("pending_attachments"):
        made["attachments"] = body.head["pending_attachments"]
    if pending and body.head.get("pending_user_source"):
        made["_source"] = body.head["pending_user_source"]
    return {**made, "_recovered": True}


def _told(
    made: list[dict[str, Any]], run: journal.JournaledRun | None, stream: str, known: list[str], at: int
) -> list[dict[str, Any]]:
    """Add what a run had told and no message says yet; its tool cards."""
    marks = {"_recovered_from_run_journal": True, "_recovered_stream_id": stream}
    cards: list[dict[str, Any]] = []
    thought = ""
    for step in run.steps if run is not None else ():
        if step.kind == "thinking":
            thought = f"{thought}\n\n{step.text}" if thought else step.text
            continue
        if step.call is None and any(_bare(step.text) in answer for answer in known):
            continue
        if step.call is None or not made or made[-1]["role"] != "assistant":
            when = int(step.at or 0) or (made[-1]["timestamp"] if made else 0)
            made.append({"role": "assistant", "content": step.text, "timestamp": when, **marks})
            if thought:
                made[-1]["reasoning"], thought = thought, ""
        if step.call is not None:
            cards.append(_card(step.call, at + len(made) - 1, marks))
    if thought and not any(_bare(thought) in answer for answer in known):
        when = made[-1]["timestamp"] if made else 0
        made.append({"role": "assistant", "content": "", "timestamp": when, **marks, "reasoning": thought})
    return cards


def _card(call: Any, place: int, marks: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": call.name,
        "preview": call.output or "",
        "snippet": call.output or "",
        "tid": call.id,
        "assistant_msg_idx": place,
        "args": call.input,
        "done": call.done,
        "is_error": not call.ok,
        **marks,
    }


def _marker(at: float) -> dict[str, Any]:
    return {
        "role": "assistant",
        "_error": True,
        "type": "interrupted",
        "interruption_cause": "process_restart",
        "content": INTERRUPTED,
        "timestamp": at,
    }


def _place(body: SidecarDraft, began: float) -> int:
    """Before the first message that was said later."""
    for place, told in enumerate(body.messages):
        if isinstance(told, dict) and _time(told) > began + NEAR_S:
            return place
    return len(body.messages)


def _answers(body: SidecarDraft, turn: journal.JournaledTurn, said: bool, at: int) -> list[str]:
    """What the answers to that prompt say already."""
    found: list[str] = []
    for place, told in enumerate(body.messages):
        if not isinstance(told, dict) or (not said and place >= at):
            continue
        message = read_message(told, "sidecar", str(place))
        if message.role == "user" and message.text.strip() == turn.prompt.strip():
            found = []
        elif message.role == "assistant" and (not message.marker or message.marker == "partial"):
            found += [_bare(one) for one in (message.text, message.thinking) if one]
    return found if said else []


def _for_model(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "reasoning"}


def _bare(text: str) -> str:
    return " ".join(text.split())


def _time(told: dict[str, Any]) -> float:
    return values.seconds(told.get("timestamp")) or 0.0
