"""Every hole that a hapi session can have, by hapi's own rules; with what must be said of it, and set."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.hapi_builder import Made, Said

HOST = "the host of all of them"
PATH = "/home/dev/proj"


class Hole(NamedTuple):
    """One session, and what is true about it."""

    made: Made
    codes: tuple[str, ...]
    sets: dict[str, str] | None = None  # None: it is left alone
    since: int = 1  # the schema from which on hapi can tell


def uuid(number: int) -> str:
    """One id for each number."""
    return f"7c1a7b1e-0000-4000-8000-{number:012d}"


def prompt(text: str = "please do it", **how: Any) -> Said:
    """What a user asks."""
    return Said({"role": "user", "content": {"type": "text", "text": text}}, **how)


def claude(number: int | None, **more: Any) -> Said:
    """A line of Claude's own, long enough to be compressed."""
    said = {"content": [{"type": "text", "text": "done " * 80}]}
    data = {"type": "assistant", "message": said, **more}
    if number is not None:
        data["sessionId"] = uuid(number)
    return Said({"role": "agent", "content": {"type": "output", "data": data}})


def codex(**data: Any) -> Said:
    """What hapi stores of all other agents."""
    told = {"type": "message", "message": "done", **data}
    return Said({"role": "agent", "content": {"type": "codex", "data": told}})


def event(text: str) -> Said:
    """What hapi itself tells in a session."""
    return Said({"role": "agent", "content": {"type": "event", "data": {"type": "message", "message": text}}})


def of(flavor: str | None = "claude", **more: Any) -> dict[str, Any]:
    """Metadata as a wrapper writes it."""
    known = {"path": PATH, "host": HOST, "version": "0.30.7", "os": "linux", "hostPid": 4_000_000}
    return {**known, **({"flavor": flavor} if flavor else {}), **more}


TALK = (prompt(), codex())
FLAVORS = ("codex", "cursor", "gemini", "opencode", "kimi", "copilot", "grok", "agy", "pi")
ATTEMPT = {"state": "resuming", "machineId": "m", "startedAt": 1}
NOTHING = ("[]", "7", "true", "null", '"oops"', "", None)
KEPT = (
    ' { "path" : "/p", "host":"the host of all of them","flavor":"claude",\n'
    '"big":123456789012345678901234567890,'
    '"e":1E2,"\\ud83d":"\\ud83d" , "claudeSessionId":null} '
)


def holes() -> dict[str, Hole]:
    """All of them, each with ids of its own."""
    found = {
        "sound": Hole(Made(of(claudeSessionId=uuid(1)), (prompt(), claude(1))), ()),
        "sound dsh": Hole(Made(of("dsh"), TALK), ()),
        "in messages": Hole(Made(of(), (prompt(), claude(2))), *missing(claudeSessionId=uuid(2))),
        "named twice": Hole(Made(of(), (claude(3), claude(3))), *missing(claudeSessionId=uuid(3))),
        "two ids": Hole(Made(of(), (claude(4), claude(5))), ("token_missing",)),
        "of a subagent": Hole(Made(of(), (claude(6, isSidechain=True),)), ("token_missing",)),
        "no uuid": Hole(Made(of(), (claude(None, sessionId="../../x"),)), ("token_missing",)),
        "sound elsewhere": Hole(Made(of(claudeSessionId=uuid(7)), (claude(7),)), ()),
        "held by another": Hole(Made(of(), (claude(7),)), ("token_missing",)),
        "wanted by two": Hole(Made(of(), (claude(8),)), ("token_missing",)),
        "wanted by two again": Hole(Made(of(), (claude(8),)), ("token_missing",)),
        "empty token": Hole(
            Made(of(claudeSessionId=""), (prompt(), claude(9))), *missing(claudeSessionId=uuid(9))
        ),
        "token null": Hole(
            Made(of(claudeSessionId=None), (prompt(), claude(10))), *missing(claudeSessionId=uuid(10))
        ),
        "parent thread": Hole(
            Made(of("codex"), (codex(scope_role="parent", thread_id=uuid(11)),)),
            *missing(codexSessionId=uuid(11)),
        ),
        "thread in its scope": Hole(
            Made(of("codex"), (codex(scope={"role": "parent", "threadId": uuid(12)}),)),
            *missing(codexSessionId=uuid(12)),
        ),
        "thread of old": Hole(
            Made(of("codex"), (codex(thread_id=uuid(13)),)), *missing(codexSessionId=uuid(13))
        ),
        "parent before others": Hole(
            Made(
                of("codex"),
                (
                    codex(scopeRole="parent", threadId=uuid(14)),
                    codex(thread_id=uuid(15), scope_role="child"),
                    codex(thread_id=uuid(16)),
                ),
            ),
            *missing(codexSessionId=uuid(14)),
        ),
        "child thread": Hole(
            Made(of("codex"), (codex(thread_id=uuid(17), scope_role="child"),)), ("token_missing",)
        ),
        "cleared": Hole(
            Made(of("codex"), (codex(thread_id=uuid(18)), event("Context was reset"))),
            ("token_cleared_on_purpose",),
        ),
        "cleared and begun anew": Hole(
            Made(
                of("codex"),
                (codex(thread_id=uuid(19)), event("Context was reset"), codex(thread_id=uuid(20))),
            ),
            *missing(codexSessionId=uuid(20)),
        ),
        "cleared and archived": Hole(
            Made(of(lifecycleState="archived", archiveReason="Cleared by /clear"), (prompt(), claude(21))),
            ("token_cleared_on_purpose",),
        ),
        "of another agent": Hole(
            Made(of(codexSessionId=uuid(22)), TALK), ("token_missing", "token_other_flavor")
        ),
        "of another agent too": Hole(
            Made(of(codexSessionId=uuid(23), claudeSessionId=uuid(24)), TALK), ("token_other_flavor",)
        ),
        "no flavor": Hole(
            Made(of(None, claudeSessionId=uuid(25)), TALK), ("metadata_no_flavor",), {"flavor": "claude"}
        ),
        "no flavor, one token": Hole(
            Made(of(None, kimiSessionId=uuid(26)), TALK),
            ("metadata_no_flavor",),
            {"flavor": "kimi"},
        ),
        "no flavor, and messages of another": Hole(
            Made(of(None, kimiSessionId=uuid(56)), (claude(57),)), ("metadata_no_flavor",)
        ),
        "no flavor, two tokens": Hole(
            Made(of(None, kimiSessionId=uuid(55), piSessionId="p2"), TALK),
            ("metadata_no_flavor", "token_missing", "token_other_flavor"),
        ),
        "no flavor and no token": Hole(
            Made(of(None), (claude(27),)),
            ("metadata_no_flavor", "token_missing"),
            {"flavor": "claude", "claudeSessionId": uuid(27)},
        ),
        "no path": Hole(
            Made({"host": HOST, "flavor": "claude", "claudeSessionId": uuid(28)}), ("metadata_no_path",)
        ),
        "empty path": Hole(Made(of(path="", claudeSessionId=uuid(29)), TALK), ("metadata_no_path",)),
        "no path but in messages": Hole(
            Made({"host": HOST, "flavor": "claude", "claudeSessionId": uuid(53)}, (claude(53, cwd=PATH),)),
            ("metadata_no_path",),
            {"path": PATH},
        ),
        "no path but a subagent's": Hole(
            Made(of(path="", claudeSessionId=uuid(54)), (claude(54), claude(54, cwd=PATH, isSidechain=True))),
            ("metadata_no_path",),
        ),
        "all but the messages": Hole(
            Made({"lifecycleState": "archived"}, (claude(30, cwd=PATH),)),
            ("metadata_no_path", "metadata_no_flavor", "token_missing"),
            {"claudeSessionId": uuid(30), "flavor": "claude", "path": PATH, "host": HOST},
        ),
        "two folders": Hole(
            Made({}, (claude(31, cwd=PATH), claude(31, cwd="/elsewhere"))),
            ("metadata_no_path", "metadata_no_flavor", "token_missing"),
            {"claudeSessionId": uuid(31), "flavor": "claude"},
        ),
        "unheard of": Hole(Made(of("unheard of"), TALK), ("flavor_unknown",)),
        "torn": Hole(Made('{"path":"/x","claudeSess', (claude(32),)), ("metadata_not_object",)),
        "an array of things": Hole(Made('[{"path":"/x"}]', (claude(33),)), ("metadata_not_object",)),
        "JSON in JSON": Hole(Made(json.dumps(json.dumps(of())), (claude(34),)), ("metadata_not_object",)),
        "too deep": Hole(
            Made('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", (claude(35),)), ("metadata_not_object",)
        ),
        "no UTF-8": Hole(Made(b'{"path":"\xff"}', (claude(36),)), ("metadata_not_object",)),
        "no protocol": Hole(Made(of("cursor", cursorSessionId=uuid(37)), TALK), ("cursor_protocol_missing",)),
        "odd protocol": Hole(
            Made(of("cursor", cursorSessionId=uuid(38), cursorSessionProtocol="new"), TALK),
            ("cursor_protocol_missing",),
        ),
        "sound cursor": Hole(
            Made(of("cursor", cursorSessionId=uuid(39), cursorSessionProtocol="stream-json"), TALK), ()
        ),
        "archived": Hole(
            Made(of(lifecycleState="archived", claudeSessionId=uuid(40)), TALK), ("archived_resumable",)
        ),
        "archived without": Hole(
            Made(of(lifecycleState="archived"), (claude(41),)), *missing(claudeSessionId=uuid(41))
        ),
        "ghost": Hole(Made(of(lifecycleState="running", claudeSessionId=uuid(42)), TALK), ("ghost_running",)),
        "never began": Hole(Made(of()), ("never_started",)),
        "attempt is over": Hole(
            Made(
                of("opencode", opencodeSessionId="ses_1", opencodeClearOperation={"state": "completed"}), TALK
            ),
            (),
        ),
        "resume failed": Hole(
            Made(
                of("kimi", kimiSessionId=uuid(43)),
                (*TALK, event("Kimi resume failed; starting a new session.")),
            ),
            ("token_replaced",),
        ),
        "swept": Hole(
            Made(of(claudeSessionId=uuid(44)), (*TALK, prompt(local_id="swept"))),
            ("prompt_without_reply",),
            since=8,
        ),
        "queued": Hole(
            Made(of(claudeSessionId=uuid(45)), (*TALK, prompt(local_id="waits", invoked=False))),
            ("prompt_queued",),
            since=8,
        ),
        "scheduled": Hole(
            Made(
                of(claudeSessionId=uuid(46)),
                (*TALK, prompt(local_id="later", invoked=False, scheduled=True)),
            ),
            ("prompt_scheduled",),
            since=9,
        ),
        "failed": Hole(
            Made(of("opencode", opencodeSessionId="ses_2"), (prompt(), codex(type="error"))),
            ("prompt_failed",),
        ),
        "no content": Hole(
            Made(of(claudeSessionId=uuid(47)), (Said('{"role":'), claude(47))), ("message_unreadable",)
        ),
        "replaced by nobody": Hole(
            Made(of("opencode", opencodeSessionId="ses_3", supersededBySessionId="nobody"), TALK),
            ("superseded_gone",),
        ),
        "merged": Hole(Made(of(claudeSessionId=uuid(48)), (prompt(ago=9999), claude(48))), ()),
        "merged without its token": Hole(Made(of(), (prompt(ago=9999), *TALK)), ("token_missing",)),
        "imported": Hole(
            Made(of("codex", codexSessionId=uuid(49), codexSourceSessionId="x"), (prompt(ago=9999),)), ()
        ),
        "unknown keys": Hole(
            Made(of(future={"deep": [[[{"a": None}]]] * 3}, zz=1.5), (claude(50),)),
            *missing(claudeSessionId=uuid(50)),
        ),
        "odd numbers": Hole(Made(KEPT, (claude(51),)), *missing(claudeSessionId=uuid(51))),
        "huge": Hole(Made(of(tools=["x" * 99] * 20_000), (claude(52),)), *missing(claudeSessionId=uuid(52))),
    }
    for number, text in enumerate(NOTHING):
        found[f"nothing {text!r}"] = Hole(
            Made(text, (prompt(), claude(60 + number, cwd=PATH))),
            ("metadata_not_object",),
            {"claudeSessionId": uuid(60 + number), "flavor": "claude", "path": PATH, "host": HOST},
        )
        found[f"nothing {text!r} at all"] = Hole(Made(text, TALK), ("metadata_not_object",))
    for flavor in FLAVORS:
        found[f"{flavor} without"] = Hole(Made(of(flavor), TALK), ("token_missing",))
    for key in ("piResumeAttempt", "ptyResumeAttempt", "opencodeClearOperation"):
        stuck = {"piSessionId": "p", key: ATTEMPT}
        found[key] = Hole(Made(of("pi", **stuck), TALK), ("stuck_attempt",))
    return found


def missing(**sets: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """A token that is missing and can be put back."""
    return ("token_missing",), sets
