"""Where an agent is: config, PATH, and the true program behind a wrapper; its version and its traps."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable

import pytest

from holdfast.agents import claude, codex, discovery
from holdfast.agents import discovery as npm
from holdfast.agents.base import Agent, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.errors import BadInput

NATIVE = "/bin/sh"  # any program of this machine


@pytest.fixture
def put(tmp_path: object) -> Callable[..., str]:
    """Makes an executable file below the test's folder; without text, a native program."""

    def make(path: str, text: str | None = None) -> str:
        whole = os.path.join(str(tmp_path), path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        if text is None:
            shutil.copy(os.path.realpath(NATIVE), whole)
        else:
            with open(whole, "w") as file:
                file.write(text)
        os.chmod(whole, 0o755)
        return whole

    return make


def _agent(**more: object) -> Agent:
    return Agent(name="tool", title="Tool", protocols=("acp",), programs=("tool", "tool2"), **more)  # type: ignore[arg-type]


def _env(*paths: str) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join(os.path.dirname(path) for path in paths),
        "HOME": "/home/dev",
        "KEY": "secret",
    }


def test_the_first_on_path_wins_and_its_secrets_are_not_kept(put: Callable[..., str]) -> None:
    one, two = put("one/tool", "#!/bin/sh\n"), put("two/tool", "#!/bin/sh\n")
    found = discovery.find(_agent(), {}, _env(one, two))
    assert found is not None and (found.path, found.command) == (one, (one,))
    assert "KEY" not in found.env
    assert discovery.find(_agent(), {}, {"PATH": "/nonexistent"}) is None
    assert discovery.find(_agent(), {}, {}) is None


def test_a_second_name_is_tried_and_what_cannot_run_is_passed_over(put: Callable[..., str]) -> None:
    plain, other = put("one/tool", ""), put("two/tool2", "#!/bin/sh\n")
    os.chmod(plain, 0o644)
    found = discovery.find(_agent(), {}, _env(plain, other))
    assert found is not None and found.path == other


def test_a_relative_folder_on_path_is_not_looked_in(
    put: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(os.path.dirname(put("one/tool", "#!/bin/sh\n")))
    assert discovery.find(_agent(), {}, {"PATH": os.pathsep.join((".", ""))}) is None


def test_the_config_comes_before_path(put: Callable[..., str]) -> None:
    here, there = put("one/tool", "#!/bin/sh\n"), put("two/mine", "#!/bin/sh\n")
    found = discovery.find(_agent(), {"path": there}, _env(here))
    assert found is not None and found.command == (there,)
    found = discovery.find(_agent(), {"command": ["tool", "--acp"]}, _env(here))
    assert found is not None and (found.path, found.command) == (here, (here, "--acp"))
    home = {"HOME": os.path.dirname(os.path.dirname(there)), "PATH": ""}
    found = discovery.find(_agent(), {"path": "~/two/mine"}, home)
    assert found is not None and found.command == (there,)


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "/nonexistent/tool"},
        {"path": "tool"},
        {"path": 1},
        {"path": ""},
        {"command": "tool --acp"},
        {"command": []},
        {"command": ["tool", 1]},
        {"command": ["nowhere"]},
    ],
)
def test_a_config_that_names_nothing_is_refused(settings: dict[str, object], put: Callable[..., str]) -> None:
    """Not passed over: the user would get another program than the one that they named."""
    with pytest.raises(BadInput, match=r"agents\.tool\."):
        discovery.find(_agent(), settings, _env(put("one/tool", "#!/bin/sh\n")))


def _npm_codex(put: Callable[..., str], native: bool = True) -> tuple[str, str]:
    here = npm.npm_platform()
    folder = f"lib/node_modules/@openai/codex-{here}/vendor/{codex._TARGETS[here]}/bin/codex"
    script = put("lib/node_modules/@openai/codex/bin/codex.js", "#!/usr/bin/env node\n")
    program = put(folder) if native else ""
    link = os.path.join(os.path.dirname(put("bin/other", "")), "codex")
    os.symlink(script, link)
    return link, program


def test_codexs_wrapper_is_never_what_is_run(put: Callable[..., str]) -> None:
    link, program = _npm_codex(put)
    found = discovery.find(codex.AGENT, {}, _env(link))
    assert found is not None and (found.path, found.command) == (link, (program,))
    configured = discovery.find(codex.AGENT, {"path": link}, {})
    assert configured is not None and configured.command == (program,)


def test_a_wrapper_without_its_program_is_no_codex(put: Callable[..., str]) -> None:
    link, _ = _npm_codex(put, native=False)
    assert discovery.find(codex.AGENT, {}, _env(link)) is None
    with pytest.raises(BadInput, match="not installed"):
        discovery.find(codex.AGENT, {"path": link}, {})
    native = put("native/codex")
    found = discovery.find(codex.AGENT, {}, _env(link, native))
    assert found is not None and found.command == (native,), "the next on PATH"


def test_claudes_stub_leads_to_the_native_program(put: Callable[..., str]) -> None:
    package = "lib/node_modules/@anthropic-ai/claude-code"
    link = os.path.join(os.path.dirname(put("bin/other", "")), "claude")
    stub = put(f"{package}/bin/claude.exe", "echo the postinstall did not run\n")
    os.symlink(stub, link)
    assert discovery.find(claude.AGENT, {}, _env(link)) is None
    program = put(f"{package}-{npm.npm_platform()}/claude")
    found = discovery.find(claude.AGENT, {}, _env(link))
    assert found is not None and found.command == (program,)
    shutil.copy(program, stub)
    found = discovery.find(claude.AGENT, {}, _env(link))
    assert found is not None and found.command == (link,), "npm's own copy is the native program"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.325 (Claude Code)", "2.1.325"),
        ("codex-cli 0.166.0", "0.166.0"),
        ("v1.18.33-beta.2", "1.18.33"),
        ("nothing", None),
        ("1.2", None),
        ("", None),
    ],
)
def test_the_version_is_the_first_that_it_says(
    put: Callable[..., str], said: str, version: str | None
) -> None:
    path = put("one/tool", f"#!/bin/sh\necho noise >&2\n[ \"$1\" = --version ] && echo '{said}'\n")
    found = discovery.find(_agent(), {}, {"PATH": f"{os.path.dirname(path)}:/usr/bin:/bin"})
    assert found is not None and discovery.version(found) == version


def test_a_program_that_does_not_answer_is_ended_with_all_its_children(
    put: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "PATIENCE", 0.3)
    path = put("one/tool", '#!/bin/sh\nsleep 60 &\necho $! > "$0.child"\nwait\n')
    found = discovery.find(_agent(), {}, {"PATH": f"{os.path.dirname(path)}:/usr/bin:/bin"})
    assert found is not None and discovery.version(found) is None
    with open(path + ".child") as file:
        child = int(file.read())
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}") or _is_zombie(child):
            return
        time.sleep(0.02)
    raise AssertionError("its child lives on")


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_a_program_that_cannot_be_started_has_no_version() -> None:
    assert discovery.version(discovery.InstalledAgent("tool", "/x", ("/nonexistent/x",))) is None


def test_traps_are_those_of_the_version() -> None:
    agent = _agent(
        traps=(
            KnownTrap("always"),
            KnownTrap("old", before=(2, 1, 265)),
            KnownTrap("new", since=(2, 1, 236)),
            KnownTrap("gone", before=(1,)),
        )
    )
    assert discovery.traps(agent, "2.1.197") == ["always", "old"]
    assert discovery.traps(agent, "2.1.250") == ["always", "old", "new"]
    assert discovery.traps(agent, "2.1.325") == ["always", "new"]
    assert discovery.traps(agent, None) == ["always", "old", "new", "gone"]


def test_claude_is_launched_with_the_id_that_we_chose_or_go_on_with() -> None:
    job = AgentJob(
        agent="claude",
        session="s",
        task="t",
        prompt="p",
        cwd="/",
        program=("/c",),
        native_id="u",
        args=("--x",),
    )
    argv = claude.launch(job).argv
    assert argv[0] == "/c" and argv[-2:] == ("--session-id=u", "--x") and "p" not in argv
    resumed = AgentJob(
        agent="claude",
        session="s",
        task="t",
        prompt="p",
        cwd="/",
        program=("/c",),
        native_id="u",
        resume=True,
    )
    assert claude.launch(resumed).argv[-1] == "--resume=u"
    assert not any(
        name.startswith("CLAUDE_CODE_SKIP_PROMPT") or name == "CLAUDE_CODE_*" for name in claude.AGENT.keeps
    )
