"""A shell command that a tool call runs, in a session of its own."""

from __future__ import annotations

import os
import signal

MAX_OUTPUT = 30_000  # bytes of output that are reported; the middle of a longer output is left out
SHELL = "/bin/sh"


class ToolProcess:
    """A running or finished command: `exit` is None until it exits, then its status (-9: signal 9)."""

    def __init__(self, command: str, cwd: str):
        self.exit: int | None = None
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0
        self.fd, out = os.pipe()
        os.set_blocking(self.fd, False)
        try:
            os.chdir(cwd)  # posix_spawn takes no folder; nothing else here depends on ours
            self.pid = os.posix_spawn(
                SHELL,
                [SHELL, "-c", command],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, out, 1),
                    (os.POSIX_SPAWN_DUP2, out, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE],
            )
        except OSError:
            os.close(self.fd)
            raise
        finally:
            os.close(out)

    def poll(self) -> None:
        """Read its output and notice its exit, even if a process that it left behind holds the pipe."""
        if self.exit is not None:
            return
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        self._drain()
        if ended:
            self.exit = os.waitstatus_to_exitcode(status)
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1

    def signal(self, number: int) -> None:
        """Send a signal to it and its process group."""
        if self.exit is None:
            os.killpg(self.pid, number)

    @property
    def output(self) -> str:
        """Its output, without the middle if it is long."""
        between = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return bytes(self._first + between + self._last).decode(errors="replace")

    def _drain(self) -> None:
        for _ in range(16):  # a command that writes forever must not block us
            if self.fd < 0:
                return
            try:
                got = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            if not got:  # it closed its output, and may still run
                os.close(self.fd)
                self.fd = -1
                return
            self._keep(got)

    def _keep(self, got: bytes) -> None:
        room = MAX_OUTPUT // 2 - len(self._first)
        self._first += got[:room]
        self._last += got[room:]
        excess = len(self._last) - MAX_OUTPUT // 2
        if excess > 0:
            self._left_out += excess
            del self._last[:excess]
