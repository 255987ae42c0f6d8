"""Whether a delivery comes from who knows the secret."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Literal

Kind = Literal["github", "forgejo", "gitea"]

# In order; Forgejo still sends Gitea's headers beside its own.
_HEADERS: dict[Kind, tuple[str, ...]] = {
    "github": ("x-hub-signature-256",),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature"),
    "gitea": ("x-gitea-signature",),
}


def is_signed(kind: Kind, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the first signature that is there is that of the body; names of headers in lower case."""
    given = next((headers[name] for name in _HEADERS[kind] if name in headers), "")
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    expected = f"sha256={made}" if kind == "github" else made
    return hmac.compare_digest(expected.encode(), given.encode(errors="replace"))
