"""What is built to be installed has all that runs from the folder: page, SQL, everything."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.browser.hub_process import HubProcess

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=300)
    (found,) = folder.glob("*.whl")
    return found


def test_it_has_every_file(wheel: Path) -> None:
    there = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "holdfast").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        built = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = [name for name in archive.namelist() if ".dist-info/" in name]
    assert built == there
    assert {"holdfast/hub/page/index.html", "holdfast/store/queries.sql"} <= built
    assert any(name.endswith("licenses/LICENSE") for name in about)


def test_a_hub_from_it_serves_the_page(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    hub = HubProcess(str(tmp_path))
    hub.env["PYTHONPATH"] = str(installed)
    told = subprocess.run(
        [sys.executable, "-c", "import holdfast; print(holdfast.__file__)"],
        env=hub.env,
        cwd=hub.work,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.stdout.startswith(str(installed))
    hub.start()
    try:
        for name in ["", *(f"page/{name}" for name in os.listdir(SOURCE / "holdfast" / "hub" / "page"))]:
            asked = urllib.request.Request(
                f"{hub.url}/{name}", headers={"authorization": f"Bearer {hub.token}"}
            )
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert answer.status == 200 and answer.read()
        hub.ran("From a wheel.", [{"say": "One."}])
    finally:
        hub.stop()
