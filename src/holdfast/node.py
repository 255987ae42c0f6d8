"""The node: one home on one machine, named by a random id that is made once and kept in the home.

Sessions and owners of tasks name the node, never the hostname: a host is renamed, a container comes back
under another name, and two machines share one. The id begins with the hostname of its first day, so that
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
_CONTAINERS = ("/.dockerenv", "/run/.containerenv")  # their machine id is the image's, or new every time
_LABEL = 40  # characters of a hostname in an id
_FIRST_LINE = 16 * 1024 * 1024  # bytes of a mirror that are read to learn the host of its session


class Node(NamedTuple):
    """This home on this machine."""

    id: str
    names: frozenset[str]  # how sessions of this home name it: the id, and hostnames of older versions
    copy_of: tuple[str, ...] = ()  # the nodes whose home was copied to make this one
    private: bool = True  # the store is in this home (SQLite), so nobody else can own what is in it

    def owns(self, host: str | None) -> bool:
        """Whether a session with that host is run here."""
        return host is None or host in self.names

    def runs_here(self, owner: str, *, has_spool: bool) -> bool:
        """Whether the process that drives a task can be judged by this machine's process table.

        Older versions recorded a hostname, which two machines may share. Then only the spool in this home
        proves that the task ran here.
        """
        if self.private:
            return owner not in self.copy_of
        return owner == self.id or (owner in self.names and has_spool and not self.copy_of)


class NodeFile(NamedTuple):
    """The node file."""

    id: str
    machine: str  # empty: this machine has no id of its own
    home: str  # where the home was
    inode: int  # of the home's folder
    names: tuple[str, ...] = ()
    copy_of: tuple[str, ...] = ()

    def node(self, private: bool) -> Node:
        """As the rest of the program sees it; a copy of a private store owns what was copied with it."""
        inherited = self.copy_of if private else ()
        return Node(self.id, frozenset((self.id, *self.names, *inherited)), self.copy_of, private)


def read(home: Home, *, private: bool) -> Node:
    """The node as far as the home tells, without writing; before the first start: under its hostname."""
    found = _read(home)
    if found is None:
        return Node("", frozenset(_names_of_before(home)), (), private)
    return _checked(found, home, private).node(private)


def ensure(home: Home, *, private: bool) -> Node:
    """The node; its file is made if there is none, and renewed if the home was moved or copied."""
    with _locked(home):
        found = _read(home)
        checked = _new(home) if found is None else _checked(found, home, private)
        if checked != found:
            _write(home, checked)
            if found is not None and checked.id != found.id:
                log.warning("%s", copied(checked.node(private)))
    return checked.node(private)


def forget(home: Home, names: list[str]) -> None:
    """These hostnames turned out to be another node's."""
    with _locked(home):
        found = _read(home)
        if found is not None:
            _write(home, found._replace(names=tuple(name for name in found.names if name not in names)))


def copied(node: Node) -> str:
    """The message for a person whose home was copied."""
    text = f"this home is a copy of node {node.copy_of[-1]}; it is node {node.id} now"
    if node.private:
        return f"{text}, and tasks that ran when it was copied are not taken over"
    return f"{text}, and the sessions of {node.copy_of[-1]} stay with that node"


def path_of(home: Home) -> str:
    """The node file."""
    return os.path.join(home.path, "node")


def _new(home: Home) -> NodeFile:
    label = re.sub(r"[^A-Za-z0-9.-]+", "-", socket.gethostname()).strip("-.")[:_LABEL] or "node"
    return NodeFile(
        id=f"{label}-{os.urandom(8).hex()}",
        machine=_machine(),
        home=os.path.realpath(home.path),
        inode=os.stat(home.path).st_ino,
        names=tuple(sorted(_names_of_before(home))),
    )


def _checked(found: NodeFile, home: Home, private: bool) -> NodeFile:
    """The same node where it was, was moved or was restored; another one in a copy."""
    machine, path, inode = _machine(), os.path.realpath(home.path), os.stat(home.path).st_ino
    elsewhere = bool(machine and found.machine and machine != found.machine)
    moved = path != found.home and inode == found.inode and not _is_original(found)
    if not elsewhere and (path == found.home or moved):
        return found._replace(machine=machine or found.machine, home=path, inode=inode)
    new = _new(home)
    names = found.names if private else ()
    return new._replace(names=names, copy_of=(*found.copy_of, found.id))


def _is_original(found: NodeFile) -> bool:
    """Whether the home that a node file was made in is still there, beside its copy."""
    from holdfast.home import Home

    try:
        there = _read(Home(found.home))
    except StoreUnreadable:
        return True
    return there is not None and there.id == found.id


def _names_of_before(home: Home) -> set[str]:
    """The hostnames under which this home's sessions were recorded before there was a node file.

    Only what this home has a mirror of: on a shared database, sessions of other hosts have none here.
    """
    import glob

    here, names = socket.gethostname(), set()
    if os.path.exists(home.database):
        names.add(here)  # also without mirrors: such a store is this home's alone
    for path in glob.iglob(os.path.join(glob.escape(home.sessions), "*.jsonl")):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue  # a fifo would block for as long as nobody writes to it
            with open(path, "rb") as file:
                body = json.loads(file.readline(_FIRST_LINE)).get("body") or {}
            imported = "hapi_session" in (body.get("metadata") or {})  # its host is what hapi recorded
            if isinstance(host := body.get("host"), str) and (host == here or not imported):
                names.add(host)
    return names


def _machine() -> str:
    """What tells this machine from others, whatever its name; empty where nothing does."""
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
    found, wait = (ctypes.c_ubyte * 16)(), (ctypes.c_long * 2)(1, 0)
    return bytes(found).hex() if call(found, wait) == 0 else ""


def _digest(text: str) -> str:
    """machine-id(5) asks not to show the id itself."""
    import hashlib

    return hashlib.sha256(f"holdfast node {text}".encode()).hexdigest()[:32]


def _read(home: Home) -> NodeFile | None:
    path = path_of(home)
    try:
        with open(path, "rb") as file:
            told: dict[str, Any] = json.loads(file.read())
        return NodeFile(
            id=str(told["id"]),
            machine=str(told["machine"]),
            home=str(told["home"]),
            inode=int(told["inode"]),
            names=tuple(map(str, told["names"])),
            copy_of=tuple(map(str, told["copy_of"])),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise StoreUnreadable(
            f"{path} is damaged: {problem}",
            hint="put it back from a backup; if there is none, delete it, and this home is a new node",
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
