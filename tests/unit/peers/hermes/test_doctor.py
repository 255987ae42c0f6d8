"""The doctor of hermes-webui on recorded homes: findings, repairs, a second look, and undo."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis
from holdfast.home import Home
from holdfast.peers.hermes.install import HermesInstall
from tests.support import paths

FIXTURES = paths.FIXTURES / "history" / "hermes"
CASES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


def expected(case: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FIXTURES / case / "expected.json").read_text())
    return value


def state(root: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder, name)
            data = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(root))] = (path.stat().st_mtime_ns, data)
    return found


def content(root: Path) -> dict[str, bytes]:
    return {name: data for name, (_, data) in state(root).items()}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def hermes(case: str, tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES / case / "hermes-home", tmp_path / "hermes")
    (tmp_path / "hermes" / "webui" / "sessions").mkdir(parents=True, exist_ok=True)
    return tmp_path / "hermes"


def codes(seen: Diagnosis, subjects: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in seen.findings:
        own = finding.subject if finding.subject in subjects else "home"
        found.setdefault(own, []).append(finding.code.upper())
    return {own: sorted(told) for own, told in found.items()}


def test_a_diagnosis_has_the_expected_findings_and_changes_nothing(case: str, hermes: Path) -> None:
    want, before = expected(case), state(hermes)
    seen = HermesInstall(str(hermes), {}).diagnose()
    assert state(hermes) == before
    wanted = {own: sorted(told["findings"]) for own, told in want["sessions"].items() if told["findings"]}
    assert codes(seen, want["sessions"]) == wanted | ({"home": want["home"]} if want["home"] else {})
    for finding in seen.findings:
        told = want["sessions"].get(finding.subject)
        if told is not None:
            allowed = {told["class"], *told["after"].get("accept_class", ())}
            assert "repairable" in allowed if finding.safe else finding.text
    assert HermesInstall(str(hermes), {}).diagnose().fingerprint == seen.fingerprint


def test_a_repair_has_the_expected_result_and_is_undone_byte_for_byte(
    case: str, hermes: Path, tmp_path: Path
) -> None:
    want, before = expected(case), content(hermes)
    install, home = HermesInstall(str(hermes), {}), Home(str(tmp_path / "home"))
    seen = install.diagnose()
    if not seen.steps:
        assert not [finding for finding in seen.findings if finding.safe]
        assert not any(told["class"] == "repairable" for told in want["sessions"].values())
        return
    receipt = operation.apply(home, install, seen.fingerprint)
    assert receipt.problems == []
    for native_id, told in want["sessions"].items():
        check(hermes, native_id, told["after"], want)
    if "index_after" in want:
        listed = json.loads((hermes / "webui/sessions/_index.json").read_text())
        assert sorted(entry["session_id"] for entry in listed) == want["index_after"]
    again = install.diagnose()
    assert again.steps == [] and again.plan == []
    database = {name: data for name, data in content(hermes).items() if "state.db" in name}
    assert database == {name: data for name, data in before.items() if "state.db" in name}
    operation.undo(home, install, receipt)
    assert content(hermes) == before


def check(hermes: Path, native_id: str, after: dict[str, Any], want: dict[str, Any]) -> None:
    path = hermes / "webui" / "sessions" / f"{native_id}.json"
    assert path.exists() is after.get("exists", True)
    if not path.exists():
        return
    side = json.loads(path.read_text())
    messages = side["messages"]
    texts = [message.get("content") for message in messages]
    fields = ("title", "workspace", "worktree_path", "worktree_branch", "worktree_repo_root")
    assert {name: side[name] for name in fields if name in after} == {
        name: after[name] for name in fields if name in after
    }
    assert side["message_count"] == len(messages)
    if "messages" in after:
        assert len(messages) in after.get("accept_messages", [after["messages"]])
    assert len(messages) >= after.get("at_least_messages", 0)
    assert len(messages) >= after.get("messages_kept_somewhere", 0)
    if "texts" in after:
        assert texts == after["texts"]
    if "user_turn" in after:
        assert texts.count(after["user_turn"]) == after["user_turn_times"]
        assert texts[: after["old_messages_kept"]] == [f"m {n}" for n in range(after["old_messages_kept"])]
    if "assistant_text" in after:
        assert after["assistant_text"] in texts
    if after.get("interrupted_marker"):
        assert [m for m in messages if m.get("_error") and m["type"] == "interrupted"]
    if after.get("pending_fields_cleared"):
        assert not side["active_stream_id"] and not side["pending_user_message"]
    if after.get("first_content_is_list"):
        assert isinstance(texts[0], list)
    assert "\0json:" not in path.read_text() and "\\u0000json" not in path.read_text()
    if after.get("tool_calls_kept"):
        assert [m for m in messages if m.get("tool_calls")] and [m for m in messages if m.get("reasoning")]
        row = next(m for m in messages if m["role"] == "tool")
        assert {name: row[name] for name in after["tool_row"]} == after["tool_row"]
    if after.get("no_orphan_tool_row_in_context"):
        assert "tool" not in {m["role"] for m in side["context_messages"]}


def test_recorded_output_is_recovered_with_its_tool_call(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "stale_stream_run_journal_partial" / "hermes-home", tmp_path / "hermes")
    install = HermesInstall(str(tmp_path / "hermes"), {})
    operation.apply(Home(str(tmp_path / "home")), install, install.diagnose().fingerprint)
    side = json.loads((tmp_path / "hermes/webui/sessions/stale0004.json").read_text())
    told = [(m["role"], m["content"]) for m in side["messages"][4:7]]
    assert told == [
        ("user", "What is the meaning of life?"),
        ("assistant", "The answer is 4"),
        ("assistant", " and then"),
    ]
    assert side["messages"][5]["reasoning"] == "hmm, let me think"
    (card,) = side["tool_calls"]
    assert (card["name"], card["assistant_msg_idx"], card["done"]) == ("terminal", 5, True)
    assert [m["content"] for m in side["context_messages"]][4:] == [content for _, content in told]
    index = json.loads((tmp_path / "hermes/webui/sessions/_index.json").read_text())
    assert (index[0]["message_count"], index[0]["active_stream_id"]) == (8, None)


def test_the_plan_is_for_one_state_only(tmp_path: Path) -> None:
    from holdfast import errors

    shutil.copytree(FIXTURES / "wiped_1558" / "hermes-home", tmp_path / "hermes")
    install = HermesInstall(str(tmp_path / "hermes"), {})
    plan = install.diagnose().fingerprint
    path = tmp_path / "hermes/webui/sessions/wiped0001.json"
    path.write_text(path.read_text().replace("Session wiped0001", "Another title"))
    before = content(tmp_path / "hermes")
    with pytest.raises(errors.PlanChanged):
        operation.apply(Home(str(tmp_path / "home")), install, plan)
    assert content(tmp_path / "hermes") == before
