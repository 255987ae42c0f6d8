"""A real hapi hub opens a database that the doctor has mended, and offers its session for resume."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import errors
from holdfast.doctor import operation
from holdfast.home import Home
from holdfast.peers.hapi.install import HapiInstall
from tests.agents.install import program
from tests.agents.waiting import until
from tests.support.hapi_cases import copied, files
from tests.unit.peers.hapi.test_doctor import put_claude_transcript

TOKEN = "a token of nobody but this test"
NAME = "d8c46382-136e-4293-b70a-4894309d50bf"
NATIVE = "11111111-2222-4333-8444-555555555555"


class Hub:
    """A running hub, asked over HTTP."""

    def __init__(self, port: int):
        self._url = f"http://127.0.0.1:{port}"
        self._bearer = TOKEN

    def log_in(self) -> None:
        self._bearer = self.ask("/api/auth", {"accessToken": TOKEN})[1]["token"]

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        head = {"authorization": f"Bearer {self._bearer}", "content-type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self._url + path, data, head)) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._url):
                return True
        except OSError:
            return False


@contextmanager
def hub(home: Path) -> Iterator[Hub]:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port = any_socket.getsockname()[1]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HAPI_HOME": str(home),
        "HAPI_LISTEN_HOST": "127.0.0.1",
        "HAPI_LISTEN_PORT": str(port),
        "HAPI_IOS_PUSH": "off",
        "CLI_API_TOKEN": TOKEN,
    }
    with (
        open(home.parent / "hub.log", "wb") as log,
        subprocess.Popen([program("hapi"), "hub", "--no-relay"], env=env, stdout=log, stderr=log) as process,
    ):
        try:
            asked = Hub(port)
            until(asked.answers, "the hub answers")
            asked.log_in()
            yield asked
        finally:
            process.terminate()
            process.wait()


def test_a_hub_offers_a_mended_session_for_resume(tmp_path: Path) -> None:
    path = copied("v26-mixed.db", tmp_path / "hapi")
    with hub(path.parent) as before:
        assert before.ask(f"/api/sessions/{NAME}/resume", {})[1]["code"] == "resume_unavailable"
    put_claude_transcript(tmp_path / "user", NATIVE, "please do step 0")
    target = HapiInstall(str(path.parent), {"HOME": str(tmp_path / "user")})
    old = files(path.parent)
    receipt = operation.apply(Home(str(tmp_path / "home")), target, target.diagnose().fingerprint)
    operation.undo(Home(str(tmp_path / "home")), target, receipt)
    assert files(path.parent) == old
    operation.apply(Home(str(tmp_path / "home")), target, target.diagnose().fingerprint)
    with hub(path.parent) as after:
        sessions = {found["id"]: found for found in after.ask("/api/sessions")[1]["sessions"]}
        assert sessions[NAME]["metadata"]["agentSessionId"] == NATIVE
        # It goes on as far as a machine to run on, of which this hub has none.
        assert after.ask(f"/api/sessions/{NAME}/resume", {})[1]["code"] == "no_machine_online"
    assert not target.diagnose().plan


def test_a_hub_offers_a_session_whose_metadata_were_null(tmp_path: Path) -> None:
    path = copied("v26-mixed.db", tmp_path / "hapi")
    data = {"type": "assistant", "sessionId": NATIVE, "cwd": "/home/dev/hap/proj"}
    said = json.dumps({"role": "agent", "content": {"type": "output", "data": data}})
    db = apsw.Connection(str(path))
    db.execute("update sessions set metadata = 'null' where id = ?", (NAME,))
    put = "insert into messages (id, session_id, content, created_at, seq) values ('n', ?, ?, 1, 99)"
    db.execute(put, (NAME, said))
    db.close()
    with hub(path.parent) as before:
        assert before.ask(f"/api/sessions/{NAME}/resume", {})[1]["code"] == "resume_unavailable"
    target = HapiInstall(str(path.parent), {"HOME": str(tmp_path / "nobody")})
    operation.apply(Home(str(tmp_path / "home")), target, target.diagnose().fingerprint)
    with hub(path.parent) as after:
        assert after.ask(f"/api/sessions/{NAME}/resume", {})[1]["code"] == "no_machine_online"


def test_a_running_hub_is_seen(tmp_path: Path) -> None:
    path = copied("edited-token-removed.db", tmp_path / "hapi")
    target = HapiInstall(str(path.parent), {"HOME": str(tmp_path)})
    with hub(path.parent):
        plan = target.diagnose().fingerprint
        with pytest.raises(errors.ProgramRunning, match=r"process \d+ .*hapi.* has .* open"):
            operation.apply(Home(str(tmp_path / "home")), target, plan)
