"""The brief: the text that tells a fresh run about the interrupted one; bounded, and made of records only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.git.commands import Changes
from holdfast.model.event import Event
from holdfast.model.task import Task
from holdfast.resume.environment import LiveProcess

NAMED = 4  # earlier prompts that a brief names


class BriefCall(msgspec.Struct):
    """One tool call and how it ended; `interrupted`: nobody knows."""

    name: str
    input: Any
    outcome: str = "interrupted"
    refused: bool = False  # it was asked for and never allowed, so it has not run


class InterruptedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that did not come to its end, and what is left of it."""

    session: str
    task: str | None  # None: a turn that Holdfast did not run
    status: str
    reason: str | None
    asked: str
    before: tuple[str, ...] = ()  # what was asked before, in this session and those that it goes on from
    left_out: int = 0  # prompts between the first of these and the others
    calls: tuple[BriefCall, ...] = ()
    said: str | None = None  # its last words
    running: tuple[LiveProcess, ...] = ()
    folder: str | None = None
    changes: Changes | None = None  # None: no git there


class EarlierPrompts(msgspec.Struct, frozen=True):
    """The prompts before the last one: the first, the latest and their number, however many there were."""

    first: str | None = None
    latest: tuple[str, ...] = ()  # oldest first, at most NAMED
    count: int = 0

    def after(self, older: EarlierPrompts) -> EarlierPrompts:
        """These and the ones before them."""
        first = older.first if older.count else self.first
        return EarlierPrompts(first, (*older.latest, *self.latest)[-NAMED:], older.count + self.count)

    def named(self) -> tuple[str, ...]:
        """The prompts that a brief names: the first, which is likely the task itself, and the latest."""
        if self.first is None or self.count <= NAMED:
            return self.latest
        return (self.first, *self.latest[1 - NAMED :])


def interrupted_task(
    task: Task,
    before: Sequence[str],
    events: Iterable[Event],
    *,
    left_out: int = 0,
    running: tuple[LiveProcess, ...] = (),
    folder: str | None = None,
    changes: Changes | None = None,
) -> InterruptedRun:
    """The story of a task; `before`: earlier prompts, `events`: may be those of its whole session.

    `left_out`: how many prompts are missing behind the first of `before`.
    """
    own = (event for event in events if event.task == task.id)
    calls, said = _collect(_from_prompt(own, task.prompt))
    return InterruptedRun(
        session=task.session,
        task=task.id,
        status=task.status,
        reason=task.reason,
        asked=task.prompt,
        before=tuple(before),
        left_out=left_out,
        calls=calls,
        said=said,
        running=running,
        folder=folder,
        changes=changes,
    )


def replayed_turn(
    session: str,
    events: Sequence[Event],
    reason: str | None,
    *,
    running: tuple[LiveProcess, ...] = (),
    folder: str | None = None,
    changes: Changes | None = None,
) -> InterruptedRun | None:
    """The story of a turn that Holdfast did not run, from the end of a log; None if it has no such turn.

    It is there if the last prompt of the log was replayed and belongs to no task.
    """
    prompts = [number for number, event in enumerate(events) if event.kind == "user"]
    if not prompts or not events[prompts[-1]].replayed or events[prompts[-1]].task is not None:
        return None
    calls, said = _collect(events[prompts[-1] :])
    asked = [str(events[number].body.get("text")) for number in prompts]
    return InterruptedRun(
        session=session,
        task=None,
        status="cut short",
        reason=reason,
        asked=asked[-1],
        before=tuple(asked[:-1]),
        calls=calls,
        said=said,
        running=running,
        folder=folder,
        changes=changes,
    )


def _from_prompt(events: Iterable[Event], prompt: str) -> Iterator[Event]:
    """A task's events from its prompt on; the past of its conversation is replayed before that."""
    started = False
    for event in events:
        is_prompt = event.kind == "user" and (not event.replayed or prompt in str(event.body.get("text")))
        started = started or is_prompt
        if started or not event.replayed:
            yield event


def _collect(events: Iterable[Event]) -> tuple[tuple[BriefCall, ...], str | None]:
    """The tool calls of a turn, and its last words."""
    calls: dict[str, BriefCall] = {}
    waiting: dict[str, str] = {}  # asks that nobody has answered: their calls
    said = None
    for event in events:
        body = event.body
        call = str(body.get("call"))
        if event.kind == "tool_progress":
            calls[call] = BriefCall(str(body.get("name")), body.get("input"))
        elif event.kind == "tool_summary" and call in calls:
            calls[call].outcome = str(body.get("outcome"))
        elif event.kind == "assistant":
            said = str(body.get("text"))
        elif event.kind == "permission" and body.get("answer") is None:
            waiting[str(body.get("ask"))] = call
        elif event.kind == "permission" and body.get("answer") == "allow":
            waiting.pop(str(body.get("ask")), None)
    for call in waiting.values():
        if call in calls:
            calls[call].refused = True
    return tuple(calls.values()), said


# --- The brief: the text that tells a fresh run about the interrupted one; bounded, and made of records only.

LIMIT = 6000  # characters of a brief
_ASKED, _SAID, _CALL = 1200, 600, 160  # characters of one of each
_CALLS, _HALF, _PATHS, _PROCESSES = 12, 8, 15, 8  # how many are named

BEGINS = "[Holdfast: an earlier run of this work was cut short; you do not remember it. This is known of it.]"
ENDS = "[Holdfast: end of the brief. What you are asked to do follows.]"


def brief(story: InterruptedRun) -> str:
    """The text at the head of a fresh run's prompt."""
    parts = [
        BEGINS,
        f"{_subject(story)} was {_ended(story)}.",
        _section("What it was asked", [_quoted(story.asked, _ASKED)]),
        _section("Asked before that", _some(story.before, NAMED, 300, story.left_out)),
        _section("What it did", _done(story)),
        _section("What may be half done; nobody knows how these ended", _half(story)),
        _section("Its last words", [_quoted(story.said, _SAID)] if story.said else []),
        _section("Processes of it that still run", _listed(story.running, _PROCESSES, lambda p: p.shown())),
        _section(f"The state of {story.folder}", _state(story)),
        _section("Check first", [f"{n}. {what}" for n, what in enumerate(_checks(story), 1)]),
    ]
    text = "\n\n".join(part for part in parts if part)
    room = LIMIT - len(ENDS) - 4
    return (text if len(text) <= room else text[: room - 1] + "…") + f"\n\n{ENDS}"


def with_prompt(text: str, prompt: str) -> str:
    """A prompt with its brief."""
    return f"{text}\n\n{prompt}"


def _subject(story: InterruptedRun) -> str:
    if story.task is None:
        return f"The last turn of session {story.session}, which another program ran,"
    return f"Task {story.task} of session {story.session}"


def _ended(story: InterruptedRun) -> str:
    why = f": {_line(story.reason, 300)}" if story.reason else ""
    return ("cut short" if story.status == "running" else story.status) + why


def _done(story: InterruptedRun) -> list[str]:
    ended = [call for call in story.calls if call.outcome != "interrupted"]
    shown = [f"- {_named(call)}: {call.outcome}" for call in ended[-_CALLS:]]
    left_out = len(ended) - len(shown)
    first = [f"- {left_out} calls before these"] if left_out else []
    return [*first, *shown] or (["- no tool call of it has ended"] if not story.said else [])


def _half(story: InterruptedRun) -> list[str]:
    shown = []
    cut = [call for call in story.calls if call.outcome == "interrupted"]
    for call in cut[-_HALF:]:
        if call.refused:
            shown.append(f"- {_named(call)}: it waited for a permission, and has not run")
        else:
            shown.append(f"- {_named(call)}: {_process(call, story)}")
    return shown


def _process(call: BriefCall, story: InterruptedRun) -> str:
    command = call.input.get("command") if isinstance(call.input, dict) else None
    ours = [
        process
        for process in story.running
        if isinstance(command, str) and " ".join(command.split())[:60] in process.command
    ]
    if ours:
        return f"still runs as {', '.join(process.shown() for process in ours[:3])}"
    return "processes of that run are still there" if story.running else "no process of it runs any more"


def _state(story: InterruptedRun) -> list[str]:
    changes = story.changes
    if changes is None:
        return [] if story.folder is None else ["It is not in git, so what was changed cannot be told."]
    if changes.problem is not None:
        return [f"git could not be asked: {_line(changes.problem, 200)}"]
    where = f"On {changes.branch or 'no branch'} at {(changes.head or 'no commit')[:12]}."
    if changes.clean:
        return [f"{where} Nothing is uncommitted."]
    lines = [where]
    for what, paths in (("Changed", changes.changed), ("Untracked", changes.untracked)):
        if paths:
            lines.append(f"{what}: {_paths(paths)}")
    return lines


def _checks(story: InterruptedRun) -> Iterator[str]:
    if story.running:
        yield "whether the processes above are still needed; do not start the same again beside them"
    if any(call.outcome == "interrupted" and not call.refused for call in story.calls):
        yield "what the half-done calls have already changed, before any of them is repeated"
    if story.changes is not None and not story.changes.clean:
        yield "the uncommitted changes: they are likely the work of that run"
    yield "what of the task is done already; then go on from there"


# --- bounded words


def _section(title: str, lines: Iterable[str]) -> str:
    found = list(lines)
    return "\n".join([f"{title}:", *found]) if found else ""


def _some(texts: tuple[str, ...], most: int, length: int, left_out: int) -> list[str]:
    """The first, which is likely the task itself, and the last ones."""
    shown = [f"- {_line(text, length)}" for text in texts]
    hidden = max(len(shown) - most, 0) + left_out
    return [shown[0], f"- {hidden} more", *shown[1 - most :]] if hidden else shown


def _listed(items: Iterable[Any], most: int, name: Any) -> list[str]:
    found = list(items)
    shown = [f"- {name(item)}" for item in found[:most]]
    return [*shown, f"- and {len(found) - most} more"] if len(found) > most else shown


def _paths(paths: Iterable[str]) -> str:
    found = sorted(paths)
    more = f" and {len(found) - _PATHS} more" if len(found) > _PATHS else ""
    return ", ".join(_line(path, 120) for path in found[:_PATHS]) + more


def _named(call: BriefCall) -> str:
    given = call.input
    if isinstance(given, dict):
        given = next((given[key] for key in ("command", "cmd", "file_path", "path") if given.get(key)), given)
    shown = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return f"{_line(call.name, 60)} {_line(shown, _CALL)}".rstrip()


def _quoted(text: str | None, limit: int) -> str:
    cut = _cut((text or "").strip(), limit)
    return "\n".join(f"> {line}" for line in cut.splitlines())


def _line(text: object, limit: int) -> str:
    return _cut(" ".join(str(text)[: 8 * limit].split()), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
