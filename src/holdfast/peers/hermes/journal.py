"""The web UI's journals: the turns that it accepted, and the output that a run recorded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.peers.hermes import values
from holdfast.peers.hermes.messages import HermesToolCall, arguments, content_text

LONGEST_LINE = 64 * 1024 * 1024
MAX_WAITING = 1000  # open calls that are searched for the one that ends

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
    """One piece of recorded output: a text, a thought, a call."""

    kind: str  # assistant, thinking, call
    seq: str  # of its first line
    text: str = ""
    call: HermesToolCall | None = None
    at: float | None = None


class JournaledRun(msgspec.Struct, kw_only=True):
    """The journal of one stream."""

    stream: str
    steps: list[JournaledStep] = []
    ended: str = ""  # its final state; empty: it has no end
    torn: int = 0


def read_turns(paths: Iterable[str], native_id: str = "") -> tuple[list[JournaledTurn], int]:
    """The turns of all shards in the order they were accepted, and the number of unreadable lines.

    `native_id`: lines that name another session are skipped.
    """
    turns: dict[str, JournaledTurn] = {}
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
        turn_id = values.identifier(line.get("turn_id"))
        if not turn_id:
            continue
        turn = turns.setdefault(turn_id, JournaledTurn(id=turn_id))
        # The web UI keeps only the last event of a turn, and so loses the prompt of the first.
        turn.prompt = turn.prompt or content_text(line.get("content"))
        turn.stream = turn.stream or values.identifier(line.get("stream_id"))
        if turn.at is None:
            turn.at = values.seconds(line.get("created_at"))
        turn.ended = turn.ended or values.identifier(line.get("event")) in ENDED
    return list(turns.values()), torn


def read_run(path: str, native_id: str) -> JournaledRun:
    """The journal of one stream, with joined pieces; lines of another session or run are skipped."""
    stream = os.path.basename(path)[: -len(".jsonl")]
    journaled = JournaledRun(stream=stream)
    pieces: list[str] = []
    kind, first_seq, at = "", "", None
    waiting: list[int] = []  # positions of calls without an end

    def flush() -> None:
        text = values.text("".join(pieces))
        if text.strip():
            journaled.steps.append(JournaledStep(kind, first_seq, text, at=at))
        pieces.clear()

    for n, line in enumerate(read_lines(path), 1):
        if line is None:
            journaled.torn += 1
            continue
        if not (_names(line, "session_id", native_id) and _names(line, "run_id", stream)):
            continue
        event = values.identifier(line.get("event")) or values.identifier(line.get("type"))
        content = line.get("payload")
        payload = content if isinstance(content, dict) else {}
        seq = values.identifier(line.get("seq")) or str(n)
        moment = values.seconds(line.get("created_at"))
        spoken = _SPOKEN.get(event)
        if spoken is not None:
            if event == "interim_assistant" and payload.get("already_streamed"):
                flush()
                continue
            text = _text(payload)
            if spoken != kind or not pieces or event == "interim_assistant":
                flush()
                kind, first_seq, at = spoken, seq, moment
            if text:
                pieces.append(text)
            if event == "interim_assistant":
                flush()
        elif event == "tool":
            flush()
            call_id = values.identifier(payload.get("tid")) or f"journal-{seq}"
            call = HermesToolCall(
                call_id, values.identifier(payload.get("name")), arguments(payload.get("args"))
            )
            waiting.append(len(journaled.steps))
            journaled.steps.append(JournaledStep("call", seq, call=call, at=moment))
        elif event == "tool_complete":
            flush()
            _complete(journaled.steps, waiting, payload)
        elif event in TERMINAL:
            flush()
            if event != "stream_end" or not journaled.ended:
                journaled.ended = values.identifier(line.get("terminal_state")) or event
    flush()
    return journaled


def read_lines(path: str) -> Iterator[dict[str, Any] | None]:
    """The lines of a journal; None for each unreadable line. Nothing if the file does not exist.

    Only newlines split lines: the writers do not escape U+2028 and U+0085, which the web UI's own reader
    also treats as line ends.
    """
    try:
        with values.open_file(path) as file:
            while line := file.readline(LONGEST_LINE):
                if line.strip(b" \t\r\n"):
                    yield _record(line)
    except OSError:
        return


def _names(line: dict[str, Any], field: str, expected: str) -> bool:
    """Whether a line names the expected value, or names none."""
    return values.identifier(line.get(field)) in ("", expected)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        value = values.parse(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_SPOKEN = {"token": "assistant", "interim_assistant": "assistant", "reasoning": "thinking"}


def _text(payload: dict[str, Any]) -> str:
    for name in ("text", "reasoning", "thinking"):
        if isinstance(text := payload.get(name), str) and text:
            return text
    return ""


def _complete(steps: list[JournaledStep], waiting: list[int], payload: dict[str, Any]) -> None:
    """Record the end of a call: found by its id, otherwise the last open call of that name."""
    tid, name = values.identifier(payload.get("tid")), values.identifier(payload.get("name"))
    for position in reversed(waiting[-MAX_WAITING:]):
        call = steps[position].call
        assert call is not None
        if call.id == tid if tid else name in ("", call.name):
            waiting.remove(position)
            output = content_text(payload.get("preview"))
            ended = msgspec.structs.replace(call, output=output, ok=not payload.get("is_error"), done=True)
            steps[position] = msgspec.structs.replace(steps[position], call=ended)
            return
