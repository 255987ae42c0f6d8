"""The processes of a task: those below its agent, and those that left it behind."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from holdfast.process import identity

MARK = "HOLDFAST_TASK"  # in the environment of an agent and so of all that it starts
COMMAND_LIMIT = 500


class Process(NamedTuple):
    """One process at one look."""

    pid: int
    ppid: int
    started: float
    session: int
    command: str


Table = Mapping[int, Process]


def table() -> dict[int, Process]:
    """One look at all processes; zombies are none."""
    if not identity.HAS_PROC:
        from holdfast.process import psutil_backend

        return {p.pid: Process(*p._replace(command=readable(p.command))) for p in psutil_backend.look()}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (stat := identity.stat_of(int(name))) is not None and not stat.gone:
            command = _command(stat.pid) or f"[{stat.name}]"
            found[stat.pid] = Process(stat.pid, stat.ppid, stat.started, stat.session, command)
    return found


def descendants(table: Table, pid: int) -> list[Process]:
    """Its children, theirs, and so on, parents before children."""
    return below(table, [table[pid]]) if pid in table else []


def below(table: Table, roots: Iterable[Process], but: Collection[int] = ()) -> list[Process]:
    """All descendants of the roots, without those in `but` and what is below these."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process)
    found: dict[int, Process] = {}
    waiting = [p for p in roots if _same(table, p)]
    seen = {p.pid for p in waiting}
    for parent in waiting:  # grows while it is walked
        for child in children.get(parent.pid, ()):
            # A table is not read in one instant: what is older than its parent is not its child.
            if child.pid not in seen and child.pid not in but and child.started >= parent.started:
                seen.add(child.pid)
                found[child.pid] = child
                waiting.append(child)
    return list(found.values())


def marked(table: Table, task: str) -> list[Process]:
    """Those that carry the task's mark; one whose environment will not be read is left out."""
    return [table[pid] for pid, mark in marks(table).items() if mark == task]


def marks(table: Table, name: str = MARK) -> dict[int, str]:
    """What each process has in that variable of its environment: by default, the task that it belongs to."""
    found = {}
    for process in table.values():
        value = _variable(process.pid, name)
        # Asked after its environment: if it is still the same one, it was the one that was read.
        if value is not None and identity.started(process.pid) == process.started:
            found[process.pid] = value
    return found


def survivors(task: str, known: Iterable[Process], but: Collection[int] = ()) -> list[Process]:
    """What runs now of a task: marked, known from before, of a session they lead, or below any of these.

    `known` are processes seen in this boot, the shim among them. What carries another task's mark is that
    task's (an agent may run Holdfast itself), and we never name ourselves.
    """
    now = table()
    return belonging(now, marks(now), task, known, {*but, os.getpid()})


def belonging(
    table: Table, marks: Mapping[int, str], task: str, known: Iterable[Process], but: Collection[int]
) -> list[Process]:
    """The decision behind `survivors`."""
    known = list(known)
    others = {pid for pid, mark in marks.items() if mark != task}
    roots = {pid: table[pid] for pid, mark in marks.items() if mark == task and pid in table}
    roots.update((p.pid, table[p.pid]) for p in known if _same(table, p) and p.pid not in others)
    sessions = {p.pid for p in [*known, *roots.values()] if p.pid == p.session and _leads(table, p)}
    roots.update((p.pid, p) for p in table.values() if p.session in sessions and p.pid not in others)
    found = roots | {p.pid: p for p in below(table, roots.values(), others)}
    return [p for p in found.values() if p.pid not in but]


def readable(command: str) -> str:
    """A command line as one short line of text."""
    if not command.isprintable():
        command = "".join(c if c.isprintable() else " " for c in command)
    line = " ".join(command.split())
    return line if len(line) <= COMMAND_LIMIT else line[: COMMAND_LIMIT - 1] + "…"


def _same(table: Table, process: Process) -> bool:
    now = table.get(process.pid)
    return now is not None and now.started == process.started


def _leads(table: Table, leader: Process) -> bool:
    """Whether that session is still the one it led: its number is not given away while it has members."""
    return leader.pid not in table or _same(table, leader)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            raw = file.read(4 * COMMAND_LIMIT)
    except OSError:
        return ""
    return readable(raw.replace(b"\0", b" ").decode(errors="replace"))


def _variable(pid: int, wanted: str) -> str | None:
    if not identity.HAS_PROC:
        from holdfast.process import psutil_backend as elsewhere

        return elsewhere.variable(pid, wanted)
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            raw = file.read()
    except OSError:
        return None
    for entry in raw.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == wanted.encode():
            return value.decode(errors="replace")
    return None


# --- Processes known by what an agent put into their environment.


def marks_marked(name: str, value: str) -> list[int]:
    """The living processes, but this one, that were started with that variable."""
    return sorted(pid for pid, told in marks(table(), name).items() if told == value and pid != os.getpid())
