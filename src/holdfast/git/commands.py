"""Git, asked in a plain environment: an answer or a stated problem, never a guess."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b

import msgspec

QUESTION_S = 30.0
DEED_S = 600.0  # a checkout of a large repository takes its time
MAX_OUTPUT = 4 * 1024 * 1024  # bytes of an answer that are read
MAX_PATHS = 1000  # changed paths that are kept of one look

# What git needs to find itself and its user's configuration. Nothing else of our environment reaches it:
# a filter of the user's own may run at a checkout, and our environment has API keys in it.
_KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "LD_LIBRARY_PATH"),
        *("GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    }
)

# Everything by which a repository's configuration starts a program, turned off. Filters have names of the
# repository's choice, so those are listed first (`_filter_overrides`).
SAFE_CONFIG = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("log.showSignature", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
)
# Commands that read or write files of the work tree, and so would run filters.
_FILTERING = frozenset({"status", "worktree", "checkout-index", "checkout", "diff", "stash", "reset", "add"})
_SHOWING = frozenset({"diff", "log", "show"})
_FILTER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}


class GitMissing(Exception):
    """There is no git on PATH."""


class GitFailed(Exception):
    """Git did not answer or did not do it; the text is git's own, or says how long we waited."""

    def __init__(self, text: str, status: int | None = None):
        super().__init__(text)
        self.status = status  # None: it never got so far


class GitOutput(msgspec.Struct, frozen=True):
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
    """The environment for git: no other repository, no secrets, no questions, no network, no translations."""
    return {
        **{name: value for name, value in given.items() if name in _KEPT},
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_ASKPASS": "false",
        # A partial clone fetches what it lacks from an address of the repository's choice.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
    }


async def ask(cwd: str, *args: str, limit: int = MAX_OUTPUT) -> GitOutput:
    """Ask something that changes nothing, not even git's caches; no filter runs."""
    options = await _safe_options(cwd, args, own_filters=False)
    if args[0] in _SHOWING:
        args = (args[0], "--no-ext-diff", "--no-textconv", *args[1:])
    return await _run(cwd, (*options, *args), QUESTION_S, limit, optional_locks=False)


async def line(cwd: str, *args: str) -> str:
    """The answer to a question that has one line."""
    return text((await ask(cwd, *args)).output).removesuffix("\n")


async def do(cwd: str, *args: str, also: Sequence[str] = ()) -> None:
    """Have something done. A checkout runs filters of the user's own configuration (Git LFS), no others.

    `also`: other work trees that the command looks at, each of which may have a configuration.
    """
    options = await _safe_options(cwd, args, own_filters=True, also=also)
    await _run(cwd, (*options, *args), DEED_S, MAX_OUTPUT, optional_locks=True)


async def _safe_options(
    cwd: str, args: Sequence[str], *, own_filters: bool, also: Sequence[str] = ()
) -> list[str]:
    """The options in front of a command by which nothing of the repository's choice is started."""
    pairs = list(SAFE_CONFIG)
    if _command(tuple(args)) in _FILTERING:
        for folder in (cwd, *also):
            pairs += await _filter_overrides(folder, own_filters)
    return [word for name, value in pairs for word in ("-c", f"{name}={value}")]


async def _filter_overrides(cwd: str, own_filters: bool) -> list[tuple[str, str]]:
    """The settings that turn off each filter that a configuration defines.

    `own_filters`: those of the user's own configuration stay as the user defined them.
    """
    told = await _run(
        cwd,
        ("config", "--null", "--show-scope", "--includes", "--list"),
        QUESTION_S,
        MAX_OUTPUT,
        optional_locks=False,
    )
    if told.cut:
        raise GitFailed(f"the git configuration of {cwd} is too large to check")
    return filter_overrides(told.output, own_filters)


def filter_overrides(listed: bytes, own_filters: bool) -> list[tuple[str, str]]:
    """The same from the answer of `git config --null --show-scope --list`."""
    fields = listed.split(b"\0")[:-1]
    own: dict[str, str] = {}
    off: dict[str, str] = {}
    for scope, entry in zip(fields[::2], fields[1::2], strict=True):
        key, _, value = entry.partition(b"\n")
        section, _, rest = os.fsdecode(key).partition(".")
        driver, _, variable = rest.rpartition(".")
        if section.lower() != "filter" or variable.lower() not in _FILTER_KEYS:
            continue
        name = f"filter.{driver}.{variable.lower()}"
        if own_filters and scope in (b"global", b"system"):
            own[name] = os.fsdecode(value)
        elif "=" in driver:
            raise GitFailed(f"the git configuration defines a filter {driver!r}, which cannot be turned off")
        else:
            off[name] = _FILTER_KEYS[variable.lower()]
    return [(name, own.get(name, value)) for name, value in off.items()]


async def _run(
    cwd: str, args: tuple[str, ...], seconds: float, limit: int, *, optional_locks: bool
) -> GitOutput:
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
                return GitOutput(output, cut=True)
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
    return GitOutput(output)


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
            "--ignore-submodules=dirty",  # git would run the filters of a submodule: we look ourselves
            "--no-renames",
        )
        # git's paths are relative to the top, wherever it is asked.
        modules = _has_submodules(path)
        top = await line(path, "rev-parse", "--show-toplevel") if modules or _names_paths(told) else path
        found = parse(told, top)
        if not modules or found.problem is not None:
            return found
        return await _with_submodules(found, top)
    except (GitFailed, GitMissing) as problem:
        return Changes(problem=str(problem))


def _has_submodules(path: str) -> bool:
    """Whether the work tree that a folder is in names submodules, without asking git."""
    while not os.path.lexists(os.path.join(path, ".git")):
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return os.path.lexists(os.path.join(path, ".gitmodules"))


async def _with_submodules(found: Changes, top: str) -> Changes:
    """The changes of a work tree, and each submodule that has changes of its own as one changed path."""
    listed = await ask(top, "ls-files", "--stage", "-z", limit=64 * 1024 * 1024)
    changed = dict(found.changed)
    for record in listed.output.split(b"\0")[:-1]:
        mode, _, raw = record.partition(b" ")
        folder = os.path.join(os.fsencode(top), raw.partition(b"\t")[2])
        if mode != b"160000" or not os.path.lexists(os.path.join(folder, b".git")):
            continue
        inner = await changes(os.fsdecode(folder))
        if not inner.clean:
            marks = repr((sorted(inner.paths.items()), inner.head, inner.problem))
            changed[text(raw.partition(b"\t")[2])] = blake2b(os.fsencode(marks), digest_size=16).hexdigest()
    return msgspec.structs.replace(found, changed=changed, more=found.more or listed.cut)


def _names_paths(told: GitOutput) -> bool:
    return any(not record.startswith(b"# ") for record in told.output.split(b"\0")[:-1])


def parse(told: GitOutput, top: str) -> Changes:
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
