"""How each agent is set up in a folder of its own, so that it knows nothing but the fake model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import NamedTuple

from tests.agents.install import link, program

LABELS = ("claude-2.1.197", "claude-2.1.325", "codex", "gemini", "opencode", "kimi")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

CODEX_CONFIG = """\
model = "fake-model"
model_provider = "fake"
features.plugins = false
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
"""

KIMI_CONFIG = """\
default_model = "fake"
default_permission_mode = "{mode}"
telemetry = false
[providers.fake]
type = "openai"
base_url = "{url}/v1"
api_key = "x"
[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 200000
"""


class Agent(NamedTuple):
    """One agent in its own folder."""

    label: str
    name: str  # what Holdfast calls it
    path: str  # what a user would find on PATH
    home: str
    cwd: str
    env: dict[str, str]  # all that it needs, and nothing of ours
    bare: Callable[[str], list[str]]  # its command line without Holdfast, with every tool allowed

    @property
    def tools_outlive_it(self) -> bool:
        """Whether a tool goes on when the agent is killed; Gemini's has a terminal, which hangs up."""
        return self.name != "gemini"

    @property
    def asks(self) -> bool:
        """Whether it can ask for a permission; `codex exec` cannot."""
        return self.name != "codex"


def set_up(label: str, folder: str, url: str, *, asks: bool = True) -> Agent:
    """An agent whose model is at `url`; it asks before it runs a command, if it can and `asks`."""
    name = label.partition("-")[0]
    home, cwd, temp = (os.path.join(folder, part) for part in ("home", "work", "tmp"))
    for path in (home, cwd, temp):
        os.makedirs(path, exist_ok=True)
    env = {
        "PATH": f"{os.path.dirname(program('node'))}:{SYSTEM_PATH}",
        "HOME": home,
        "TMPDIR": temp,
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        **SET_UP[name](home, url, asks),
    }
    return Agent(label, name, link(label), home, cwd, env, lambda prompt: BARE[name](label, prompt))


def _claude(home: str, url: str, asks: bool) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-fake-000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "IS_SANDBOX": "1",  # as root it would refuse to run without asking
    }


def _codex(home: str, url: str, asks: bool) -> dict[str, str]:
    _write(os.path.join(home, ".codex", "config.toml"), CODEX_CONFIG.format(url=url))
    return {"CODEX_HOME": os.path.join(home, ".codex"), "FAKE_KEY": "x"}


def _gemini(home: str, url: str, asks: bool) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "sessionRetention": {"enabled": False},
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"name": "gemini-2.5-flash"},
        "ide": {"enabled": False},
    }
    _write(os.path.join(home, ".gemini", "settings.json"), json.dumps(settings))
    return {
        "GEMINI_API_KEY": "fake",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    }


def _opencode(home: str, url: str, asks: bool) -> dict[str, str]:
    model = {"name": "Fake", "tool_call": True, "limit": {"context": 200000, "output": 8192}}
    fake = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {"fake-model": model},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "permission": {"bash": "ask" if asks else "allow", "edit": "allow", "webfetch": "deny"},
        "provider": {"fake": fake},
    }
    _write(os.path.join(home, ".config", "opencode", "opencode.json"), json.dumps(config))
    names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE", "DEFAULT_PLUGINS")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in names}


def _kimi(home: str, url: str, asks: bool) -> dict[str, str]:
    folder = os.path.join(home, ".kimi-code")
    mode = "manual" if asks else "auto"
    _write(os.path.join(folder, "config.toml"), KIMI_CONFIG.format(url=url, mode=mode))
    return {"KIMI_CODE_HOME": folder, "KIMI_CODE_NO_AUTO_UPDATE": "1"}


SET_UP: dict[str, Callable[[str, str, bool], dict[str, str]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "kimi": _kimi,
}


def _bare_claude(label: str, prompt: str) -> list[str]:
    stream = ("--output-format", "stream-json", "--verbose")
    return [program(label), "-p", prompt, *stream, "--permission-mode", "bypassPermissions"]


def _bare_codex(label: str, prompt: str) -> list[str]:
    return [program(label), "exec", "--json", "--skip-git-repo-check", prompt]


def _bare_gemini(label: str, prompt: str) -> list[str]:
    modes = ("--approval-mode", "yolo", "--output-format", "stream-json")
    return [program("node"), program(label), *modes, "-p", prompt]


def _bare_opencode(label: str, prompt: str) -> list[str]:
    return [program(label), "run", "--format", "json", prompt]


def _bare_kimi(label: str, prompt: str) -> list[str]:
    return [program("node"), program(label), "--output-format", "stream-json", "-p", prompt]


BARE: dict[str, Callable[[str, str], list[str]]] = {
    "claude": _bare_claude,
    "codex": _bare_codex,
    "gemini": _bare_gemini,
    "opencode": _bare_opencode,
    "kimi": _bare_kimi,
}


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
