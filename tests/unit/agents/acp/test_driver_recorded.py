"""The ACP driver on recordings of real agents, and how these are launched."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents import acp, discovery, gemini, kimi, opencode
from holdfast.agents.acp.driver import AcpDriver
from holdfast.agents.driver import Entry, Policy
from holdfast.errors import BadInput
from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent
from tests.support.recorded_streams import Recording, Replay

VERSIONS = ("gemini-0.61.0", "opencode-1.18.33", "kimi-2.1.0")
# A shell command as each tells it: the tool's name and what is known of its input.
SHELL: dict[str, tuple[str, Any]] = {
    "gemini-0.61.0": ("run_shell_command", lambda command: {"title": command}),
    "opencode-1.18.33": ("bash", lambda command: {"cwd": "/home/dev/proj", "command": command}),
    "kimi-2.1.0": ("Bash", lambda command: {"command": command, "description": "run a command"}),
}
SLEEP = "touch started; sleep 25; touch finished"
BROKEN_OFF = {
    "gemini-0.61.0": "Command cancelled by user.",
    "opencode-1.18.33": "(no output)\\n\\n<shell_metadata>\\nUser a…",
    "kimi-2.1.0": "Interrupted by user",
}
NOT_GIVEN = {
    "gemini-0.61.0": "The request was canceled before permiss…",
    "opencode-1.18.33": "Tool execution aborted",
    "kimi-2.1.0": 'Tool "Bash" was not run because the app…',
}
UNKNOWN = "The agent ended without reporting a res…"
WAITED = "Permission was never answered, so the t…"


def replay(version: str, name: str) -> Replay:
    return Replay(Recording(version, name))


def told(entries: list[Entry]) -> list[str]:
    """The entries, one readable line each, calls numbered in the order they are first named."""
    numbers: dict[str, int] = {}
    return [_line(entry, numbers) for entry in entries]


def _line(entry: Entry, numbers: dict[str, int]) -> str:
    if isinstance(entry, SeeToken):
        return f"token {entry.protocol}"
    assert isinstance(entry, NewEvent)
    body = entry.body
    if "call" not in body:
        return f"{entry.kind} {body['code'] + ': ' if 'code' in body else ''}{_short(body['text'])}"
    line = f"{entry.kind} #{numbers.setdefault(body['call'], len(numbers) + 1)} {body['name']} "
    if entry.kind == "tool_summary":
        return line + f"{body['outcome']} {_short(body['output'])}" + (" +diff" if "diff" in body else "")
    if entry.kind == "permission":
        return line + f"{body['answer']} by {body['by']}"
    return line + json.dumps(body["input"])


def _short(text: Any) -> str:
    line = str(text).replace("\n", "\\n")
    return line if len(line) <= 40 else line[:39] + "…"


class Ought:
    """What ought to be told, in the agent's own words for a shell command."""

    def __init__(self, version: str, prompt: str):
        self.version = version
        self.lines = ["token acp", f"user {_short(prompt)}"]
        self.calls = 0

    def said(self, text: str) -> Ought:
        self.lines.append(f"assistant {text}")
        return self

    def ran(self, command: str, asked: str | None, outcome: str, output: str) -> Ought:
        """`asked`: the answer and whose it was."""
        self.calls += 1
        name, given = SHELL[self.version]
        self.lines.append(f"tool_progress #{self.calls} {name} {json.dumps(given(command))}")
        if asked is not None:
            self.lines.append(f"permission #{self.calls} {name} {asked}")
        if outcome == "ok" and self.version == "gemini-0.61.0":
            output = ""  # it never tells
        self.lines.append(f"tool_summary #{self.calls} {name} {outcome} {output}")
        return self

    def failed(self, code: str, text: str) -> Ought:
        self.lines.append(f"error {code}: {text}")
        return self


def _begun(version: str, name: str) -> tuple[Replay, Ought]:
    return replay(version, name), Ought(version, Recording(version, name).job.prompt)


@pytest.mark.parametrize("version", VERSIONS)
def test_text_and_two_tools_each_allowed_by_a_person(version: str) -> None:
    run, ought = _begun(version, "tools")
    ought.said("First I look.")
    ought.ran("echo one > one.txt; cat one.txt", "None by None", "ok", "one\\n").said("Then again.")
    ought.ran("echo two >> one.txt; cat one.txt", "None by None", "ok", "one\\ntwo\\n")
    assert told(run.entries) == ought.said("All of it is done.").lines
    assert run.driver.final is not None and run.driver.final.ok and run.driver.accepted
    assert run.driver.final.answer == "All of it is done." and run.driver.final.usage
    origins = [event.origin for event in run.events]
    assert None not in origins and len(set(origins)) == len(origins)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_second_prompt_in_another_process(version: str) -> None:
    """Gemini replays the first, after its answer to `session/load`: none of it is told again."""
    run, ought = _begun(version, "resume_2")
    output = {"opencode-1.18.33": "cat: one.txt: No such file or directory…"}.get(version)
    output = output or {"kimi-2.1.0": "cat: one.txt: No such file or directory…"}.get(version, "")
    ought.said("More.").ran("cat one.txt || echo gone", "allow by policy", "ok", output)
    token, proof, *rest = told(run.entries)
    assert proof.startswith("notice resumed: ") and [token, *rest] == ought.said("Went on.").lines
    assert run.driver.native_id == Recording(version, "resume_2").job.native_id
    assert run.driver.native_id == replay(version, "tools").driver.native_id


@pytest.mark.parametrize("version", VERSIONS)
def test_denied_by_policy(version: str) -> None:
    run, ought = _begun(version, "denied")
    ought.said("I will try.")
    why = {
        "opencode-1.18.33": "The user rejected permission to use thi…",
        "kimi-2.1.0": 'Tool "Bash" was not run because the use…',
        "gemini-0.61.0": "Permission was denied, so the tool did …",  # it never tells; we do, at the end
    }[version]
    ought.ran("touch denied.txt", "deny by policy", "error", why)
    if version != "opencode-1.18.33":  # a denial ends its turn
        ought.said("Then not.")
    if version == "gemini-0.61.0":
        ought.lines[-2:] = reversed(ought.lines[-2:])
    assert told(run.entries) == ought.lines


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["cancelled", "cancelled_asking"])
def test_cancelled(version: str, name: str) -> None:
    run, ought = _begun(version, name)
    if name == "cancelled":
        ought.said("Slow one.").ran(SLEEP, "allow by policy", "interrupted", BROKEN_OFF[version])
    else:
        ought.said("Slow one.").ran(SLEEP, "None by None", "interrupted", NOT_GIVEN[version])
    assert told(run.entries) == ought.lines
    assert run.driver.final is not None and run.driver.final.cancelled and not run.driver.final.ok


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "asked", "why"),
    [("killed", "allow by policy", UNKNOWN), ("killed_asking", "None by None", WAITED)],
)
def test_killed(version: str, name: str, asked: str, why: str) -> None:
    run, ought = _begun(version, name)
    assert told(run.entries) == ought.said("Slow one.").ran(SLEEP, asked, "interrupted", why).lines
    assert run.driver.final is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_id_is_an_error_and_nothing_else(version: str) -> None:
    run = replay(version, "resume_unknown")
    assert [(event.kind, event.body["code"]) for event in run.events] == [("error", "resume_failed")]
    assert len(run.entries) == 1 and run.driver.final is not None and not run.driver.final.ok
    assert run.driver.native_id is None and not run.driver.accepted


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failure_of_the_model_is_no_success(version: str) -> None:
    """Kimi says `end_turn` to both."""
    silent = ("no_answer", "the agent ended its turn without an ans…")
    code, text = {
        "gemini-0.61.0": ("agent_error", "scripted refusal"),
        "opencode-1.18.33": ("agent_error", "Internal error: scripted refusal"),
        "kimi-2.1.0": silent,
    }[version]
    run, ought = _begun(version, "api_400")
    assert told(run.entries) == ought.failed(code, text).lines
    assert run.driver.final is not None and not run.driver.final.ok
    run, ought = _begun(version, "api_400_later")
    asked = None if version == "gemini-0.61.0" else "allow by policy"  # it holds `echo one` for harmless
    ought.said("One.").ran("echo one", asked, "ok", "one\\n").failed(code, text)
    assert told(run.entries) == ought.lines
    assert run.driver.final is not None and not run.driver.final.ok


@pytest.mark.parametrize(
    ("version", "progress", "summary"),
    [
        ("gemini-0.61.0", 'write_file {"title": "Writing to new.txt"}', "write_file ok  +diff"),
        (
            "opencode-1.18.33",
            'write {"filePath": "/home/dev/proj/new.txt", "content": "hello\\n"}',
            "write ok Wrote file successfully. +diff",
        ),
        (
            "kimi-2.1.0",
            'Write {"path": "/home/dev/proj/new.txt", "content": "hello\\n"}',
            "Write ok Wrote 6 bytes to /home/dev/proj/new.txt",
        ),
    ],
)
def test_a_file_is_written(version: str, progress: str, summary: str) -> None:
    run, ought = _begun(version, "edit")
    name = progress.split()[0]
    ought.lines += [f"tool_progress #1 {progress}", f"permission #1 {name} allow by policy"]
    ought.lines.append(f"tool_summary #1 {summary}")
    assert told(run.entries) == ought.said("Written.").lines
    for event in run.events:
        if "diff" in event.body:
            assert event.body["diff"] == [{"path": "/home/dev/proj/new.txt", "old": "", "new": "hello\n"}]


@pytest.mark.parametrize(
    ("version", "first"), [("gemini-0.61.0", "ok"), ("opencode-1.18.33", "ok"), ("kimi-2.1.0", "error")]
)
def test_two_calls_at_once(version: str, first: str) -> None:
    """OpenCode and Gemini call a command ok that exits with 3."""
    run = replay(version, "parallel")
    for number, outcome in ((1, first), (2, "ok")):
        name = SHELL[version][0]
        lines = [line for line in told(run.entries) if f" #{number} " in line]
        assert lines[0].startswith(f"tool_progress #{number} {name} ")
        assert lines[-1].startswith(f"tool_summary #{number} {name} {outcome}")
        assert len(lines) == len({line.split()[0] for line in lines})
    assert not run.driver.open_calls


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_that_fails(version: str) -> None:
    lines = told(replay(version, "tool_failed").entries)
    assert [line.split()[0] for line in lines[2:]] == ["tool_progress", "tool_summary", "assistant"]
    assert " error " in lines[3] and "nope.txt" in lines[3]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["tools", "killed_asking", "resume_2"])
def test_heard_again_after_every_line(version: str, name: str) -> None:
    """A restart at any line: what was told before and what a new driver tells after are the whole."""
    recording = Recording(version, name)
    lines = recording.lines
    whole = AcpDriver(recording.job)
    straight = [whole.start_messages(), *[whole.on_line(line) for line in lines]]
    for cut in range(len(lines)):
        again = AcpDriver(recording.job)
        assert [again.start_messages(), *[again.on_line(line) for line in lines[:cut]]] == straight[: cut + 1]


@pytest.mark.parametrize(
    ("version", "ought"),
    [
        (
            "acp-claude-agent-acp-0.49.0",
            [
                "assistant Running it.",
                'tool_progress #1 Bash {"command": "touch /home/dev/proj/f1", "description": "fake"}',
                "permission #1 Bash allow by policy",
                "tool_summary #1 Bash ok (Bash completed with no output)",
                'tool_progress #2 Write {"file_path": "/home/dev/proj/f2", "content": "hey"}',
                "permission #2 Write allow by policy",
                "tool_summary #2 Write ok File created successfully at: /home/dev… +diff",
                "thinking hm",
                "assistant All done",
            ],
        ),
        (
            "acp-codex-acp-2.6.0",
            [
                "assistant Warning: Model metadata for `fake-model…",
                "assistant I will run it.",
                'tool_progress #1 exec_command {"command": "echo hello-$((40+2))", "cwd": "/home/dev/proj"}',
                "tool_summary #1 exec_command ok hello-42\\n",
                "assistant All done one.",
            ],
        ),
    ],
)
def test_adapters_that_a_config_may_name(version: str, ought: list[str]) -> None:
    run = replay(version, "tools")
    assert told(run.entries)[2:] == ought
    assert run.driver.final is not None and run.driver.final.ok
    assert run.driver.final.usage["input_tokens"] > 0


# --- how they are launched


def _job(version: str, permissions: Policy = "ask") -> Any:
    import msgspec

    made = Recording(version, "tools").job
    return msgspec.structs.replace(made, permissions=permissions, program=("/bin/x",), args=("--more",))


def test_command_lines() -> None:
    asking, allowing = _job("opencode-1.18.33"), _job("opencode-1.18.33", "allow")
    assert opencode.launch(asking).argv == ("/bin/x", "acp", "--more")
    assert opencode.launch(asking).env["PWD"] == "/home/dev/proj"
    assert set(json.loads(opencode.launch(asking).env["OPENCODE_PERMISSION"]).values()) == {"ask"}
    assert "OPENCODE_PERMISSION" in opencode.launch(_job("opencode-1.18.33", "deny")).env
    assert "OPENCODE_PERMISSION" not in opencode.launch(allowing).env
    assert gemini.launch(asking).argv == ("/bin/x", "--acp", "--approval-mode", "default", "--more")
    assert kimi.launch(asking).argv == ("/bin/x", "acp", "--more")


def test_an_agent_of_the_config() -> None:
    made = acp.entry("mine", {"command": ["my-agent", "--acp"], "title": "Mine", "env": {"A": "b"}})
    assert (made.name, made.title, made.driver, made.protocols) == ("mine", "Mine", acp.make_driver, ("acp",))
    assert made.launch is not None and made.launch(_job("kimi-2.1.0")).argv == ("/bin/x", "--more")
    assert acp.entry("bare", {}).title == "bare" and not acp.entry("bare", {}).chooses_id
    for table in ({"command": "my-agent"}, {"command": [""]}, {"command": [7]}, {"title": 7}, {"title": ""}):
        with pytest.raises(BadInput):
            acp.entry("mine", table)


def _file(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return str(path)


NATIVE, SCRIPT = b"\x7fELF....", b"#!/usr/bin/env node\n"


def test_the_native_opencode_behind_its_wrapper(tmp_path: Path) -> None:
    modules = tmp_path / "lib" / "node_modules"
    stub = _file(modules / "opencode-ai" / "bin" / "opencode.exe", SCRIPT)
    assert opencode.native_program(stub) == ()
    native = _file(modules / f"opencode-{discovery.npm_platform()}" / "bin" / "opencode", NATIVE)
    assert opencode.native_program(stub) == (native,)
    assert opencode.native_program(native) is None
    assert opencode.native_program(_file(tmp_path / "my-own-script", SCRIPT)) is None


def test_kimi_gets_the_node_that_was_installed_with_it(tmp_path: Path) -> None:
    script = _file(tmp_path / "lib/node_modules/@moonshot-ai/kimi-code/dist/main.mjs", SCRIPT)
    assert kimi.native_program(script) is None
    beside = _file(tmp_path / "bin" / "node", NATIVE)
    assert kimi.native_program(script) == (beside, script)
    package = _file(
        tmp_path / "lib/node_modules" / f"node-{discovery.npm_platform()}" / "bin" / "node", NATIVE
    )
    assert kimi.native_program(script) == (package, script)
    assert kimi.native_program(os.path.realpath(sys.executable)) is None
    assert kimi.native_program(_file(tmp_path / "own", SCRIPT)) is None
