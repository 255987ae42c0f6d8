"""The directory of one repair in our home: its intent, the bytes before and after, and its receipt.

`intent.json` is on disk, with all backups, before the repair touches a file. `receipt.json` ends the repair.
A directory with an intent and no receipt is an interrupted repair.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Literal, TypeVar

import msgspec

from holdfast import durable_io, errors, ids, timestamps
from holdfast.doctor.files import FileDigest
from holdfast.doctor.plan import PlannedAction, RowChange, RowCheck
from holdfast.home import Home

FOLDER = "doctor"
KIND = "r"  # the first letter of a receipt's id
RESERVE = "room"  # a file that reserves disk space for the receipt
T = TypeVar("T")


Kind = Literal["file", "database"]


class TouchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What one step touches: every file before and after."""

    kind: Kind
    path: str
    before: dict[str, FileDigest | None]  # by suffix; a plain file has only ""
    after: dict[str, FileDigest | None] | None = None  # None: unknown before the step runs
    findings: tuple[str, ...] = ()
    statements: list[RowChange] = []
    checks: list[RowCheck] = []


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair is going to do."""

    id: str
    at: str
    target: str
    path: str
    fingerprint: str
    actions: dict[str, str]  # finding id: what is done about it
    items: list[TouchedFile]


class ReceiptReport(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt as `--json` and the API show it."""

    target: str
    path: str
    receipt: str
    at: str
    fingerprint: str
    done: list[PlannedAction]
    kept: list[str]
    touched: list[str]
    problems: list[str]
    undo: str | None
    sealed: str | None


class UndoneReceipt(ReceiptReport, frozen=True, kw_only=True):
    """The receipt of a repair that was undone."""

    undone: bool = True


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did, and everything that an undo needs."""

    id: str
    at: str
    target: str
    path: str
    fingerprint: str
    actions: dict[str, str]
    items: list[TouchedFile]  # in the order of the intent, without the steps that were not done
    numbers: list[int]  # the position of each item in the intent
    problems: list[str] = []
    kept: list[str] = []  # other files that were set aside and stay there
    sealed: str | None = None  # why it cannot be undone, if it cannot

    def report(self) -> ReceiptReport:
        """What `--json` and the API show."""
        return ReceiptReport(
            target=self.target,
            path=self.path,
            receipt=self.id,
            at=self.at,
            fingerprint=self.fingerprint,
            done=[PlannedAction(finding, action) for finding, action in self.actions.items()],
            kept=self.kept,
            touched=[item.path for item in self.items],
            problems=self.problems,
            undo=None if self.sealed else f"holdfast doctor --undo {self.id}",
            sealed=self.sealed,
        )

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        value: dict[str, Any] = msgspec.to_builtins(self.report())
        return value


class OperationDir:
    """The directory of one repair."""

    def __init__(self, home: Home, name: str):
        if not _is_receipt_id(name):
            raise errors.BadInput(f"{name!r} is not the id of a receipt")
        self.id = name
        self.folder = os.path.join(home.path, FOLDER, name)

    @classmethod
    def new(cls, home: Home) -> OperationDir:
        """Create a new directory."""
        created = cls(home, ids.new(KIND))
        durable_io.make_folder(os.path.join(created.folder, "old"))
        durable_io.make_folder(os.path.join(created.folder, "new"))
        return created

    def old(self, number: int, suffix: str = "") -> str:
        """The path of the bytes before the repair."""
        return os.path.join(self.folder, "old", f"{number:06}{suffix}")

    def new_bytes(self, number: int) -> str:
        """The path of the bytes after the repair."""
        return os.path.join(self.folder, "new", f"{number:06}")

    def write_intent(self, intent: Intent) -> None:
        """Record the intent; from now on the repair may be found interrupted."""
        for part in ("old", "new"):
            durable_io.DISK.sync_dir(os.path.join(self.folder, part))
        data = msgspec.json.encode(intent)
        durable_io.create(os.path.join(self.folder, RESERVE), [b"\0" * (2 * len(data) + 65536)])
        durable_io.create(self._path("intent.json"), [data])

    def intent(self) -> Intent | None:
        """The recorded intent, if there is one."""
        return self._read("intent.json", Intent)

    def write_receipt(self, receipt: Receipt) -> None:
        """Record the receipt; the repair is finished."""
        self._remove(RESERVE)
        durable_io.create(self._path("receipt.json"), [msgspec.json.encode(receipt)])
        shutil.rmtree(os.path.join(self.folder, "new"), ignore_errors=True)

    def receipt(self) -> Receipt | None:
        """The receipt, if the repair finished."""
        return self._read("receipt.json", Receipt)

    def undoing(self) -> bool:
        """Whether an undo started."""
        return os.path.exists(self._path("undoing"))

    def undone(self) -> bool:
        """Whether the repair was undone."""
        return os.path.exists(self._path("undone.json"))

    def begin_undo(self) -> None:
        """Record that an undo starts; from now on it may be found interrupted."""
        if not self.undoing():
            durable_io.create(self._path("undoing"), [b""])

    def end_undo(self) -> None:
        """Record that every file is restored."""
        durable_io.create(self._path("undone.json"), [msgspec.json.encode({"at": timestamps.now()})])
        self._remove("undoing")

    def remove(self) -> None:
        """Remove the directory of a repair that touched nothing."""
        self._remove("intent.json")  # first: without it the rest does not count as a repair
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _remove(self, name: str) -> None:
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            return
        durable_io.DISK.sync_dir(self.folder)

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            with open(self._path(name), "rb") as file:
                return msgspec.json.decode(file.read(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as problem:
            raise errors.StoreUnreadable(f"{self._path(name)} cannot be read: {problem}", hint="") from None


def interrupted_operations(home: Home, path: str) -> list[tuple[OperationDir, Intent]]:
    """The interrupted repairs of one install, oldest first."""
    interrupted = []
    for operation in all_operations(home):
        intent = operation.intent()
        if intent is not None and intent.path == path and operation.receipt() is None:
            interrupted.append((operation, intent))
    return sorted(interrupted, key=lambda pair: pair[1].at)


def remove_unstarted(home: Home) -> None:
    """Remove the directories of repairs that were interrupted before their intent was recorded.

    Only the process that holds the doctor's lock may call it.
    """
    for operation in all_operations(home):
        if operation.intent() is None and operation.receipt() is None:
            operation.remove()


def all_operations(home: Home) -> list[OperationDir]:
    """All repairs of this home."""
    try:
        names = sorted(os.listdir(os.path.join(home.path, FOLDER)))
    except FileNotFoundError:
        return []
    return [OperationDir(home, name) for name in names if _is_receipt_id(name)]


def _is_receipt_id(name: str) -> bool:
    return name[:1] == KIND and ids.is_id("s" + name[1:], "s")
