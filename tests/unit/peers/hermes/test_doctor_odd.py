"""Odd values, torn files, bytes of any kind in a Hermes home: no crash, no loss, and the rest is mended."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis
from holdfast.home import Home
from holdfast.peers.hermes import sessions_folder, sidecar
from holdfast.peers.hermes.install import HermesInstall
from holdfast.peers.hermes.layout import HermesLayout
from tests.support.hermes_builder import T0, Made, content, everything, submitted, talk, token
from tests.support.hermes_holes import HOLES

FIELDS = re.findall(
    r"\S+",
    "session_id title workspace created_workspace model model_provider"
    " model_explicit_pick_signature created_at updated_at pinned archived project_id profile"
    " input_tokens output_tokens estimated_cost personality"
    " active_stream_id pending_user_message pending_attachments pending_started_at pending_user_source"
    " compression_anchor_visible_idx compression_anchor_message_key compression_anchor_summary"
    " pre_compression_snapshot compression_anchor_mode compression_anchor_details truncation_watermark"
    " truncation_boundary clear_generation intentional_shrink_generation gateway_routing parent_session_id"
    " worktree_path worktree_branch worktree_repo_root worktree_created_at enabled_toolsets composer_draft"
    " message_count anchor_scene_index messages tool_calls anchor_activity_scenes context_messages"
    " _sidecar_generation_v1 never_heard_of",
)
PARTS = re.findall(
    r"\S+",
    "role content timestamp id message_id tool_calls tool_call_id tool_name name reasoning attachments"
    " finish_reason _error type _partial _partial_tool_calls _recovered _recovered_stream_id _source"
    " _state_db_row_id api_content",
)
DEEP: Any = []
for _ in range(600):
    DEEP = [DEEP]
ODD: dict[str, Any] = {
    "null": None,
    "true": True,
    "negative": -1,
    "huge": 10**400,
    "too_many_digits": 10**5000,
    "inexact": 1e308,
    "nan": float("nan"),
    "infinite": float("-inf"),
    "empty": "",
    "half": "a\ud800b",
    "separators": "x\u2028y\u0085z\0",
    "list": [],
    "nested": [[{"a": [None]}], "text", 7],
    "object": {"a": {"b": 1}},
    "deep": DEEP,
}


def digits(value: Any) -> str:
    """JSON, also of numbers that Python itself does not write."""
    if type(value) is int and abs(value) > 10**4000:
        return "1" + "0" * 5000
    return json.dumps(value)


def mend(made: Made, home: Home) -> Diagnosis:
    """Look, apply, look again, undo; the files are left as they are after the repair."""
    before, bytes_before = everything(made.path), content(made.path)
    install = HermesInstall(str(made.path), {})
    seen = install.diagnose()
    json.dumps(seen.as_json(), allow_nan=False).encode()
    assert everything(made.path) == before
    for path in made.folder.glob("[!_]*.json"):
        try:
            json.loads(path.read_bytes().decode())
        except (ValueError, RecursionError):
            assert any(f.subject in (path.stem, path.name) for f in seen.findings), path.name
    receipt = operation.apply(home, install, seen.fingerprint)
    assert receipt.problems == []
    after = content(made.path)
    again = install.diagnose()
    assert again.plan == [] and not again.steps
    operation.undo(home, install, receipt)
    assert content(made.path) == bytes_before
    for name, data in after.items():
        if bytes_before.get(name) != data:
            (made.path / name).write_bytes(data)
    return seen


def said(path: Path) -> list[str]:
    told = sidecar.load(str(path)).messages
    return [str(one.get("content")) for one in told if isinstance(one, dict) and not one.get("_error")]


def keeps(path: Path, before: list[str]) -> None:
    """What could be read is there still; half a character may have become a mark."""
    now = [_marked(one) for one in said(path)]
    for one in before:
        now.remove(_marked(one))


def _marked(text: str) -> str:
    return text.replace("\ufffd", "?").replace("\ud800", "?")


@pytest.mark.parametrize("odd", ODD)
def test_a_wrong_value_in_any_field(odd: str, tmp_path: Path) -> None:
    made = Made(tmp_path / "hermes")
    sick = HOLES["wiped_with_backup"](made, "sick")
    for name in FIELDS:
        for ending in (".json", ".json.bak"):
            path = made.side(f"f-{name}", talk(name, 4), ending)
            told = json.loads(path.read_text())
            path.write_text(json.dumps({**told, name: "PLACE"}).replace('"PLACE"', digits(ODD[odd])))
    for name in PARTS:
        path = made.side(f"m-{name}", [*talk(name, 3), {**talk(name, 1, 3)[0], name: "PLACE"}])
        path.write_text(path.read_text().replace('"PLACE"', digits(ODD[odd])))
    made.index()
    lists = {p.name: said(p) for p in made.folder.glob("[fm]-*.json")}
    seen = mend(made, Home(str(tmp_path / "home")))
    assert {f.code: f.safe for f in seen.findings if f.subject == "sick"} == sick.codes
    assert said(made.folder / "sick.json") == sick.says
    for file, before in lists.items():
        keeps(made.folder / file, before)


@pytest.mark.parametrize("odd", ODD)
def test_a_wrong_value_in_a_journal_an_index_or_a_list_of_deletions(odd: str, tmp_path: Path) -> None:
    made = Made(tmp_path / "hermes")
    sick = HOLES["stale"](made, "sick")
    for name in ("turn_id", "event", "content", "created_at", "stream_id", "session_id"):
        made.side(f"t-{name}", talk(name, 4))
        line = json.dumps({**submitted(name, "t", "asked", T0 + 50, "s"), name: "PLACE"})
        made.turn(f"t-{name}", line.replace('"PLACE"', digits(ODD[odd])).encode())
    for name in ("event", "type", "seq", "payload", "created_at", "terminal_state", "run_id"):
        pending: dict[str, Any] = {
            "active_stream_id": "s",
            "pending_user_message": "p",
            "pending_started_at": T0 + 50,
        }
        made.side(f"r-{name}", talk(name, 4), **pending)
        line = json.dumps({**token("r", "s", 1, "told"), name: "PLACE"})
        made.told(
            f"r-{name}", "s", line.replace('"PLACE"', digits(ODD[odd])).encode(), token("r", "s", 2, "x")
        )
    made.index()
    lists = {p.name: said(p) for p in made.folder.glob("[tr]-*.json")}
    index = made.folder / "_index.json"
    entry = '{"session_id": PLACE, "title": PLACE, "updated_at": PLACE}, PLACE]'
    index.write_text(index.read_text().rstrip().rstrip("]") + "," + entry.replace("PLACE", digits(ODD[odd])))
    deleted = made.folder / "_deleted_webui_sessions.json"
    deleted.write_text('{"version": 1, "ids": ["gone", PLACE]}'.replace("PLACE", digits(ODD[odd])))
    seen = mend(made, Home(str(tmp_path / "home")))
    assert {f.code: f.safe for f in seen.findings if f.subject == "sick"} == sick.codes
    for file, before in lists.items():
        keeps(made.folder / file, before)


def test_a_sidecar_torn_at_any_byte(tmp_path: Path) -> None:
    whole = Made(tmp_path / "whole").side(
        "one", [*talk("é\u2028", 3), {"role": "user", "content": "\U0001f600"}]
    )
    data = whole.read_bytes()
    made = Made(tmp_path / "hermes")
    sick = HOLES["torn_with_rows"](made, "sick")
    for cut in range(0, len(data), 5):
        (made.folder / f"cut-{cut}.json").write_bytes(data[:cut])
        (made.folder / f"both-{cut}.json").write_bytes(data[:cut])
        made.side(f"both-{cut}", talk("backup", 4), ".json.bak")
    made.index()
    lists = {p.name: said(p) for p in made.folder.glob("*-*.json")}
    seen = mend(made, Home(str(tmp_path / "home")))
    assert said(made.folder / "sick.json") == sick.says
    for file, before in lists.items():
        codes = {f.code for f in seen.findings if f"{f.subject}.json" == file}
        assert codes & {"torn_live", "empty_live"}, file
        keeps(made.folder / file, before)
        if file.startswith("both") and "session_id_mismatch" not in codes:
            keeps(made.folder / file, [f"backup says {n}" for n in range(4)])


def test_bytes_of_any_kind(tmp_path: Path) -> None:
    chance = random.Random(8)
    made = Made(tmp_path / "hermes")
    sick = HOLES["wiped_with_rows"](made, "sick")
    good = made.side("sample", talk("sample", 4)).read_bytes()
    for number in range(150):
        spoiled = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(spoiled))
            spoiled[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        noise = chance.randbytes(chance.randint(0, 80))
        (made.folder / f"spoiled-{number}.json").write_bytes(spoiled)
        (made.folder / f"noise-{number}.json").write_bytes(noise)
        (made.folder / f"spoiled-{number}.json.bak").write_bytes(noise if number % 2 else good)
        made.turn(f"spoiled-{number}", noise)
        made.told(f"noise-{number}", "s", noise, bytes(spoiled))
    made.index()
    lists = {p.name: said(p) for p in made.folder.glob("*-*.json")}
    mend(made, Home(str(tmp_path / "home")))
    assert said(made.folder / "sick.json") == sick.says
    for file, before in lists.items():
        keeps(made.folder / file, before)


def test_a_key_that_is_there_twice_is_read_as_the_web_ui_reads_it(tmp_path: Path) -> None:
    made = Made(tmp_path / "hermes")
    path = made.side("one", talk("first", 4), message_count=9)
    second = json.dumps(talk("second", 2))
    path.write_text(path.read_text().rstrip().rstrip("}") + f', "messages": {second}}}')
    made.index()
    mend(made, Home(str(tmp_path / "home")))
    assert said(path) == [f"second says {n}" for n in range(2)]


@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
def test_an_index_is_read_piece_by_piece_as_it_would_be_whole(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_folder, "PIECE", piece)
    made = Made(tmp_path / "hermes")
    path = made.folder / "_index.json"
    one = json.dumps([{"session_id": "é\u2028", "n": [1.5e3, None]}, 17, "x", []], ensure_ascii=False)
    sound = [one, "[]", " [ ] ", "[1]", "[NaN, -1]", one.replace(",", " ,\n"), f"{one}\n"]
    broken = ["", "[", "[1", "[1,", "[1,]", "[1 2]", "[,1]", "{}", "[]]", f"{one}x", '["a\x00"]', one[:-9]]
    for text in sound:
        path.write_text(text, encoding="utf-8")
        told = list(sessions_folder.entries(HermesLayout(str(made.path))))
        assert repr(told) == repr(json.loads(text))
    for text in broken:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError):
            list(sessions_folder.entries(HermesLayout(str(made.path))))
    path.write_bytes(one.encode()[:20])
    assert sessions_folder.all_entries(HermesLayout(str(made.path))) == []
