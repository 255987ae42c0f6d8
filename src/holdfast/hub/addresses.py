"""Which address do people on other machines open?"""

from __future__ import annotations

import socket

WILDCARDS = {"0.0.0.0": socket.AF_INET, "::": socket.AF_INET6, "": socket.AF_INET}
# Documentation addresses: to connect a datagram socket sends nothing, it only chooses a route.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


def is_wildcard(host: str) -> bool:
    """Whether a hub on this host listens on every address of the machine."""
    return host.strip("[]") in WILDCARDS


def network_url(host: str, port: int) -> str | None:
    """The address of a hub that listens everywhere, for other machines; None if there is no network."""
    family = WILDCARDS[host.strip("[]")]
    found = _routed(family) or (_routed(socket.AF_INET) if family == socket.AF_INET6 else None)
    if found is None:
        return None
    return f"http://[{found}]:{port}" if ":" in found else f"http://{found}:{port}"


def _routed(family: socket.AddressFamily) -> str | None:
    """The address by which this machine reaches others."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:  # fails where the kernel has no IPv6
            probe.connect((_ELSEWHERE[family], 9))
            found = str(probe.getsockname()[0])
    except OSError:
        return None
    return None if found.startswith("127.") or found == "::1" else found
