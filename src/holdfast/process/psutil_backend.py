"""Processes on platforms without /proc, through psutil."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

import psutil


class Seen(NamedTuple):
    """One process as psutil tells of it."""

    pid: int
    ppid: int
    started: float
    session: int
    command: str


def boot_id() -> str:
    """The name of this boot where it has one (macOS); elsewhere its moment must do."""
    if sys.platform == "darwin":
        libc = ctypes.CDLL(None, use_errno=True)
        text = ctypes.create_string_buffer(64)
        size = ctypes.c_size_t(len(text))
        if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0) == 0:
            return text.value.decode()
    return f"{psutil.boot_time():.0f}"


def started(pid: int) -> float | None:
    """Seconds since 1970, as the kernel noted them when it started."""
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return process.create_time()
    except (psutil.NoSuchProcess, ValueError):
        return None


def look() -> Iterator[Seen]:
    """All processes but zombies."""
    for process in psutil.process_iter():
        try:
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                continue
            start = process.create_time()
            try:
                words = process.cmdline()
            except psutil.AccessDenied:
                words = []
            command = " ".join(words) or f"[{process.name()}]"
            try:
                session = os.getsid(process.pid)
            except (ProcessLookupError, PermissionError):
                session = -1
            yield Seen(process.pid, process.ppid(), start, session, command)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def variable(pid: int, name: str) -> str | None:
    """A variable of a process's environment; None if it has none or will not be read."""
    try:
        return psutil.Process(pid).environ().get(name)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return None
