"""Send one notification: a signed webhook, ntfy, or a command."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from holdfast.notify.settings import Channel

TIMEOUT_S = 20.0
SIGNATURE = "X-Holdfast-Signature-256"
PRIORITY = {"asks": 4, "waits": 4, "login": 4, "died": 4, "failed": 3, "finished": 2}
TAGS = {"asks": "question", "login": "key", "died": "skull", "failed": "x", "finished": "white_check_mark"}


class NotSent(Exception):
    """A channel did not take a notification."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and lose the message."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def send(channel: Channel, id: str, body: dict[str, Any]) -> None:
    """Send it, in a thread that may wait; NotSent says why it was not taken."""
    match channel.kind:
        case "webhook":
            data = json.dumps({"id": id, **body}, ensure_ascii=False).encode()
            _post(channel.url, data, {SIGNATURE: signature(channel.secret, data), "X-Holdfast-Id": id})
        case "ntfy":
            headers = {"Authorization": f"Bearer {channel.token}"} if channel.token else {}
            base, message = ntfy_message(channel.url, body)
            _post(base, json.dumps(message, ensure_ascii=False).encode(), headers)
        case "command":
            _run(channel, id, body)


def signature(secret: str, data: bytes) -> str:
    """As GitHub signs its webhooks: HMAC-SHA256 of the body."""
    return "sha256=" + hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()


def ntfy_message(url: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The server's address and the message as ntfy's JSON; headers could hold only ASCII."""
    parts = urlsplit(url)
    above, _, topic = parts.path.rstrip("/").rpartition("/")
    message = {
        "topic": topic,
        "title": body["title"],
        "message": body["text"] or body["title"],
        "priority": PRIORITY[body["kind"]],
        "tags": [TAGS[body["kind"]]] if body["kind"] in TAGS else [],
    }
    if body.get("url"):
        message["click"] = body["url"]
    return f"{parts.scheme}://{parts.netloc}{above}/", message


def _post(url: str, data: bytes, headers: dict[str, str]) -> None:
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", "User-Agent": "holdfast", **headers}, method="POST"
    )
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            answer.read(1000)
    except urllib.error.HTTPError as refused:
        with refused:
            raise NotSent(f"it answered {refused.code} {refused.reason}") from None
    except (OSError, ValueError) as problem:
        raise NotSent(str(getattr(problem, "reason", problem))) from None


def _run(channel: Channel, id: str, body: dict[str, Any]) -> None:
    words = [os.path.expanduser(channel.command[0]), *channel.command[1:]]
    try:
        done = subprocess.run(
            words,
            input=json.dumps({"id": id, **body}, ensure_ascii=False).encode(),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotSent(str(problem)) from None
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotSent(f"it ended with {done.returncode}{': ' + last[:200] if last else ''}")
