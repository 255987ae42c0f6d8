"""Differential: the Claude Agent SDK's own reading of the same transcripts, wherever it is installed.

Every difference is in the tables below, with its reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.claude_transcripts import READER, cases, put

sdk = pytest.importorskip("claude_agent_sdk")

CASES = cases()

# The SDK follows one chain from the last leaf, by `parentUuid` alone.
NOT_OF_ITS_CHAIN = {
    "2.1.325/compact": "what was before a compaction: it does not follow logicalParentUuid",
    "2.1.325/slash_unknown": "what was before a compaction",
    "corrupt-2.1.197/m3_mid_line_torn_assistant_tool_use_of_p1_side.jsonl": "all before a missing parent",
    "corrupt-2.1.197/m4_middle_tool_result_dropped.jsonl": "all before a missing parent",
    "split_brain/5fd30118-0dec-432d-9209-be59067d7ce3.jsonl": "the other way of a fork",
}
# It has no part for these.
NOT_ITS = {
    "notice": "what the CLI says, and `isMeta` and `system` records",
    "queued": "a prompt in the middle of a turn is an attachment",
    "interrupted": "the end of a call that has none",
    "subagent": "get_subagent_messages has them",
}


def ours(root: Path, name: str) -> list[tuple[str, str]]:
    """What the reader tells, as (what it is, its id)."""
    path, id, _ = CASES[name]
    found = []
    for event in READER.events(put(root, path, id)):
        record = event.origin.record_id if event.origin is not None else "interrupted"
        what = event.kind
        if "parent" in event.body:
            what = "subagent"
        elif record == "interrupted":
            what = "interrupted"
        elif what == "user" and record not in _users(path):
            what = "queued"
        found.append((what, record))
    return found


def _users(path: str) -> str:
    """The lines of type `user`."""
    with open(path, "rb") as file:
        return b"".join(line for line in file if b'"type":"user"' in line).decode(errors="replace")


def theirs(root: Path, id: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that the reader gives to the parts of the SDK's messages."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(root))
    found: list[str] = []
    for message in sdk.get_session_messages(id):
        content: Any = message.message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for number, block in enumerate(blocks):
            if block["type"] == "tool_use":
                found.append(f"call:{block['id']}")
            elif block["type"] == "tool_result":
                found.append(f"result:{block['tool_use_id']}")
            else:
                found.append(message.uuid if number == 0 else f"{message.uuid}:{number}")
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_sdk_reads_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ours(tmp_path, name)
    read = theirs(tmp_path, CASES[name][1], monkeypatch)
    mine = [record for _, record in told]
    assert [record for record in read if record not in mine] == []
    left = [(what, record) for what, record in told if record not in read]
    unlisted = [entry for entry in left if entry[0] not in NOT_ITS]
    assert bool(unlisted) == (name in NOT_OF_ITS_CHAIN), unlisted
    # The same order, but for the results of parallel calls: the SDK puts them behind their message.
    common = [record for record in mine if record in read]
    assert sorted(common) == sorted(read)
    assert [r for r in common if not r.startswith("result:")] == [
        r for r in read if not r.startswith("result:")
    ]


def test_the_sdk_lists_the_same_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("2.1.197/text", "2.1.325/tools", "2.1.197/subagent"):
        put(tmp_path, CASES[name][0], CASES[name][1])
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    listed = {info.session_id: info for info in sdk.list_sessions()}
    found = {place.native_id: place for place in READER.sessions(str(tmp_path))}
    assert listed.keys() == found.keys()
    for id, place in found.items():
        assert listed[id].cwd == place.cwd
        assert listed[id].summary[:100] == (place.title or "")[:100]  # the CLI cuts what it notes of a prompt
    by_cwd = {info.session_id for info in sdk.list_sessions(directory="/home/dev/proj")}
    assert by_cwd == {place.native_id for place in READER.sessions(str(tmp_path), "/home/dev/proj")}
