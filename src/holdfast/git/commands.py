"""Git, asked in a plain environment: an answer or a stated problem, never a guess."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec

QUESTION_S = 30.0
DEED_S = 600.0  # a checkout of a large repository takes its time
MAX_OUTPUT = 4 * 1024 * 1024  # bytes of an answer that are read
MAX_PATHS = 1000  # changed paths that are kept of one look

# The user's own choice of configuration; all other GIT_… would make git speak of another repository.
_KEPT = frozenset({"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})


class GitMissing(Exception):
    """There is no git on PATH."""


class GitFailed(Exception):
    """Git did not answer or did not do it; the text is git's own, or says how long we waited."""

    def __init__(self, text: str, status: int | None = None):
        super().__init__(text)
        self.status = status  # None: it never got so far


class Answer(msgspec.Struct, frozen=True):
    """What git said."""

    output: bytes
    cut: bool = False  # there was more than is read


class Changes(msgspec.Struct, frozen=True):
    """What is uncommitted in a work tree. Where git could not be asked, `problem` says why.

    A path's value is a mark of the file itself: another one when it was written again, not when it was
    only staged.
    """

    changed: dict[str, str] = {}
    untracked: dict[str, str] = {}
    head: str | None = None  # None: no commit yet
    branch: str | None = None  # None: detached
    more: bool = False  # there were more paths than are kept
    problem: str | None = None

    @property
    def clean(self) -> bool:
        """Whether all is committed, and known to be."""
        return self.problem is None and not self.changed and not self.untracked and not self.more

    @property
    def paths(self) -> dict[str, str]:
        """All uncommitted paths."""
        return {**self.changed, **self.untracked}


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for git: no other repository, no questions to a person, no translations."""
    env = {name: value for name, value in given.items() if not name.startswith("GIT_") or name in _KEPT}
    env.pop("LANGUAGE", None)
    return {**env, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "GIT_EDITOR": "false"}


async def ask(cwd: str, *args: str, limit: int = MAX_OUTPUT) -> Answer:
    """Ask something that changes nothing, not even git's caches."""
    # A repository's own fsmonitor is a program that git would start.
    return await _run(cwd, ("-c", "core.fsmonitor=false", *args), QUESTION_S, limit, optional_locks=False)


async def line(cwd: str, *args: str) -> str:
    """The answer to a question that has one line."""
    return text((await ask(cwd, *args)).output).removesuffix("\n")


async def do(cwd: str, *args: str) -> None:
    """Have something done."""
    await _run(cwd, args, DEED_S, MAX_OUTPUT, optional_locks=True)


async def _run(
    cwd: str, args: tuple[str, ...], seconds: float, limit: int, *, optional_locks: bool
) -> Answer:
    env = environment(os.environ)
    if not optional_locks:
        env["GIT_OPTIONAL_LOCKS"] = "0"
    if not os.path.isdir(cwd):
        raise GitFailed(f"there is no folder {cwd}")
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *args,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for us
        )
    except FileNotFoundError:
        raise GitMissing("git is not installed") from None
    except OSError as problem:
        raise GitFailed(f"git cannot be started: {problem}") from None
    assert process.stdout is not None and process.stderr is not None
    errors = asyncio.ensure_future(_read(process.stderr, 64 * 1024, to_end=True))
    try:
        async with asyncio.timeout(seconds):
            output, cut = await _read(process.stdout, limit, to_end=False)
            if cut:
                return Answer(output, cut=True)
            said, _ = await errors
            status = await process.wait()
    except TimeoutError:
        raise GitFailed(f"git {_command(args)} did not end within {seconds:.0f} seconds") from None
    finally:
        errors.cancel()
        await asyncio.wait([errors])
        await _end(process)
    if status:
        told = text(said).strip() or f"git {_command(args)} ended with status {status}"
        raise GitFailed(told, status)
    return Answer(output)


async def _read(stream: asyncio.StreamReader, limit: int, *, to_end: bool) -> tuple[bytes, bool]:
    """The first bytes of a stream, and whether there were more."""
    got = bytearray()
    while piece := await stream.read(1 << 16):
        got += piece
        if len(got) > limit:
            del got[limit:]
            if not to_end:
                return bytes(got), True
    return bytes(got), False


async def _end(process: asyncio.subprocess.Process) -> None:
    """See a process off; SIGTERM first, because git then takes its lock files away."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(5):
            await process.communicate()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def _command(args: tuple[str, ...]) -> str:
    return next((word for word in args if not word.startswith("-") and "=" not in word), "")


def text(raw: bytes) -> str:
    """What git said, as text that can be stored; bytes that are none are shown as such."""
    return raw.decode("utf-8", "backslashreplace")


async def changes(path: str) -> Changes:
    """What is uncommitted in the work tree that a folder is in."""
    try:
        told = await ask(
            path,
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",  # whatever the user's config says
            "--ignore-submodules=none",
            "--no-renames",
        )
        # git's paths are relative to the top, wherever it is asked.
        top = await line(path, "rev-parse", "--show-toplevel") if _names_paths(told) else path
    except (GitFailed, GitMissing) as problem:
        return Changes(problem=str(problem))
    return parse(told, top)


def _names_paths(told: Answer) -> bool:
    return any(not record.startswith(b"# ") for record in told.output.split(b"\0")[:-1])


def parse(told: Answer, top: str) -> Changes:
    """Read the answer of `git status --porcelain=v2 --branch -z`."""
    head: str | None = None
    branch: str | None = None
    changed: dict[str, str] = {}
    untracked: dict[str, str] = {}
    more = told.cut
    for raw in told.output.split(b"\0")[:-1]:  # the last one is empty, or cut off
        record = text(raw)
        if record.startswith("# branch.oid "):
            head = record[13:] if record[13:] != "(initial)" else None
        elif record.startswith("# branch.head "):
            branch = record[14:] if record[14:] != "(detached)" else None
        elif record[:2] in ("1 ", "u ", "? "):
            if len(changed) + len(untracked) == MAX_PATHS:
                more = True
                break
            fields = record.split(" ", {"1": 8, "u": 10, "?": 1}[record[0]])
            file, raw_path = fields[-1], raw.split(b" ", len(fields) - 1)[-1]
            mark = _mark(os.path.join(os.fsencode(top), raw_path))
            (untracked if record[0] == "?" else changed)[file] = mark
        elif not record.startswith("# "):
            return Changes(head=head, branch=branch, problem=f"git said something unknown: {record[:80]!r}")
    return Changes(changed, untracked, head, branch, more)


def _mark(path: bytes) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return "gone"
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"
