"""One operation's folder in our home: what was meant, the bytes before and after, and the receipt.

`intent.json` is on disk, with all backups, before anything of the patient's is touched. `receipt.json`
ends the operation. A folder with the one and without the other is an operation that was cut short.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Literal, TypeVar

import msgspec

from holdfast import durable_io, errors, ids, timestamps
from holdfast.doctor.files import FileDigest
from holdfast.doctor.plan import RowChange, RowCheck
from holdfast.home import Home

FOLDER = "doctor"
KIND = "r"  # the first letter of a receipt's id
ROOM = "room"  # a file that keeps room on the disk for the receipt
T = TypeVar("T")


Kind = Literal["file", "database"]


class TouchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What one step touches: every file as it was, and as it is to be."""

    kind: Kind
    path: str
    before: dict[str, FileDigest | None]  # by ending; a plain file has only ""
    after: dict[str, FileDigest | None] | None = None  # None: not known before it is done
    findings: tuple[str, ...] = ()
    statements: list[RowChange] = []
    checks: list[RowCheck] = []


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation is going to do."""

    id: str
    at: str
    target: str
    path: str
    fingerprint: str
    actions: dict[str, str]  # finding id: what is done about it
    items: list[TouchedFile]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, and all that is needed to undo it."""

    id: str
    at: str
    target: str
    path: str
    fingerprint: str
    actions: dict[str, str]
    items: list[TouchedFile]  # in the order of the intent; of what was not done, nothing
    numbers: list[int]  # which of the intent's items they are
    problems: list[str] = []
    kept: list[str] = []  # what was put aside besides, and stays there
    sealed: str | None = None  # why it cannot be undone, if it cannot

    def as_json(self) -> dict[str, Any]:
        """As `--json` and the API show it."""
        return {
            "target": self.target,
            "path": self.path,
            "receipt": self.id,
            "at": self.at,
            "fingerprint": self.fingerprint,
            "done": [{"finding": f, "action": a} for f, a in self.actions.items()],
            "kept": self.kept,
            "touched": [item.path for item in self.items],
            "problems": self.problems,
            "undo": None if self.sealed else f"holdfast doctor --undo {self.id}",
            "sealed": self.sealed,
        }


class OperationDir:
    """The folder of one operation."""

    def __init__(self, home: Home, name: str):
        if not ids.is_id("s" + name[1:], "s") or name[:1] != KIND:
            raise errors.BadInput(f"{name!r} is no receipt's name")
        self.id = name
        self.folder = os.path.join(home.path, FOLDER, name)

    @classmethod
    def new(cls, home: Home) -> OperationDir:
        """A fresh one, whose folder is made."""
        case = cls(home, ids.new(KIND))
        durable_io.make_folder(os.path.join(case.folder, "old"))
        durable_io.make_folder(os.path.join(case.folder, "new"))
        return case

    def old(self, number: int, ending: str = "") -> str:
        """Where the bytes before are kept."""
        return os.path.join(self.folder, "old", f"{number:06}{ending}")

    def new_bytes(self, number: int) -> str:
        """Where the bytes to be are kept."""
        return os.path.join(self.folder, "new", f"{number:06}")

    def write_intent(self, intent: Intent) -> None:
        """From now on the operation may be found half done."""
        for part in ("old", "new"):
            durable_io.DISK.sync_dir(os.path.join(self.folder, part))
        data = msgspec.json.encode(intent)
        durable_io.create(os.path.join(self.folder, ROOM), [b"\0" * (2 * len(data) + 65536)])
        durable_io.create(self._name("intent.json"), [data])

    def intent(self) -> Intent | None:
        """What was meant, if that much was written."""
        return self._read("intent.json", Intent)

    def write_receipt(self, receipt: Receipt) -> None:
        """The operation is over."""
        self._drop(ROOM)
        durable_io.create(self._name("receipt.json"), [msgspec.json.encode(receipt)])
        shutil.rmtree(os.path.join(self.folder, "new"), ignore_errors=True)

    def receipt(self) -> Receipt | None:
        """What was done, if it came to an end."""
        return self._read("receipt.json", Receipt)

    def undoing(self) -> bool:
        """Whether an undo has begun."""
        return os.path.exists(self._name("undoing"))

    def undone(self) -> bool:
        """Whether it was undone."""
        return os.path.exists(self._name("undone.json"))

    def begin_undo(self) -> None:
        """From now on the undo may be found half done."""
        if not self.undoing():
            durable_io.create(self._name("undoing"), [b""])

    def end_undo(self) -> None:
        """All is as it was."""
        durable_io.create(self._name("undone.json"), [msgspec.json.encode({"at": timestamps.now()})])
        self._drop("undoing")

    def remove(self) -> None:
        """As if it had never been: for an operation that has touched nothing."""
        self._drop("intent.json")  # first: without it nobody takes the rest for an operation
        shutil.rmtree(self.folder, ignore_errors=True)

    def _name(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _drop(self, name: str) -> None:
        try:
            os.unlink(self._name(name))
        except FileNotFoundError:
            return
        durable_io.DISK.sync_dir(self.folder)

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            with open(self._name(name), "rb") as file:
                return msgspec.json.decode(file.read(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as problem:
            raise errors.StoreUnreadable(f"{self._name(name)} cannot be read: {problem}", hint="") from None


def interrupted_operations(home: Home, path: str) -> list[tuple[OperationDir, Intent]]:
    """The operations on that install that were cut short, the oldest first."""
    found = []
    for case in all_operations(home):
        intent = case.intent()
        if intent is not None and intent.path == path and case.receipt() is None:
            found.append((case, intent))
    return sorted(found, key=lambda pair: pair[1].at)


def remove_unstarted(home: Home) -> None:
    """Take away what operations left that were cut short before they had begun; for the one at work."""
    for case in all_operations(home):
        if case.intent() is None and case.receipt() is None:
            case.remove()


def all_operations(home: Home) -> list[OperationDir]:
    """All operations of this home."""
    try:
        names = sorted(os.listdir(os.path.join(home.path, FOLDER)))
    except FileNotFoundError:
        return []
    return [OperationDir(home, name) for name in names if name[:1] == KIND and ids.is_id("s" + name[1:], "s")]
