"""A token that no message names: found in the agents' own stores by folder, time and what was asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast import errors
from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis, DoctorFinding
from holdfast.home import Home
from holdfast.peers.hapi.install import HapiInstall
from tests.support import paths
from tests.support.hapi_builder import T0, Made, build
from tests.support.hapi_cases import session
from tests.support.hapi_holes import codex as replied
from tests.support.hapi_holes import of, prompt

FIXTURES = paths.FIXTURES / "history"
YEAR_MS = 365 * 86_400_000

Put = Callable[[Path, str], None]  # into that user's home, under that id


class Kept(NamedTuple):
    """One conversation in an agent's store, as the real agent left it."""

    flavor: str
    put: Put
    native_id: str
    twin: str  # another id of the same shape
    cwd: str
    case: str
    sets: dict[str, str]

    def prompts(self) -> list[str]:
        told: Any = json.loads((FIXTURES / self.case / "expected.json").read_text())
        if "sessions" in told:
            told = told["sessions"][self.native_id]
        if "user_prompts" in told:
            return list(told["user_prompts"])
        return [event["text"] for event in told["events"] if event["k"] == "user"]


def _copy(source: Path, to: Path, old: str, new: str) -> None:
    """A file in which one id is replaced by another one as long."""
    assert len(old) == len(new) and source.exists()
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(source.read_bytes().replace(old.encode(), new.encode()))


def _claude(user: Path, name: str) -> None:
    source = FIXTURES / "claude/2.1.197/tools/transcript.jsonl"
    _copy(source, user / f".claude/projects/-home-dev-proj/{name}.jsonl", CLAUDE.native_id, name)


def _codex(user: Path, name: str) -> None:
    to = user / f".codex/sessions/2026/11/15/rollout-2026-11-15T22-03-38-{name}.jsonl"
    _copy(FIXTURES / "codex/tool_call/rollout.jsonl", to, CODEX.native_id, name)


def _gemini(user: Path, name: str) -> None:
    to = user / f".gemini/tmp/g1/chats/session-2026-11-15T22-15-{name[:8]}.jsonl"
    _copy(FIXTURES / "gemini/tool_call/session.jsonl", to, GEMINI.native_id, name)


def _opencode(user: Path, name: str) -> None:
    channel = "" if name == OPENCODE.native_id else "-dev"
    to = user / f".local/share/opencode/opencode{channel}.db"
    _copy(FIXTURES / "opencode/tool_call/opencode.db", to, OPENCODE.native_id, name)


def _kimi(user: Path, name: str) -> None:
    source = FIXTURES / "kimi/crashed_then_resumed/kimi-home"
    for path in source.rglob("*"):
        if path.is_file():
            to = str(path.relative_to(source)).replace(KIMI.native_id, name)
            _copy(path, user / ".kimi-code" / to, KIMI.native_id, name)


def _cursor(user: Path, name: str) -> None:
    source = FIXTURES / f"cursor/cursor-home/.cursor/acp-sessions/{CURSOR.native_id}"
    shutil.copytree(source, user / f".cursor/acp-sessions/{name}")


def _legacy_cursor(user: Path, name: str) -> None:
    folder = "2f108d9d78a2ccf520e99c4d45c05ab0"
    source = FIXTURES / f"cursor/cursor-home/.cursor/chats/{folder}/{CURSOR.native_id}"
    shutil.copytree(source, user / f".cursor/chats/{folder}/{name}")


def kept(flavor: str, put: Put, ids: tuple[str, str], cwd: str, case: str, **more: str) -> Kept:
    key = {f"{flavor}SessionId": ids[0]}
    return Kept(flavor, put, ids[0], ids[1], cwd, case, {**key, **more})


CLAUDE = kept(
    "claude",
    _claude,
    ("70d9263c-078b-4193-885d-4597e2af5aa2", "11111111-2222-4333-8444-555555555555"),
    "/home/dev/proj",
    "claude/2.1.197/tools",
)
CODEX = kept(
    "codex",
    _codex,
    ("01a1e13c-c4a2-78b0-a448-db3e78971949", "01a1e13c-c4a2-78b0-a448-000000000000"),
    "/home/dev/agnts/others/proj/codex",
    "codex/tool_call",
)
GEMINI = kept(
    "gemini",
    _gemini,
    ("de3caa2f-a12e-4cf9-b48c-016a1af7b3f1", "ee3caa2f-a12e-4cf9-b48c-016a1af7b3f1"),
    "/home/dev/agnts/others/proj/g1",
    "gemini/tool_call",
)
OPENCODE = kept(
    "opencode",
    _opencode,
    ("ses_e1ebc097affed8WqPs88eCJsFR", "ses_e1ebc097affed8WqPs88eCJsFX"),
    "/home/dev/agnts/others/proj/o1",
    "opencode/tool_call",
)
KIMI = kept(
    "kimi",
    _kimi,
    ("session_0ec7560d-2eb5-4138-a48f-8e90e340f037", "session_1ec7560d-2eb5-4138-a48f-8e90e340f037"),
    "/home/dev/km-s",
    "kimi/crashed_then_resumed",
)
CURSOR = kept(
    "cursor",
    _cursor,
    ("3f2b8c1e-0d4a-4c55-9a77-1b2c3d4e5f60", "4f2b8c1e-0d4a-4c55-9a77-1b2c3d4e5f60"),
    "/workspace/demo",
    "cursor/cursor-home",
    cursorSessionProtocol="acp",
)
LEGACY = CURSOR._replace(put=_legacy_cursor, sets={**CURSOR.sets, "cursorSessionProtocol": "stream-json"})

ALL = [CLAUDE, CODEX, GEMINI, OPENCODE, KIMI, CURSOR, LEGACY]
named = pytest.mark.parametrize(
    "one", ALL, ids=lambda k: f"{k.flavor}-{k.sets.get('cursorSessionProtocol', '')}"
)


class Bench:
    """A hapi install whose only session lost its token, and a user's home beside it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "hapi/hapi.db"
        self.user = folder / "user"
        self.user.mkdir()

    def lose(self, one: Kept, *, start: int = T0, prompts: list[str] | None = None, **metadata: Any) -> None:
        asked = one.prompts() if prompts is None else prompts
        talk = [said for text in asked for said in (prompt(text), replied())]
        told = {**of(one.flavor), "path": one.cwd, **metadata}
        build(self.path, 26, {"lost": Made(told, tuple(talk))}, start=start)

    def target(self) -> HapiInstall:
        return HapiInstall(str(self.path), {"HOME": str(self.user)})

    def diagnose(self) -> tuple[Diagnosis, DoctorFinding]:
        found = self.target().diagnose()
        (finding,) = [f for f in found.findings if f.code == "token_missing"]
        return found, finding


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@named
def test_the_only_matching_conversation_is_restored(one: Kept, bench: Bench) -> None:
    bench.lose(one)
    one.put(bench.user, one.native_id)
    found, finding = bench.diagnose()
    assert finding.safe and [c["source"] for c in finding.evidence["candidates"]] == ["native store"]
    operation.apply(Home(str(bench.folder / "home")), bench.target(), found.fingerprint)
    metadata = json.loads(session(bench.path, bench.folder / "s", "lost")["metadata"])
    assert metadata == {**of(one.flavor), "path": one.cwd, **one.sets}
    assert not bench.target().diagnose().findings


@named
def test_the_user_chooses_between_two_conversations(one: Kept, bench: Bench) -> None:
    bench.lose(one)
    one.put(bench.user, one.native_id)
    one.put(bench.user, one.twin)
    found, finding = bench.diagnose()
    assert not finding.safe and not found.steps
    tokens = {c["keys"][f"{one.flavor}SessionId"] for c in finding.evidence["candidates"]}
    assert tokens == {one.native_id, one.twin}
    chosen = HapiInstall(str(bench.path), {"HOME": str(bench.user)}, {"lost": one.twin})
    operation.apply(Home(str(bench.folder / "home")), chosen, chosen.diagnose().fingerprint)
    metadata = json.loads(session(bench.path, bench.folder / "s", "lost")["metadata"])
    assert metadata[f"{one.flavor}SessionId"] == one.twin


def test_a_store_that_changes_after_the_diagnosis_changes_the_plan(bench: Bench) -> None:
    bench.lose(CODEX)
    CODEX.put(bench.user, CODEX.native_id)
    target = bench.target()
    plan = target.diagnose().fingerprint
    CODEX.put(bench.user, CODEX.twin)
    with pytest.raises(errors.PlanChanged):
        operation.apply(Home(str(bench.folder / "home")), target, plan)


def test_two_sessions_that_match_one_conversation_get_none(bench: Bench) -> None:
    CODEX.put(bench.user, CODEX.native_id)
    talk = tuple(said for text in CODEX.prompts() for said in (prompt(text), replied()))
    lost = Made({**of("codex"), "path": CODEX.cwd}, talk)
    build(bench.path, 26, {"one": lost, "two": lost})
    found = bench.target().diagnose()
    told = [f for f in found.findings if f.code == "token_missing"]
    assert len(told) == 2 and not found.steps and all("--choose" in f.text and not f.safe for f in told)


@named
def test_another_folder_other_prompts_or_another_time_do_not_match(one: Kept, bench: Bench) -> None:
    one.put(bench.user, one.native_id)
    elsewhere: list[dict[str, Any]] = [
        {"path": "/home/dev/another"},
        {"prompts": [*one.prompts(), "and something that was never said to it"]},
        {"start": T0 + 20 * YEAR_MS},
    ]
    for how in elsewhere:
        bench.path.unlink(missing_ok=True)
        bench.lose(one, **how)
        found, finding = bench.diagnose()
        assert not found.steps and not finding.evidence.get("candidates"), how


@named
def test_undelivered_prompts_need_not_be_in_the_store(one: Kept, bench: Bench) -> None:
    one.put(bench.user, one.native_id)
    talk = [said for text in one.prompts() for said in (prompt(text), replied())]
    failed = (prompt("this one failed"), replied(type="error"), prompt("swept", local_id="s"))
    told = {**of(one.flavor), "path": one.cwd}
    build(bench.path, 26, {"lost": Made(told, (*talk, prompt("/compact"), *failed))})
    assert bench.diagnose()[1].safe


@named
def test_a_session_without_a_flavor_gets_the_flavor_of_the_store(one: Kept, bench: Bench) -> None:
    one.put(bench.user, one.native_id)
    bench.lose(one, flavor=None)
    found, finding = bench.diagnose()
    assert finding.safe and finding.evidence["candidates"][0]["keys"] == {**one.sets, "flavor": one.flavor}
    assert len(found.plan) == 2


@pytest.mark.parametrize("flavor", ["copilot", "grok", "agy", "pi"])
def test_a_store_that_cannot_be_read_is_reported(flavor: str, bench: Bench) -> None:
    bench.lose(CODEX._replace(flavor=flavor))
    found, finding = bench.diagnose()
    assert not found.steps and f"the store of {flavor}" in finding.text
