"""A network namespace that has nothing but loopback, so that no test can reach a live API."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
from collections.abc import Sequence

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def command(words: Sequence[str]) -> list[str]:
    """`words`, to be run in a new namespace; OSError if the machine cannot."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise FileNotFoundError("unshare is missing (on Debian: apt install util-linux)")
    return [unshare, "-n" if os.geteuid() == 0 else "-rn", "--", *words]


def raise_loopback() -> None:
    """Loopback up in this process's namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def has_only_loopback() -> bool:
    """Whether this process can reach nothing but this machine."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]
