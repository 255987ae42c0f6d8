"""One conversation, of which each copy has another part: put together it is what was said, each word once."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, note, settings
from hypothesis import strategies as st

from holdfast.doctor import operation
from holdfast.home import Home
from holdfast.peers.hermes import sidecar
from holdfast.peers.hermes.install import HermesInstall
from tests.crash.support import TORTURE
from tests.support.hermes_builder import SCHEMAS, T0, Made, content, everything

SID = "session1"
STEP = 100.0  # seconds between messages
WORDS = st.sampled_from(["go on", "yes", "done", "x\u2028y", "é"]) | st.integers(0, 99).map(str)
LEFT_ALONE = {"content_diverged", "orphan_backup_no_row"}


class Copies(NamedTuple):
    """Which part of the conversation each copy has."""

    words: list[str]
    calls: set[int]  # turns in which a tool is called
    live: tuple[str, int, int]  # its state, how many from the beginning, how many new ones
    backup: tuple[int, int] | None
    rows: tuple[int, int] | None
    earlier: float  # the agent stamps its rows so much earlier
    version: int


@st.composite
def copies(draw: st.DrawFn) -> Copies:
    words = draw(st.lists(WORDS, max_size=10))
    part = st.integers(0, len(words))
    span = st.tuples(part, part).map(lambda two: (min(two), max(two)))
    state = draw(st.sampled_from(["whole", "whole", "torn", "empty", "absent", "malformed"]))
    return Copies(
        words,
        draw(st.sets(st.integers(0, 9), max_size=3)),
        (state, draw(part), draw(st.integers(0, 3))),
        draw(st.none() | span),
        draw(st.none() | part.map(lambda end: (0, end)) | st.just((0, 99))),  # rows are only added
        draw(st.sampled_from([0.0, 0.4, 40.0])),
        draw(st.sampled_from([*SCHEMAS])),
    )


def conversation(given: Copies) -> list[dict[str, Any]]:
    """A prompt and an answer in turns; an answer may call a tool first."""
    found: list[dict[str, Any]] = []
    for n, word in enumerate(given.words):
        if n % 2 and n in given.calls:
            own = f"call-{n:08}"
            call = {"id": own, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            found.append({"role": "assistant", "content": "", "tool_calls": [call]})
            found.append({"role": "tool", "content": "r", "tool_call_id": own, "tool_name": "f"})
        found.append({"role": "assistant" if n % 2 else "user", "content": word})
    return [{**told, "timestamp": T0 + n * STEP} for n, told in enumerate(found)]


def stored(told: dict[str, Any], earlier: float) -> dict[str, Any]:
    """A message as the agent's row has it."""
    row = {**told, "timestamp": told["timestamp"] - earlier}
    if told["role"] == "user":
        row["content"] = f"[Workspace::v1: /w]\n{told['content']}"
    return row


def key(told: dict[str, Any]) -> tuple[Any, ...]:
    return told["role"], told["content"], str(told.get("tool_calls", "")), told.get("tool_call_id", "")


@settings(max_examples=max(60, 3 * TORTURE), deadline=None)
@given(copies())
def test_what_any_copy_has_is_there_once_and_in_order(parts: Copies) -> None:
    said = conversation(parts)
    state, kept, fresh = parts.live
    kept = min(kept, len(said))
    new = [
        {"role": "assistant" if n % 2 else "user", "content": "go on", "timestamp": T0 + (n + 50) * STEP}
        for n in range(fresh)
    ]
    note(str(parts))
    with tempfile.TemporaryDirectory() as name:
        made = Made(Path(name) / "hermes", parts.version)
        there: set[int] = set()
        if parts.rows is not None:
            there |= set(range(*parts.rows))
            made.row(SID, [stored(told, parts.earlier) for told in said[slice(*parts.rows)]])
        if parts.backup is not None:
            there |= set(range(*parts.backup))
            made.side(SID, said[slice(*parts.backup)], ".json.bak")
        path = made.side(SID, said[:kept] + new)
        if state == "torn":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        elif state == "empty":
            path.write_bytes(b"")
        elif state == "malformed":
            path.write_text(json.dumps({"session_id": SID, "messages": None}))
        elif state == "absent":
            path.unlink()
        live = sidecar.load(str(path)).messages
        there |= {n for n, told in enumerate(said) if told in live}
        wanted = [told for n, told in enumerate(said) if n in there] + [told for told in new if told in live]
        made.index()
        check(made, Home(str(Path(name) / "home")), path, wanted, live)


def check(made: Made, home: Home, path: Path, wanted: list[Any], live: list[Any]) -> None:
    before, bytes_before = everything(made.path), content(made.path)
    install = HermesInstall(str(made.path), {})
    seen = install.diagnose()
    assert everything(made.path) == before
    if not seen.steps:
        assert seen.plan == []
        if path.exists() and not {f.code for f in seen.findings} & LEFT_ALONE:
            assert [key(told) for told in live] == [key(told) for told in wanted]
        return
    receipt = operation.apply(home, install, seen.fingerprint)
    assert receipt.problems == []
    again = install.diagnose()
    assert again.plan == [] and not again.steps
    if path.exists():
        side = json.loads(path.read_text(encoding="utf-8"))
        now = [key(told) for told in side["messages"]]
        assert not [told for told in live if key(told) not in now]
        if not {f.code for f in again.findings} & LEFT_ALONE:
            assert now == [key(told) for told in wanted]
        assert side["message_count"] == len(now)
    operation.undo(home, install, receipt)
    assert content(made.path) == bytes_before
