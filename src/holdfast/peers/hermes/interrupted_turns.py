"""Turns that a crash interrupted, added to their session: the prompt, the recorded output, a marker."""

from __future__ import annotations

from typing import Any

from holdfast.peers.hermes import inspect, journal, values
from holdfast.peers.hermes.conversation import CLOCK_S
from holdfast.peers.hermes.messages import read_message
from holdfast.peers.hermes.session_state import SessionState
from holdfast.peers.hermes.sidecar import NO_PENDING_TURN, SidecarDraft

INTERRUPTED = (
    "**Response interrupted.**\n\nThe web UI stopped while this turn was being answered. "
    "Everything that was recorded until then is above; the rest was never written."
)


def recover(state: SessionState, draft: SidecarDraft) -> None:
    """Add every turn that cannot be running any more, and clear the pending turn."""
    for turn, has_prompt in state.open_turns:
        if not inspect.is_fresh(turn, state.now):
            _recover(draft, turn, has_prompt, state.facts.runs.get(turn.stream), turn is state.facts.pending)
    if state.facts.pending is not None:
        draft.head.update(NO_PENDING_TURN)


def _recover(
    draft: SidecarDraft,
    turn: journal.JournaledTurn,
    has_prompt: bool,
    run: journal.JournaledRun | None,
    pending: bool,
) -> None:
    started = turn.at or values.seconds(draft.head.get("updated_at")) or 0.0
    at = len(draft.messages) if pending else _position(draft, started)
    answers = _answers(draft, turn, has_prompt, at)
    added: list[dict[str, Any]] = []
    if turn.prompt and not has_prompt:
        added.append(_prompt(draft, turn, started, pending))
    cards = _add_output(added, run, turn.stream, answers, at)
    answered = has_prompt and bool(answers) and not cards and not added
    over = run is not None and run.ended == "completed"
    if (turn.prompt or added) and not over and not answered:
        added.append(_marker(max(started, *(_time(message) for message in added)) if added else started))
    if at == len(draft.messages):
        draft.context += (
            [_for_model(message) for message in added if not message.get("_error")] if draft.context else []
        )
        draft.messages += added
    else:
        draft.move(
            [*draft.messages[:at], *added, *draft.messages[at:]],
            {n: n + len(added) * (n >= at) for n in range(len(draft.messages))},
        )
    draft.cards += cards


def _prompt(
    draft: SidecarDraft, turn: journal.JournaledTurn, started: float, pending: bool
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": turn.prompt, "timestamp": int(started)}
    if pending and draft.head.get("pending_attachments"):
        message["attachments"] = draft.head["pending_attachments"]
    if pending and draft.head.get("pending_user_source"):
        message["_source"] = draft.head["pending_user_source"]
    return {**message, "_recovered": True}


def _add_output(
    added: list[dict[str, Any]], run: journal.JournaledRun | None, stream: str, answers: list[str], at: int
) -> list[dict[str, Any]]:
    """Add the recorded output that no message has yet; the result is its tool cards."""
    marks = {"_recovered_from_run_journal": True, "_recovered_stream_id": stream}
    cards: list[dict[str, Any]] = []
    thought = ""
    for step in run.steps if run is not None else ():
        if step.kind == "thinking":
            thought = f"{thought}\n\n{step.text}" if thought else step.text
            continue
        if step.call is None and any(_bare(step.text) in answer for answer in answers):
            continue
        if step.call is None or not added or added[-1]["role"] != "assistant":
            when = int(step.at or 0) or (added[-1]["timestamp"] if added else 0)
            added.append({"role": "assistant", "content": step.text, "timestamp": when, **marks})
            if thought:
                added[-1]["reasoning"], thought = thought, ""
        if step.call is not None:
            cards.append(_card(step.call, at + len(added) - 1, marks))
    if thought and not any(_bare(thought) in answer for answer in answers):
        when = added[-1]["timestamp"] if added else 0
        added.append({"role": "assistant", "content": "", "timestamp": when, **marks, "reasoning": thought})
    return cards


def _card(call: Any, position: int, marks: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": call.name,
        "preview": call.output or "",
        "snippet": call.output or "",
        "tid": call.id,
        "assistant_msg_idx": position,
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


def _position(draft: SidecarDraft, started: float) -> int:
    """The position before the first later message."""
    for position, raw in enumerate(draft.messages):
        if isinstance(raw, dict) and _time(raw) > started + CLOCK_S:
            return position
    return len(draft.messages)


def _answers(draft: SidecarDraft, turn: journal.JournaledTurn, has_prompt: bool, at: int) -> list[str]:
    """The existing answers to the turn's prompt."""
    answers: list[str] = []
    for position, raw in enumerate(draft.messages):
        if not isinstance(raw, dict) or (not has_prompt and position >= at):
            continue
        message = read_message(raw, "sidecar", str(position))
        if message.role == "user" and message.text.strip() == turn.prompt.strip():
            answers = []
        elif message.role == "assistant" and (not message.marker or message.marker == "partial"):
            answers += [_bare(text) for text in (message.text, message.thinking) if text]
    return answers if has_prompt else []


def _for_model(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "reasoning"}


def _bare(text: str) -> str:
    return " ".join(text.split())


def _time(message: dict[str, Any]) -> float:
    return values.seconds(message.get("timestamp")) or 0.0
