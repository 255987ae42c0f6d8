"""Fixtures of hapi databases, copied where they may be changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import apsw

from tests.support import paths

FIXTURES = paths.FIXTURES / "doctor/hapi"
ENDINGS = ("", "-wal", "-shm", "-journal")

CASES = sorted(str(p.relative_to(FIXTURES)) for p in FIXTURES.rglob("*.db"))
SOUND = [case for case in CASES if "too-new" not in case]


def copied(case: str, to: Path) -> Path:
    """A case in a folder of its own, as a hapi home has it."""
    to.mkdir(parents=True, exist_ok=True)
    for ending in ENDINGS:
        if (source := Path(f"{FIXTURES / case}{ending}")).exists():
            shutil.copyfile(source, to / f"hapi.db{ending}")
    return to / "hapi.db"


def expected(case: str) -> Any:
    path = FIXTURES / case
    beside = (
        path.with_name("expected.json") if path.parent.name == "hot" else path.with_suffix(".expected.json")
    )
    return json.loads(beside.read_text())


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def rows(path: Path, tmp: Path) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Every row of every table by its first column, read from a copy."""
    tmp.mkdir(parents=True, exist_ok=True)
    for ending in ENDINGS:
        (tmp / f"copy.db{ending}").unlink(missing_ok=True)
        if Path(f"{path}{ending}").exists():
            shutil.copyfile(f"{path}{ending}", tmp / f"copy.db{ending}")
    db = apsw.Connection(str(tmp / "copy.db"))
    try:
        tables = [t for (t,) in db.execute("select name from sqlite_schema where type = 'table'")]
        return {t: {repr(r[0]): r for r in db.execute(f"select * from {t}")} for t in tables}
    finally:
        db.close()


def session(path: Path, tmp: Path, name: str) -> dict[str, Any]:
    """One session's row by column."""
    tmp.mkdir(parents=True, exist_ok=True)
    for ending in ENDINGS:
        (tmp / f"copy.db{ending}").unlink(missing_ok=True)
        if Path(f"{path}{ending}").exists():
            shutil.copyfile(f"{path}{ending}", tmp / f"copy.db{ending}")
    db = apsw.Connection(str(tmp / "copy.db"))
    try:
        columns = [row[1] for row in db.execute("pragma table_info(sessions)")]
        (found,) = db.execute("select * from sessions where id = ?", (name,)).fetchall()
        return dict(zip(columns, found, strict=True))
    finally:
        db.close()
