"""Where Claude Code's sessions are found, and who holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.agents.claude import sessions as owners
from holdfast.agents.claude import sessions as places
from holdfast.process import identity
from tests.support.claude_transcripts import FOLDER, ID, READER, Made, cases, put

OTHER = "22222222-2222-4222-8222-222222222222"


def test_root() -> None:
    assert READER.root({"HOME": "/home/dev"}) == "/home/dev/.claude"
    assert READER.root({"HOME": "/home/dev", "CLAUDE_CONFIG_DIR": "/data/cc"}) == "/data/cc"


@pytest.mark.parametrize(
    ("cwd", "slug"),
    [
        ("/home/dev/proj", "-home-dev-proj"),
        ("/home/dev/a_b.c d", "-home-dev-a-b-c-d"),
        # All below as 2.1.197 and 2.1.325 do it.
        ("/home/dev/e\u0301q", "-home-dev-e-q"),
        ("/home/dev/\U0001f600_é.b", "-home-dev------b"),  # two units in JavaScript
        ("/home/dev/" + "y" * 120 + "/" + "z" * 120, "-home-dev-" + "y" * 120 + "-" + "z" * 69 + "-vylyt0"),
    ],
)
def test_slug(cwd: str, slug: str) -> None:
    assert places.slug(cwd) == slug


def store(root: Path, folder: str, id: str, cwd: str, title: str | None = None) -> Made:
    path = root / "projects" / folder
    path.mkdir(parents=True, exist_ok=True)
    made = Made(path, id)
    made.raw({"type": "queue-operation", "operation": "enqueue", "sessionId": id})
    made.user("<command-name>/x</command-name>", cwd=cwd)
    made.user("do  this\nplease", cwd=cwd)
    made.says("done", cwd=cwd)
    if title:
        made.raw({"type": "custom-title", "customTitle": title, "sessionId": id})
        made.raw({"type": "summary", "summary": "less", "leafUuid": "x"})
    made.place()
    return made


def test_a_cwd_whose_folder_has_another_name(tmp_path: Path) -> None:
    long = "/home/dev/" + "y" * 120 + "/" + "z" * 120
    store(tmp_path, long.replace("/", "-"), ID, long)  # 2.0.29 does not shorten it
    store(tmp_path, places.slug(long), OTHER, long)
    assert {place.native_id for place in READER.sessions(str(tmp_path), long)} == {ID, OTHER}
    store(tmp_path, "-home-dev--q", ID, "/home/dev/éq")  # by the SDK
    assert len(list(READER.sessions(str(tmp_path), "/home/dev/e\u0301q"))) == 1


def test_finding(tmp_path: Path) -> None:
    store(tmp_path, "-home-dev-a-b", ID, "/home/dev/a_b", "My title")
    store(tmp_path, "-home-dev-a-b", OTHER, "/home/dev/a-b")
    store(tmp_path, "-elsewhere", ID, "/elsewhere")
    (tmp_path / "projects" / "-home-dev-a-b" / "agent-1.jsonl").write_text("{}\n")
    (tmp_path / "projects" / "odd.jsonl").mkdir()
    root = str(tmp_path)
    assert [place.cwd for place in READER.find(root, ID)] == ["/elsewhere", "/home/dev/a_b"]
    assert [place.native_id for place in READER.sessions(root, "/home/dev/a_b")] == [ID]
    assert [place.native_id for place in READER.sessions(root, "/home/dev/a-b")] == [OTHER]
    assert list(READER.sessions(root, "/home/dev/a.b")) == []
    assert len(list(READER.sessions(root))) == 3
    titles = {place.title for place in READER.find(root, ID)}
    assert titles == {"My title", "do this please"}
    assert READER.find(root, ID)[0].updated_at == "2026-11-15T22:00:03.500000Z"
    # Also by the folder of projects, by one project, and by a path.
    assert len(READER.find(os.path.join(root, "projects"), ID)) == 2
    assert len(READER.find(os.path.join(root, "projects", "-elsewhere"), ID)) == 1
    (place,) = READER.find("/nowhere", os.path.join(root, "projects", "-elsewhere", ID + ".jsonl"))
    assert place.native_id == ID and os.path.isabs(place.path)
    for name in ("", "..", "../" + ID, "no\0thing", "/etc"):
        assert READER.find(root, name) == []


def test_a_file_of_any_name_has_the_id_of_its_records(tmp_path: Path) -> None:
    path, id, _ = cases()["2.1.197/text"]
    (place,) = READER.find("/nowhere", path)
    assert place.native_id == id and place.cwd == "/home/dev/proj"
    assert READER.inspect(place).sound


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path, id, _ = cases()["2.1.197/subagent"]
    place = put(tmp_path, path, id)
    files = READER.files(place)
    assert len(files) == 3
    for file in files:
        os.utime(file, ns=(1, 1))
        os.chmod(file, 0o400)
    before = {file: os.stat(file).st_mtime_ns for file in files}
    names = sorted(str(path) for path in tmp_path.rglob("*"))
    list(READER.events(place))
    READER.inspect(place)
    list(READER.sessions(str(tmp_path)))
    assert {file: os.stat(file).st_mtime_ns for file in files} == before
    assert sorted(str(path) for path in tmp_path.rglob("*")) == names


# --- who holds a session


def entry(root: Path, **fields: object) -> None:
    folder = root / "sessions"
    folder.mkdir(exist_ok=True)
    entry = {"pid": os.getpid(), "sessionId": ID, **fields}
    (folder / f"{os.getpid()}.json").write_text(json.dumps(entry))


@pytest.mark.skipif(not identity.HAS_PROC, reason="the registry counts as /proc does")
def test_owners(tmp_path: Path) -> None:
    place = Made(tmp_path).place()
    pid = os.getpid()
    started = str(int(identity.started(pid) or 0))
    machine, space = owners._domain()
    assert READER.owners(str(tmp_path), place) == []
    entry(tmp_path, procStart=started)
    assert READER.owners(str(tmp_path), place) == [pid]
    (tmp_path / "projects").mkdir()
    assert READER.owners(str(tmp_path / "projects"), place) == [pid]
    entry(tmp_path, procStart=started, pidDomain=f"linux:{machine}:{space}")
    assert READER.owners(str(tmp_path), place) == [pid]
    for fields in (
        {"procStart": "1"},
        {"procStart": "soon"},
        {"procStart": started, "pidDomain": f"linux:{machine}:pid:[1]"},
        {"procStart": started, "pidDomain": "linux:0123456789abcdef:" + space},
        {"procStart": started, "sessionId": OTHER},
        {"procStart": started, "pid": 2**31 - 7},
        {"procStart": started, "pid": "x"},
    ):
        entry(tmp_path, **fields)
        expected = [pid] if "0123456789abcdef" in str(fields) and not machine else []
        assert READER.owners(str(tmp_path), place) == expected, fields
    (tmp_path / "sessions" / f"{pid}.json").write_bytes(b"\xff{")
    (tmp_path / "sessions" / "secret.key").write_bytes(b"x")
    (tmp_path / "sessions" / "secret.key").chmod(0)
    assert READER.owners(str(tmp_path), place) == []


def test_a_registry_that_a_kill_left_names_nobody(tmp_path: Path) -> None:
    folder = os.path.join(FOLDER, "2.1.197", "kill_midtool_second_turn", "sessions_registry")
    (tmp_path / "sessions").mkdir()
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name)) as file:
        left = json.load(file)
    left["procStart"] = "1"  # whoever has its pid here now began later
    (tmp_path / "sessions" / name).write_text(json.dumps(left))
    path, id, _ = cases()["2.1.197/kill_midtool_second_turn"]
    assert left["sessionId"] == id
    assert READER.owners(str(tmp_path), put(tmp_path, path, id)) == []


def test_tools_that_still_run(tmp_path: Path) -> None:
    place = Made(tmp_path).place()
    assert READER.tools(str(tmp_path), place) == []
    command = [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
    env = {**os.environ, owners.MARK: ID}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        tool.stdout.readline()
        assert READER.tools(str(tmp_path), place) == [tool.pid]
        assert READER.tools(str(tmp_path), Made(tmp_path, OTHER).place()) == []
        tool.communicate()
    deadline = time.monotonic() + 5
    while READER.tools(str(tmp_path), place) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert READER.tools(str(tmp_path), place) == []


def test_this_very_command_is_no_tool_that_still_runs(tmp_path: Path) -> None:
    path = Made(tmp_path).place().path
    code = (
        "from holdfast.agents.claude.reader import ClaudeReader as R\n"
        f"r = R(); print(r.tools('', r.find('', {path!r})[0]))"
    )
    env = {**os.environ, owners.MARK: ID}
    shell = ["sh", "-c", f'"{sys.executable}" -c "$0"; true', code]
    done = subprocess.run(shell, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
