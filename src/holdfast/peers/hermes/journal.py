"""The web UI's journals: turns that were asked for, and what a run had told before it ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.peers.hermes import values
from holdfast.peers.hermes import values as files
from holdfast.peers.hermes.messages import HermesToolCall, arguments, content_text

LONGEST_LINE = 64 * 1024 * 1024
MOST_WAITING = 1000  # calls that are looked through for the one that ends

ENDED = frozenset({"completed", "interrupted"})
TERMINAL = frozenset({"done", "cancel", "apperror", "error", "stream_end"})


class JournaledTurn(msgspec.Struct, kw_only=True):
    """One prompt that the web UI accepted."""

    id: str
    prompt: str = ""
    at: float | None = None
    stream: str = ""
    ended: bool = False


class JournaledStep(msgspec.Struct, frozen=True):
    """Something that a run told: a text, a thought, a call."""

    kind: str  # assistant, thinking, call
    seq: str  # of the line that began it
    text: str = ""
    call: HermesToolCall | None = None
    at: float | None = None


class JournaledRun(msgspec.Struct, kw_only=True):
    """What the journal of one stream has."""

    stream: str
    steps: list[JournaledStep] = []
    ended: str = ""  # the state that its last word tells; empty: it has none
    torn: int = 0


def read_turns(paths: Iterable[str], native_id: str = "") -> tuple[list[JournaledTurn], int]:
    """The turns of all shards in the order they were asked for, and how many lines could not be read.

    `native_id`: lines that name another session are left out.
    """
    found: dict[str, JournaledTurn] = {}
    torn = 0
    lines = []
    for path in paths:
        for line in read_lines(path):
            if line is None:
                torn += 1
            elif not native_id or _names(line, "session_id", native_id):
                lines.append(line)
    lines.sort(key=lambda line: values.seconds(line.get("created_at")) or 0.0)
    for line in lines:
        own = values.identifier(line.get("turn_id"))
        if not own:
            continue
        turn = found.setdefault(own, JournaledTurn(id=own))
        # The web UI keeps only the last event of a turn, and so loses the prompt, which the first has.
        turn.prompt = turn.prompt or content_text(line.get("content"))
        turn.stream = turn.stream or values.identifier(line.get("stream_id"))
        if turn.at is None:
            turn.at = values.seconds(line.get("created_at"))
        turn.ended = turn.ended or values.identifier(line.get("event")) in ENDED
    return list(found.values()), torn


def read_run(path: str, native_id: str) -> JournaledRun:
    """The journal of one stream, its streamed pieces joined; lines of another session or run are left out."""
    stream = os.path.basename(path)[: -len(".jsonl")]
    found = JournaledRun(stream=stream)
    pieces: list[str] = []
    kind, began, at = "", "", None
    waiting: list[int] = []  # places of calls without an end

    def flush() -> None:
        said = values.text("".join(pieces))
        if said.strip():
            found.steps.append(JournaledStep(kind, began, said, at=at))
        pieces.clear()

    for n, line in enumerate(read_lines(path), 1):
        if line is None:
            found.torn += 1
            continue
        if not (_names(line, "session_id", native_id) and _names(line, "run_id", stream)):
            continue
        event = values.identifier(line.get("event")) or values.identifier(line.get("type"))
        told = line.get("payload")
        payload = told if isinstance(told, dict) else {}
        seq = values.identifier(line.get("seq")) or str(n)
        moment = values.seconds(line.get("created_at"))
        spoken = _SPOKEN.get(event)
        if spoken is not None:
            if event == "interim_assistant" and payload.get("already_streamed"):
                flush()
                continue
            said = _said(payload)
            if spoken != kind or not pieces or event == "interim_assistant":
                flush()
                kind, began, at = spoken, seq, moment
            if said:
                pieces.append(said)
            if event == "interim_assistant":
                flush()
        elif event == "tool":
            flush()
            own = values.identifier(payload.get("tid")) or f"journal-{seq}"
            call = HermesToolCall(own, values.identifier(payload.get("name")), arguments(payload.get("args")))
            waiting.append(len(found.steps))
            found.steps.append(JournaledStep("call", seq, call=call, at=moment))
        elif event == "tool_complete":
            flush()
            _complete(found.steps, waiting, payload)
        elif event in TERMINAL:
            flush()
            if event != "stream_end" or not found.ended:
                found.ended = values.identifier(line.get("terminal_state")) or event
    flush()
    return found


def read_lines(path: str) -> Iterator[dict[str, Any] | None]:
    """The lines of a journal; None for each that cannot be read. None at all if there is no such file.

    Split at newlines only: its writers do not escape U+2028 and U+0085, which the web UI's own reader
    takes for ends of lines too.
    """
    try:
        with files.open_file(path) as file:
            while line := file.readline(LONGEST_LINE):
                if line.strip(b" \t\r\n"):
                    yield _record(line)
    except OSError:
        return


def _names(line: dict[str, Any], field: str, own: str) -> bool:
    """Whether a line is about that one, or does not say what it is about."""
    return values.identifier(line.get(field)) in ("", own)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        value = values.parse(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_SPOKEN = {"token": "assistant", "interim_assistant": "assistant", "reasoning": "thinking"}


def _said(payload: dict[str, Any]) -> str:
    for name in ("text", "reasoning", "thinking"):
        if isinstance(said := payload.get(name), str) and said:
            return said
    return ""


def _complete(steps: list[JournaledStep], waiting: list[int], payload: dict[str, Any]) -> None:
    """Give the call that this ends its end: by its id, else the last of that name that has none."""
    tid, name = values.identifier(payload.get("tid")), values.identifier(payload.get("name"))
    for place in reversed(waiting[-MOST_WAITING:]):
        call = steps[place].call
        assert call is not None
        if call.id == tid if tid else name in ("", call.name):
            waiting.remove(place)
            output = content_text(payload.get("preview"))
            ended = msgspec.structs.replace(call, output=output, ok=not payload.get("is_error"), done=True)
            steps[place] = msgspec.structs.replace(steps[place], call=ended)
            return
