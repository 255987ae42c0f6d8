"""The node: one home on one machine, with a random id that is created once and stored in the home.

Sessions and task owners name the node, never the hostname: hosts are renamed, containers restart under
another name, and two machines can share one. The id starts with the hostname of its first day, so that
people can tell nodes apart.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import StoreUnreadable

if TYPE_CHECKING:
    from holdfast.home import Home

log = logging.getLogger(__name__)

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_CONTAINERS = (
    "/.dockerenv",
    "/run/.containerenv",
)  # their machine id is that of the image, or new every time
_LABEL = 40  # characters of a hostname in an id
_FIRST_LINE = 16 * 1024 * 1024  # most bytes of a mirror to read for the host of its session


class Node(NamedTuple):
    """This home on this machine."""

    id: str
    names: frozenset[str]  # its names in sessions: the id, and hostnames from older versions
    copy_of: tuple[str, ...] = ()  # the nodes whose home was copied to make this one
    private: bool = True  # the store is in this home (SQLite), so no other node owns its content

    def owns(self, host: str | None) -> bool:
        """Whether sessions with that host run here."""
        return host is None or host in self.names

    def runs_here(self, owner: str, *, has_spool: bool) -> bool:
        """Whether the process table of this machine can show the process of a task.

        Older versions recorded a hostname, which two machines may share. Then only the spool in this home
        proves that the task ran here.
        """
        if self.private:
            return owner not in self.copy_of
        return owner == self.id or (owner in self.names and has_spool and not self.copy_of)


class NodeFile(NamedTuple):
    """The content of the node file."""

    id: str
    machine: str  # empty: this machine has no id
    home: str  # where the home was
    inode: int  # of the home folder
    names: tuple[str, ...] = ()
    copy_of: tuple[str, ...] = ()

    def node(self, private: bool) -> Node:
        """The node for the rest of the program. A copy of a private store owns its copied content."""
        inherited = self.copy_of if private else ()
        return Node(self.id, frozenset((self.id, *self.names, *inherited)), self.copy_of, private)


def read(home: Home, *, private: bool) -> Node:
    """The node of a home, without writing. Before the first start it has only its hostname."""
    stored = _read(home)
    if stored is None:
        return Node("", frozenset(_old_hostnames(home)), (), private)
    return _checked(stored, home, private).node(private)


def ensure(home: Home, *, private: bool) -> Node:
    """The node of a home. Creates its file, and updates it if the home was moved or copied."""
    with _locked(home):
        stored = _read(home)
        checked = _new(home) if stored is None else _checked(stored, home, private)
        if checked != stored:
            _write(home, checked)
            if stored is not None and checked.id != stored.id:
                log.warning("%s", copied(checked.node(private)))
    return checked.node(private)


def forget(home: Home, names: list[str]) -> None:
    """Remove hostnames that belong to another node."""
    with _locked(home):
        stored = _read(home)
        if stored is not None:
            _write(home, stored._replace(names=tuple(name for name in stored.names if name not in names)))


def copied(node: Node) -> str:
    """The message about a copied home."""
    text = f"this home is a copy of node {node.copy_of[-1]}; it is node {node.id} now"
    if node.private:
        return f"{text}, and tasks that ran when it was copied are not taken over"
    return f"{text}, and the sessions of {node.copy_of[-1]} stay with that node"


def path_of(home: Home) -> str:
    """The path of the node file."""
    return os.path.join(home.path, "node")


def _new(home: Home) -> NodeFile:
    label = re.sub(r"[^A-Za-z0-9.-]+", "-", socket.gethostname()).strip("-.")[:_LABEL] or "node"
    return NodeFile(
        id=f"{label}-{os.urandom(8).hex()}",
        machine=_machine(),
        home=os.path.realpath(home.path),
        inode=os.stat(home.path).st_ino,
        names=tuple(sorted(_old_hostnames(home))),
    )


def _checked(stored: NodeFile, home: Home, private: bool) -> NodeFile:
    """The same node if the home is in its place, was moved or was restored; a new one in a copy."""
    machine, path, inode = _machine(), os.path.realpath(home.path), os.stat(home.path).st_ino
    elsewhere = bool(machine and stored.machine and machine != stored.machine)
    moved = path != stored.home and inode == stored.inode and not _has_original(stored)
    if not elsewhere and (path == stored.home or moved):
        return stored._replace(machine=machine or stored.machine, home=path, inode=inode)
    new = _new(home)
    names = stored.names if private else ()
    return new._replace(names=names, copy_of=(*stored.copy_of, stored.id))


def _has_original(stored: NodeFile) -> bool:
    """Whether the original home of a node file still exists."""
    from holdfast.home import Home

    try:
        original = _read(Home(stored.home))
    except StoreUnreadable:
        return True
    return original is not None and original.id == stored.id


def _old_hostnames(home: Home) -> set[str]:
    """The hostnames that sessions of this home recorded before there was a node file.

    Only sessions with a mirror in this home: on a shared database, those of other hosts have none here.
    """
    import glob

    here, names = socket.gethostname(), set()
    if os.path.exists(home.database):
        names.add(here)  # also without mirrors: such a store belongs to this home alone
    for path in glob.iglob(os.path.join(glob.escape(home.sessions), "*.jsonl")):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue  # a fifo would block until somebody writes to it
            with open(path, "rb") as file:
                body = json.loads(file.readline(_FIRST_LINE)).get("body") or {}
            imported = "hapi_session" in (body.get("metadata") or {})  # its host is what hapi recorded
            if isinstance(host := body.get("host"), str) and (host == here or not imported):
                names.add(host)
    return names


def _machine() -> str:
    """Identifies this machine, whatever its name. Empty if nothing does."""
    if any(os.path.exists(path) for path in _CONTAINERS):
        return ""
    for path in _MACHINE_IDS:
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            if text := file.read().strip():
                return _digest(text)
    return _digest(text) if (text := _host_uuid()) else ""


def _host_uuid() -> str:
    """MacOS."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "gethostuuid", None)
    if call is None:
        return ""
    uuid, wait = (ctypes.c_ubyte * 16)(), (ctypes.c_long * 2)(1, 0)
    return bytes(uuid).hex() if call(uuid, wait) == 0 else ""


def _digest(text: str) -> str:
    """machine-id(5) asks not to show the id itself."""
    import hashlib

    return hashlib.sha256(f"holdfast node {text}".encode()).hexdigest()[:32]


def _read(home: Home) -> NodeFile | None:
    path = path_of(home)
    try:
        with open(path, "rb") as file:
            data: dict[str, Any] = json.loads(file.read())
        return NodeFile(
            id=str(data["id"]),
            machine=str(data["machine"]),
            home=str(data["home"]),
            inode=int(data["inode"]),
            names=tuple(map(str, data["names"])),
            copy_of=tuple(map(str, data["copy_of"])),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise StoreUnreadable(
            f"{path} is damaged: {problem}",
            hint="restore it from a backup; if there is none, delete it, and this home becomes a new node",
        ) from None


def _write(home: Home, node: NodeFile) -> None:
    from holdfast import durable_io

    path = path_of(home)
    temp = durable_io.temp_name(path)
    durable_io.create(temp, [json.dumps(node._asdict(), indent=1).encode() + b"\n"])
    with durable_io.reported(path):
        durable_io.DISK.rename(temp, path)
        durable_io.DISK.sync_dir(home.path)


@contextlib.contextmanager
def _locked(home: Home) -> Iterator[None]:
    import fcntl

    from holdfast import durable_io

    path = f"{path_of(home)}.lock"
    with durable_io.reported(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
