"""Sidecars, backups, rows and journals of every kind: never a crash, and no repair loses a message."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.doctor.plan import FileStep
from holdfast.peers.hermes import sidecar as sidecars
from holdfast.peers.hermes.install import HermesInstall
from tests.unit.peers.hermes.test_merge import SID, T0, database

WORDS = st.sampled_from(["a", "b", "c", "d", "é", "x\u2028y"])
TIMES = st.none() | st.integers(0, 40).map(lambda n: T0 + n) | st.sampled_from(["soon", -1, 1e300])
JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({"k": [1]})
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "assistant", "tool"]), "content": WORDS},
    optional={
        "timestamp": TIMES,
        "tool_call_id": st.sampled_from(["c1", "c2", 7]),
        "tool_calls": st.just([{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]) | JUNK,
        "_partial": st.booleans(),
        "_error": st.booleans(),
        "reasoning": WORDS,
        "unknown": JUNK,
    },
)
CARD = st.fixed_dictionaries({"assistant_msg_idx": st.integers(-1, 9)})
HEAD = st.fixed_dictionaries(
    {},
    optional={
        "session_id": st.just(SID) | JUNK,
        "message_count": st.integers(0, 5) | JUNK,
        "active_stream_id": st.just("s") | JUNK,
        "pending_user_message": WORDS | JUNK,
        "pending_started_at": TIMES,
        "truncation_boundary": TIMES,
        "truncation_watermark": TIMES,
        "updated_at": TIMES,
        "tool_calls": st.lists(st.fixed_dictionaries({"assistant_msg_idx": st.integers(-1, 9)}) | JUNK)
        | JUNK,
        "context_messages": st.lists(MESSAGE | JUNK, max_size=3) | JUNK,
        "unknown": JUNK,
    },
)
SIDE = st.builds(
    lambda head, messages: {"session_id": SID, **head, "messages": messages},
    HEAD,
    st.lists(MESSAGE | JUNK, max_size=8),
)
FILE = st.one_of(
    st.none(),
    SIDE.map(lambda value: json.dumps(value, indent=2).encode()),
    st.builds(
        lambda value, cut: (data := json.dumps(value, indent=2).encode())[: cut % (len(data) + 1)],
        SIDE,
        st.integers(0, 10_000),
    ),
    st.binary(max_size=30),
)
LINE = st.fixed_dictionaries(
    {"event": st.sampled_from(["submitted", "completed", "token", "tool", "tool_complete", "done"])},
    optional={
        "turn_id": st.sampled_from(["t1", "t2"]) | JUNK,
        "content": WORDS | JUNK,
        "created_at": TIMES,
        "stream_id": st.just("s") | JUNK,
        "payload": st.fixed_dictionaries({"text": WORDS, "name": st.just("f")}) | JUNK,
    },
)
LINES = st.lists(LINE | JUNK, max_size=5).map(
    lambda lines: "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]), "content": WORDS},
        optional={"active": st.sampled_from([0, 1]), "compacted": st.sampled_from([0, 1])},
    ),
    max_size=6,
)


def texts(side: sidecars.Sidecar) -> Counter[str]:
    """What was said; partial answers that repeat each other may become one."""
    told = [m for m in side.messages if isinstance(m, dict) and not m.get("_partial")]
    return Counter(f"{m.get('role')}:{m.get('content')}" for m in told)


@settings(max_examples=300, deadline=None)
@given(FILE, FILE, st.none() | ROWS, LINES, LINES, st.binary(max_size=3))
def test_any_install_is_diagnosed(
    live: bytes | None,
    backup: bytes | None,
    rows: list[dict[str, Any]] | None,
    turns: bytes,
    run: bytes,
    tail: bytes,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        folder = home / "webui" / "sessions"
        (folder / "_turn_journal").mkdir(parents=True)
        (folder / "_run_journal" / SID).mkdir(parents=True)
        (folder / "_turn_journal" / f"{SID}~1.jsonl").write_bytes(turns + tail)
        (folder / "_run_journal" / SID / "s.jsonl").write_bytes(run + tail)
        for data, ending in ((live, ".json"), (backup, ".json.bak")):
            if data is not None:
                (folder / f"{SID}{ending}").write_bytes(data)
        if rows is not None:
            database(home, rows)
        install = HermesInstall(str(home), {})
        seen = install.diagnose()
        assert seen.fingerprint == install.diagnose().fingerprint
        path = folder / f"{SID}.json"
        before = sidecars.load(str(path))
        steps = [step for step in seen.steps if isinstance(step, FileStep)]
        contents = [(Path(step.path), step.content and step.content()) for step in steps]
        for target, data in contents:
            assert data is not None
            target.write_bytes(data)
        after = sidecars.load(str(path))
        assert not texts(before) - texts(after)
        if contents and after.state == "whole":
            json.loads(path.read_bytes().decode())
            assert after.head.get("unknown") == before.head.get("unknown") or "unknown" not in before.head
        again = HermesInstall(str(home), {}).diagnose()
        assert again.plan == [] and not again.steps
        if any(f.code == "shrunken_live" and f.safe for f in seen.findings) and not rows:
            lost = texts(sidecars.load(str(path) + ".bak")) - texts(after)
            assert not {said for said in lost if not said.startswith("tool:")}
