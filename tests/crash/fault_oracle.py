"""Judges a home after a fault campaign by its own reading of database, mirrors, spools, effects, agent store.

It shares no code with Holdfast: plain SQL, plain JSON and the ACP messages that the demo agent writes. So an
error in Holdfast's readers cannot hide one in its writers.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import gzip
import json
import os
import sqlite3
from typing import Any, NamedTuple

Row = dict[str, Any]

ENDED = ("succeeded", "failed", "interrupted", "cancelled")
WAITING = ("queued", "waiting")


class Promise(NamedTuple):
    """A prompt that Holdfast accepted."""

    task: str
    name: str  # a word that only this prompt contains
    effects: list[str]  # the lines that its tools append to the effects file, in order


class Run(NamedTuple):
    """What one launch of an agent wrote to its stdout."""

    folder: str
    steps: list[tuple[str, ...]]  # messages, starts and ends of calls, in order
    final: str | None  # the stop reason of the prompt's result, or "error"


class Home(NamedTuple):
    """Everything that is judged."""

    path: str
    effects: str  # the file that the tools append to
    agent_store: str  # the folder of the demo agent's own sessions


class Judged(NamedTuple):
    """What the oracle counted."""

    statuses: dict[str, int]
    events: int
    effects: int


def judge(home: Home, promises: list[Promise]) -> Judged:
    """Raise AssertionError unless all promises are kept."""
    sessions, tasks = read_database(os.path.join(home.path, "state.db"))
    check_tasks(tasks, promises)
    for session, log in sessions.items():
        check_log(session, log)
        check_mirror(home.path, session, log)
    effects = collections.Counter(read_lines(home.effects))
    unknown = set(effects) - {token for promise in promises for token in promise.effects}
    assert not unknown, f"effects that no prompt asked for: {sorted(unknown)}"
    taken = prompts_taken(home.agent_store)
    for promise in promises:
        task = tasks[promise.task]
        log = [row for row in sessions[task["session"]] if row["task"] == promise.task]
        with explained(promise, task, log):
            check_task(home.path, promise, task, log, effects, taken[promise.name])
    statuses = collections.Counter(row["status"] for row in tasks.values())
    return Judged(dict(statuses), sum(map(len, sessions.values())), effects.total())


@contextlib.contextmanager
def explained(promise: Promise, task: Row, log: list[Row]) -> Any:
    """Add the log to what went wrong."""
    try:
        yield
    except AssertionError as problem:
        told = [[row["seq"], row["kind"], row["replayed"], row["body"]] for row in log]
        shown = json.dumps(
            {"task": task["id"], "status": task["status"], "reason": task["reason"], "log": told}
        )
        raise AssertionError(f"{promise.name}: {problem}\n{shown}") from problem


def read_database(path: str) -> tuple[dict[str, list[Row]], dict[str, Row]]:
    """The log of every session, and all tasks."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        assert [tuple(row) for row in db.execute("pragma integrity_check")] == [("ok",)]
        names = {row["n"]: row["id"] for row in db.execute("select n, id from session")}
        counted = {row["id"]: row["seq"] for row in db.execute("select id, seq from session")}
        sessions: dict[str, list[Row]] = {name: [] for name in names.values()}
        for row in db.execute("select * from log order by n, seq"):
            sessions[names[row["n"]]].append({**row, "body": json.loads(row["body"])})
        tasks = {
            row["id"]: {**row, "session": names[row["n"]], "prompt": json.loads(row["prompt"])}
            for row in db.execute("select * from task")
        }
    for name, log in sessions.items():
        assert counted[name] == len(log), f"the header of {name} counts {counted[name]} of {len(log)} records"
    return sessions, tasks


def check_tasks(tasks: dict[str, Row], promises: list[Promise]) -> None:
    """Every accepted prompt is there, and no other."""
    promised = {promise.task for promise in promises}
    assert promised <= set(tasks), f"lost: {promised - set(tasks)}"
    assert set(tasks) <= promised, f"invented: {set(tasks) - promised}"


def check_log(session: str, log: list[Row]) -> None:
    """No gap, no double, and it ends with a whole commit."""
    seqs = [row["seq"] for row in log]
    assert seqs == list(range(1, len(log) + 1)), f"{session} has gaps: {seqs}"
    assert log[-1]["last"], f"{session} ends inside a commit"
    origins = [row["origin"] for row in log if row["origin"] is not None]
    assert len(set(origins)) == len(origins), f"{session} has a record of the agent's twice"


def check_mirror(home: str, session: str, log: list[Row]) -> None:
    """The mirror has exactly the records of the log."""
    with open(os.path.join(home, "sessions", session + ".jsonl"), "rb") as file:
        data = file.read()
    assert data.endswith(b"\n"), f"the mirror of {session} ends inside a line"
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    assert len(lines) == len(log), f"the mirror of {session} has {len(lines)} of {len(log)} records"
    for line, row in zip(lines, log, strict=True):
        same = ("seq", "kind", "at", "task", "spool", "body")
        assert [line[name] for name in same] == [row[name] for name in same], (session, line, row)
        assert line["session"] == session and line["replayed"] == bool(row["replayed"]), (session, line)
        assert ("crc" in line) == bool(row["last"]), f"{session}: a commit without checksum, or one too many"


def read_lines(path: str) -> list[str]:
    """The whole lines of a text file."""
    try:
        with open(path, "rb") as file:
            return [line.decode() for line in file.read().split(b"\n")[:-1]]
    except FileNotFoundError:
        return []


def prompts_taken(folder: str) -> collections.Counter[str]:
    """How often the agent recorded each prompt that it took, by the prompt's second word."""
    found: collections.Counter[str] = collections.Counter()
    for path in glob.glob(os.path.join(folder, "*.jsonl")):
        for line in read_lines(path):
            record = json.loads(line)
            if record["type"] == "prompt":
                found[record["text"].split()[1]] += 1
    return found


def check_task(
    home: str, promise: Promise, task: Row, log: list[Row], effects: collections.Counter[str], taken: int
) -> None:
    """It ran at most once, its log is what happened, and its status is true."""
    assert task["status"] in (*ENDED, *WAITING), "nothing runs any more, and it has no end"
    ops = [row["body"] for row in log if row["kind"] == "task"]
    assert [op["op"] for op in ops].count("queue") == 1, "queued other than once"
    statuses = [op["status"] for op in ops if op["op"] == "status"]
    assert (statuses[-1] if statuses else "queued") == task["status"], "the log and the task differ"
    assert sum(status in ENDED for status in statuses) == (task["status"] in ENDED), statuses
    generations = [op["generation"] for op in ops if op["op"] == "claim"]
    assert generations == sorted(set(generations)), f"claims out of order: {generations}"

    assert taken <= 1, f"the agent took the prompt {taken} times"
    assert (taken == 1) == (task["delivery"] == "accepted"), (
        f"taken {taken} times, delivery {task['delivery']}"
    )
    prompts = [row for row in log if row["kind"] == "user"]
    assert len(prompts) == taken, f"{len(prompts)} prompts in the log, taken {taken} times"

    runs = read_runs(home, promise.task)
    spoke = [run for run in runs if run.steps or run.final]
    assert len(spoke) <= 1, f"several launches ran the prompt: {[run.folder for run in spoke]}"
    assert taken or not spoke, "it ran without having the prompt"
    run = spoke[0] if spoke else Run("", [], None)
    check_events(log, run)
    check_effects(promise, log, effects)
    check_status(promise, task, log, run)


def check_events(log: list[Row], run: Run) -> None:
    """The log has what the agent wrote, in that order; calls that it left open are closed once."""
    told: list[tuple[str, ...]] = []
    for row in log:
        body = row["body"]
        if row["replayed"]:
            continue
        if row["kind"] == "assistant":
            told.append(("say", body["text"]))
        elif row["kind"] == "tool_progress":
            told.append(("begin", body["call"], body["input"]["command"]))
        elif row["kind"] == "tool_summary" and body["outcome"] != "interrupted":
            told.append(("end", body["call"], "completed" if body["outcome"] == "ok" else "failed"))
    assert told == run.steps, f"the log tells {told}, the agent wrote {run.steps}"
    begun = [row["body"]["call"] for row in log if row["kind"] == "tool_progress"]
    ended = [row["body"]["call"] for row in log if row["kind"] == "tool_summary"]
    assert len(set(begun)) == len(begun), f"a call began twice: {begun}"
    assert sorted(begun) == sorted(ended), f"calls {begun} began, {ended} ended"


def check_effects(promise: Promise, log: list[Row], effects: collections.Counter[str]) -> None:
    """What the log says happened did happen, once; what happened is in the log, if only as interrupted."""
    commands = {r["body"]["call"]: r["body"]["input"]["command"] for r in log if r["kind"] == "tool_progress"}
    outcomes = {r["body"]["call"]: r["body"]["outcome"] for r in log if r["kind"] == "tool_summary"}
    called = {
        token: outcomes[call]
        for call, command in commands.items()
        for token in promise.effects
        if token in command.split()
    }
    for token in promise.effects:
        assert effects[token] <= 1, f"the effect {token} happened {effects[token]} times"
        if effects[token]:
            assert token in called, f"the effect {token} happened, and the log does not know of its call"
        if called.get(token) == "ok":
            assert effects[token] == 1, f"the log says that {token} happened, and it did not"


def check_status(promise: Promise, task: Row, log: list[Row], run: Run) -> None:
    """The status agrees with the final answer in the spool."""
    assert (task["status"] == "succeeded") == (run.final == "end_turn"), (
        f"the agent's final answer: {run.final}"
    )
    if task["status"] == "succeeded":
        said = [row["body"]["text"] for row in log if row["kind"] == "assistant"]
        assert said[-1:] == [f"the end of {promise.name}"], f"it ends with {said[-1:]}"
        assert json.loads(task["outcome"])["answer"] == said[-1]
    if task["status"] == "failed":
        assert run.final == "error" or "before it took the prompt" in task["reason"], task["reason"]
    assert task["status"] != "cancelled", "nobody cancelled it"


def read_runs(home: str, task: str) -> list[Run]:
    """All launches of a task: its folder, and those that came to nothing."""
    folders = [os.path.join(home, "tasks", task), *glob.glob(os.path.join(home, "tasks", task + "~*"))]
    return [read_run(folder) for folder in folders if os.path.isdir(folder)]


def read_run(folder: str) -> Run:
    """What the longest copy of an agent's stdout tells."""
    outputs = []
    for path in glob.glob(os.path.join(folder, "stdout*")):
        with open(path, "rb") as file:
            data = file.read()
        outputs.append(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    lines = max(outputs, key=len, default=b"").split(b"\n")
    steps: list[tuple[str, ...]] = []
    message: str | None = None  # the id of the message that goes on
    final = None
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue  # garbage, or a line that was cut
        if said.get("id") == 2 and "method" not in said:
            final = said["result"]["stopReason"] if "result" in said else "error"
        update = said.get("params", {}).get("update", {}) if said.get("method") == "session/update" else {}
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                text = update["content"]["text"]
                if message == update["messageId"]:
                    steps[-1] = ("say", steps[-1][1] + text)
                else:
                    steps.append(("say", text))
                message = update["messageId"]
                continue
            case "tool_call":
                steps.append(("begin", update["toolCallId"], update["rawInput"]["command"]))
            case "tool_call_update" if update["status"] in ("completed", "failed"):
                steps.append(("end", update["toolCallId"], update["status"]))
        if update:
            message = None
    return Run(folder, steps, final)
