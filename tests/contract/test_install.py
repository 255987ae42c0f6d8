"""What is built installs into a clean environment under its own name; the container files are sound."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = {
    "FROM",
    "WORKDIR",
    "COPY",
    "RUN",
    "ENV",
    "USER",
    "VOLUME",
    "EXPOSE",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
}


def build(source: Path, target: str, to: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL, timeout=300)
    (found,) = to.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from the sdist, as an installer builds it."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build(ROOT, "sdist", folder / "sdist")
    assert re.fullmatch(r"holdfast_hub-[0-9.]+\.tar\.gz", sdist.name)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return build(source, "wheel", folder / "wheel")


def test_the_distribution_is_holdfast_hub_and_its_command_holdfast(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
        commands = archive.read(next(n for n in names if n.endswith("/entry_points.txt"))).decode()
    assert "\nName: holdfast-hub\n" in about
    assert "holdfast = holdfast.cli.main:main" in commands


def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(clean)], check=True, timeout=120)
    installing = [sys.executable, "-m", "pip", "--python", str(clean / "bin/python"), "install", "--quiet"]
    subprocess.run([*installing, "--no-index", "--no-deps", str(wheel)], check=True, timeout=300)
    (packages,) = clean.glob("lib/python*/site-packages")
    # Its dependencies are those of this environment; a line of a .pth file reads no other .pth file, so
    # the Holdfast of this environment stays out of sight.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"}
    (tmp_path / "home").mkdir()

    def holdfast(*words: str) -> str:
        command = [str(clean / "bin/holdfast"), *words]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
        return done.stdout

    assert holdfast("--version").startswith("holdfast ")
    where = [str(clean / "bin/python"), "-c", "import holdfast; print(holdfast.__file__)"]
    told = subprocess.run(where, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.startswith(str(packages))
    assert "Done" in holdfast("run", "-a", "demo", "--no-hub", 'x <<[{"say":"Done"}]>>')
    assert [task["status"] for task in json.loads(holdfast("tasks", "--json"))] == ["succeeded"]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_dockerfile_is_sound() -> None:
    found = instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS
    for name, rest in found:
        if name == "FROM":
            assert re.match(r"[a-z]+:\d+\.\d+-[a-z-]+", rest), f"{rest}: pin it"
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
            kept = (ROOT / ".dockerignore").read_text().splitlines()
            assert all(f"!{source.removeprefix('./')}" in kept for source in sources)
        if name in ("ENTRYPOINT", "CMD", "VOLUME"):
            assert isinstance(json.loads(rest), list), f"{name}: a shell would not pass signals on"
        if name == "RUN":
            shell = shutil.which("sh")
            assert shell is not None
            subprocess.run([shell, "-n", "-c", rest], check=True)
    order = [name for name, _ in found]
    assert order.index("USER") < order.index("ENTRYPOINT") and ("USER", "holdfast") in found
    assert any(json.loads(rest)[0] == "tini" for name, rest in found if name == "ENTRYPOINT")


def test_the_compose_file_is_sound() -> None:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    hub, database = found["services"]["hub"], found["services"]["database"]
    assert hub["depends_on"]["database"]["condition"] == "service_healthy" and database["healthcheck"]
    assert all(port.startswith("127.0.0.1:") for port in hub["ports"]), "others need a proxy with TLS"
    for service in (hub, database):
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in found["volumes"]
        passwords = [value for name, value in service["environment"].items() if "PASSWORD" in name]
        assert passwords == ["${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD}"]
    from holdfast.home import Home
    from holdfast.store.location import locate

    assert locate(Home("/data"), hub["environment"]["HOLDFAST_STORE"]).kind == "postgres"


def has_docker() -> bool:
    if shutil.which("docker") is None or os.environ.get("HOLDFAST_NO_DOCKER"):
        return False
    done = subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


@pytest.mark.skipif(not has_docker(), reason="docker cannot run here")
def test_the_image_builds_and_runs() -> None:
    subprocess.run(["docker", "build", "--tag", "holdfast-hub:test", str(ROOT)], check=True, timeout=1200)
    words = ["docker", "run", "--rm", "holdfast-hub:test", "--version"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("holdfast ")
