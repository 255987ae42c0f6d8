"""The environment of an agent: explicit, scrubbed, and marked so that its tools can be found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.process.table import MARK

# What any program needs to find its user, its language, its network and its temporary files.
COMMON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)


def environment(
    base: Mapping[str, str], keeps: Iterable[str], *given: Mapping[str, str], task: str, session: str
) -> dict[str, str]:
    """What is kept of `base`, what each of `given` sets over it, and the marks."""
    made = {name: value for name, value in base.items() if _kept(name, (*COMMON, *keeps))}
    for more in given:
        made.update(more)
    made["TERM"] = "dumb"
    made["HOLDFAST_SESSION"] = session
    made[MARK] = task
    return made


def _kept(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)
