"""The home: its places, for us alone, and its lock."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.home import Home, default_path


def test_the_variable_names_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", "~/somewhere")
    assert default_path() == os.path.expanduser("~/somewhere")
    monkeypatch.setenv("HOLDFAST_HOME", "rel")
    assert default_path() == os.path.abspath("rel")
    monkeypatch.setenv("HOLDFAST_HOME", "")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_DATA_HOME", "/data")
        assert default_path() == "/data/holdfast"
        monkeypatch.delenv("XDG_DATA_HOME")
        assert default_path() == os.path.expanduser("~/.local/share/holdfast")


def test_its_folders_are_for_us_alone_and_made_once(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "a" / "home"))
    assert not home.exists()
    home.make()
    home.make()
    assert home.exists()
    for path in (home.path, home.sessions, home.trash, home.quarantine):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700, path


def test_every_place_is_inside(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    for path in (home.database, home.mirror("s1"), home.trashed("s1"), home.tombstone("s1"), home.lock_file):
        assert path.startswith(home.path + os.sep)
    assert len({home.mirror("s1"), home.trashed("s1"), home.tombstone("s1")}) == 3


def test_a_file_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("mine")
    with pytest.raises((OSError, errors.HoldfastError)):
        Home(str(tmp_path / "home")).make()
    assert (tmp_path / "home").read_text() == "mine"


def test_the_lock_names_its_holder_and_is_free_when_that_ends(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    holding = (
        "import sys; from holdfast.home import Home\n"
        "with Home(sys.argv[1]).lock('serve'):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", holding, home.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        with pytest.raises(errors.StoreBusy) as refusal, home.lock("doctor"):
            pass
        assert f"process {child.pid}" in refusal.value.message and "serve" in refusal.value.message
        child.kill()
    with home.lock("doctor"), pytest.raises(errors.StoreBusy), Home(home.path).lock("again"):
        pass
    with home.lock("doctor"):
        pass


def test_a_lock_file_of_nonsense_is_still_a_lock(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    for nonsense in ("", "not JSON", "[]", "{}", "null"):
        with home.lock("doctor"):
            Path(home.lock_file).write_text(nonsense)
            with pytest.raises(errors.StoreBusy, match="another process"), Home(home.path).lock("x"):
                pass


def test_an_existing_home_that_others_can_look_into_is_tightened_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(str(tmp_path / "home"))
    home.make()
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    (tmp_path / "home" / "link").symlink_to(outside)
    (tmp_path / "home" / "hub.token").write_text("secret")
    for path, mode in ((home.path, 0o755), (home.sessions, 0o775), (f"{home.path}/hub.token", 0o644)):
        os.chmod(path, mode)
    home.make()
    assert "other users could look into" in caplog.text
    assert stat.S_IMODE(os.stat(home.path).st_mode) == stat.S_IMODE(os.stat(home.sessions).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{home.path}/hub.token").st_mode) == 0o600
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644  # behind a link: not ours
    caplog.clear()
    home.make()
    assert not caplog.text
