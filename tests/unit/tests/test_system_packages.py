"""The commands that install Chromium and unpack programs; those in PATH only log how they are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import system_packages as install

TOLD = 'echo "$0 $*" | sed "s,.*/,,"'


class Machine:
    """Folders with a PATH, and what was called in it."""

    def __init__(self, tmp: Path):
        self.bin = tmp / "bin"
        self.bin.mkdir()
        self.chromium = tmp / "chromium"
        self.log = tmp / "log"
        for name in ("env", "sed", "touch"):
            found = shutil.which(name)
            assert found
            (self.bin / name).symlink_to(found)

    def has(self, name: str, does: str) -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\n{TOLD} >> "{self.log}"\n{does}\n')
        path.chmod(0o755)

    @property
    def called(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setattr(install, "CHROMIUM", str(made.chromium))
    monkeypatch.setattr(install, "UNPACKED", {})
    monkeypatch.setattr(install, "FOLDER", tmp_path / "debian")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs it is not root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def installs(machine: Machine) -> str:
    quiet = '[ "$DEBIAN_FRONTEND" = noninteractive ] || exit 9'
    return f'{quiet}\ncase "$*" in *install*) touch "{machine.chromium}";; esac'


def test_nothing_is_run_where_it_is(machine: Machine) -> None:
    machine.chromium.touch()
    machine.has("apt-get", "exit 1")
    assert install.main() == 0
    assert machine.called == []


def test_as_root(machine: Machine) -> None:
    machine.has("apt-get", installs(machine))
    machine.has("sudo", "exit 1")
    assert install.main() == 0
    update, installed = machine.called
    assert update == "apt-get -qq -o DPkg::Lock::Timeout=300 update"
    assert "install -y --no-install-recommends chromium fonts-" in installed
    assert install.main() == 0 and len(machine.called) == 2  # a second time there is nothing to do


def test_through_sudo_which_asks_nobody(machine: Machine, nobody: None) -> None:
    machine.has("apt-get", installs(machine))
    machine.has("sudo", '[ "$1" = -n ] || exit 1; shift; exec "$@"')
    assert install.main() == 0
    assert [line.split()[0] for line in machine.called] == ["sudo", "apt-get", "sudo", "apt-get"]


def test_a_sudo_that_wants_a_password(
    machine: Machine, nobody: None, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.has("apt-get", installs(machine))
    machine.has("sudo", "echo a password is required >&2; exit 1")
    assert install.main() == 1
    told = capfd.readouterr().err
    assert "a password is required" in told and "the tests need chromium" in told


def test_neither_root_nor_sudo(machine: Machine, nobody: None, capfd: pytest.CaptureFixture[str]) -> None:
    machine.has("apt-get", installs(machine))
    assert install.main() == 1
    assert machine.called == []
    assert "needs root or sudo" in capfd.readouterr().err


def test_no_apt(machine: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    assert install.main() == 1
    assert "no apt-get" in capfd.readouterr().err


def test_lists_that_cannot_be_read_anew(machine: Machine) -> None:
    machine.has("apt-get", f'case "$*" in *update*) exit 100;; esac\n{installs(machine)}')
    assert install.main() == 0


def test_an_install_that_fails(machine: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    machine.has("apt-get", 'case "$*" in *install*) exit 100;; esac')
    assert install.main() == 1
    assert "exit status 100" in capfd.readouterr().err


def test_a_package_that_brings_something_else(machine: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    machine.has("apt-get", "exit 0")
    assert install.main() == 1
    assert "could not install" in capfd.readouterr().err


def test_a_program_is_unpacked_not_installed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packages are downloaded, and a command of its name starts it with its own libraries."""
    monkeypatch.setattr(install, "UNPACKED", {"greet": ("greet", "libgreet1")})
    machine.chromium.touch()
    machine.has("apt-get", 'case "$*" in *download*) : > a.deb;; esac')
    program = install.FOLDER / "usr" / "bin" / "greet"
    program.parent.mkdir(parents=True)
    machine.has("dpkg", f"echo 'echo hello $LD_LIBRARY_PATH' > {program}")
    program.write_text("")
    program.chmod(0o755)
    assert install.main() == 0
    assert machine.called[1].endswith("download greet libgreet1")
    command = install.find_program("greet")
    assert command == str(install.FOLDER / "bin" / "greet")
    assert (
        subprocess.check_output(["/bin/sh", command]).decode().startswith(f"hello {install.FOLDER}/usr/lib/")
    )
    assert install.main() == 0 and len(machine.called) == 3


def test_a_package_that_cannot_be_downloaded(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "UNPACKED", {"greet": ("greet",)})
    machine.chromium.touch()
    machine.has("apt-get", "exit 100")
    assert install.main() == 1
    assert "the tests need greet: apt-get could not download greet" in capfd.readouterr().err
