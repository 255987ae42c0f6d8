"""The installer, with stand-ins for npm and pip: whole or not there, and a second call needs nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.agents import install

NPM = """#!/bin/sh
[ -z "$FAIL" ] || {{ echo "no such version" >&2; exit 1; }}
name=$(sed 's/.*"dependencies": {{"\\([^"]*\\)".*/\\1/' package.json)
version=$(sed 's/.*: "\\([^"]*\\)"}}}}$/\\1/' package.json)
mkdir -p "node_modules/$name"
echo "{{\\"version\\": \\"${{LIE:-$version}}\\"}}" > "node_modules/$name/package.json"
echo x >> {calls}
for program in {programs}; do
  mkdir -p "$(dirname "node_modules/$program")" && touch "node_modules/$program"
done
"""

PIP = """#!/bin/sh
[ -z "$FAIL_PIP" ] || {{ echo "no such wheel" >&2; exit 1; }}
echo "$@" >> {calls}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm and a pip of our own beside the system's tools; the file they note their calls in."""
    counted = tmp_path / "calls"
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    programs = " ".join(of.program for of in install.PACKAGES)
    npm.write_text(NPM.format(calls=counted, programs=programs))
    npm.chmod(stat.S_IRWXU)
    pip = npm.with_name("pip")
    pip.write_text(PIP.format(calls=counted))
    pip.chmod(stat.S_IRWXU)
    monkeypatch.setattr(install, "PIP", (str(pip), "-m", "pip"))
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOLDFAST_AGENTS", str(tmp_path / "cache"))
    return counted


def test_installs_once(calls: Path) -> None:
    assert all(new for *_, new in install.install_all())
    assert not any(new for *_, new in install.install_all())
    *npm, pip = calls.read_text().splitlines()
    assert npm == ["x"] * len(install.PACKAGES)
    assert pip.endswith(" cursor-sdk==1.1.0")
    assert os.path.isfile(install.program("claude-2.1.197"))
    assert install.main() == 0


def test_two_versions_of_one_package_are_two_folders(calls: Path) -> None:
    install.install_all()
    assert install.program("claude-2.1.197") != install.program("claude-2.1.325")


def test_a_failure_is_told_and_leaves_nothing_that_looks_whole(
    calls: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAIL", "1")
    assert install.main() == 1
    assert "no such version" in capsys.readouterr().err
    with pytest.raises(install.CannotInstall):
        install.program("node")
    monkeypatch.delenv("FAIL")
    assert install.main() == 0


def test_another_version_than_the_pinned_one_is_refused(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIE", "9.9.9")
    with pytest.raises(install.CannotInstall, match=r"npm brought 9\.9\.9"):
        install.install_all()


def test_a_missing_npm_is_named(calls: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(install.CannotInstall, match="apt install npm"):
        install.install_all()


def test_a_missing_sdk_is_a_failure(
    calls: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAIL_PIP", "1")
    assert install.main() == 1
    assert "cursor-sdk==1.1.0: pip ended with 1: no such wheel" in capsys.readouterr().err
    with pytest.raises(install.CannotInstall, match="not installed"):
        install.cursor_sdk()
