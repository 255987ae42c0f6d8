"""The demo agent's session files, and what it costs to start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.demo import AGENT
from holdfast.agents.driver import AgentJob
from holdfast.demo import server, sessions


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_DEMO_HOME", str(tmp_path / "demo"))
    return tmp_path / "demo"


def test_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEMO_HOME", "/own")
    assert sessions.home() == "/own"
    monkeypatch.delenv("HOLDFAST_DEMO_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert sessions.home() == "/data/holdfast-demo"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/me")
    assert sessions.home() == "/me/.local/share/holdfast-demo"


def test_records_are_numbered_through_reopening_and_forking(folder: Path) -> None:
    session = sessions.create("/w")
    session.add("prompt", turn=1, id="a", text="hé\n", at="t")
    session.close()
    session, records = sessions.reopen(session.id, "/w")
    session.add("end", turn=1, stop="end_turn", at="t")
    session.add("prompt", turn=2, id="b", text="x", at="t")
    fork = sessions.fork(session.id, "/v")
    fork.add("prompt", turn=2, id="c", text="y", at="t")
    lines = (folder / f"{fork.id}.jsonl").read_text().splitlines()
    shown = [json.loads(line) for line in lines]
    assert [record.get("n") for record in shown] == [None, 1, 2, 3] and shown[3]["text"] == "y"
    assert shown[0]["from"] == session.id and (records[0]["text"], session.turns) == ("hé\n", 1)
    assert sorted(os.listdir(folder)) == sorted([f"{session.id}.jsonl", f"{fork.id}.jsonl"])
    assert (folder / f"{fork.id}.jsonl").stat().st_mode & 0o777 == 0o600
    session.close()
    fork.close()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 400))
def test_a_file_cut_off_anywhere_keeps_its_whole_records(cut: int) -> None:
    session = sessions.create("/w")
    for number in range(4):
        session.add("message", id=f"m{number}", text="é" * 20)
    session.close()
    path = os.path.join(sessions.home(), f"{session.id}.jsonl")
    with open(path, "rb") as file:
        whole = file.read()
    first = whole.index(b"\n") + 1
    cut = max(first, min(cut, len(whole)))
    os.truncate(path, cut)
    lines = whole[:cut].count(b"\n") - 1
    session, records = sessions.reopen(session.id, "/w")
    assert [record["n"] for record in records] == list(range(1, lines + 1))
    session.add("message", id="new", text="new")
    session.close()
    session, records = sessions.reopen(session.id, "/w")
    session.close()
    whole_again = lines + (whole[cut : cut + 1] == b"\n")  # all of it but its newline, which was added
    assert [record["id"] for record in records] == [*[f"m{number}" for number in range(whole_again)], "new"]


def test_invalid_records_are_skipped() -> None:
    session = sessions.create("/w")
    path = os.path.join(sessions.home(), f"{session.id}.jsonl")
    with open(path, "ab") as file:
        file.write(b'1\n{"type":"call","n":1}\n{"type":1}\n\xff\n{"type":"later","n":7}\n')
    session.close()
    session, records = sessions.reopen(session.id, "/w")
    session.close()
    assert records == [{"type": "later", "n": 7}] and server.replay(records) == []
    assert session.next_id("m") == "m-8"


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "resource_link", "uri": "file:///x", "name": "x"}], "file:///x"),
        ([{"type": "resource", "resource": {"uri": "u", "text": "t"}}], "t"),
        ([{"type": "image", "data": "…"}, 1, {"text": 2}], ""),
        (None, ""),
    ],
)
def test_the_text_of_a_prompt(blocks: object, text: str) -> None:
    assert server.prompt_text(blocks) == text


def test_it_imports_nothing_heavy(tmp_path: Path) -> None:
    assert AGENT.launch is not None
    launch = AGENT.launch(AgentJob(agent="demo", session="s", task="t", prompt="", cwd="/", program=()))
    assert launch.argv == (sys.executable, "-P", "-m", "holdfast.demo") and launch.listens
    code = "import sys; before = set(sys.modules); import holdfast.demo.server; "
    code += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=launch.env, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"asyncio", "msgspec", "typing", "subprocess", "threading", "uuid", "pathlib"})
    assert {m for m in loaded if m.startswith("holdfast")} == {
        "holdfast",
        *[
            f"holdfast.demo{part}"
            for part in ("", ".server", ".sessions", ".script", ".tool_process", ".turn")
        ],
    }
