"""Reading Claude Code's transcripts into events beside a bare decode of their lines, and its memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench.measure import Measured, compare, measured
from holdfast.agents.claude.inspect import collect_facts, find_problems
from holdfast.agents.claude.subagents import session_events
from holdfast.agents.claude.transcript import ClaudeTranscript

NATIVE_ID = "11111111-1111-4111-8111-111111111111"
MB = 1_000_000
FORMS = {
    "plain": "",
    "bare": ", its prompts behind their replies",
    "gap": " that lacks a record, and so is read twice",
}
WORDS = "The quick brown fox jumps over the lazy dog, and goes on to the next line.\n"
USAGE = {
    "input_tokens": 1060,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 20480,
    "output_tokens": 65,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": "standard",
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
}
# Not `ru_maxrss`: a process that was forked off a larger one has that one's.
CHILD = """
import sys
from holdfast.agents.claude.subagents import history
for event in history(sys.argv[1], sys.argv[2]):
    pass
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM")))
"""


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    scale = 10 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{NATIVE_ID}.jsonl")
        size = f"{50 // scale} MB"
        results = []
        for form, what in FORMS.items():
            write(path, 50 * MB // scale, form)
            budget = "" if form == "gap" else "≥ 0.35"
            results.append(await _compare(f"history of a {size} transcript{what}", path, _history, budget))
        write(path, 50 * MB // scale, "plain")
        results.append(await _compare(f"inspect of a {size} transcript", path, _inspect, ""))
        return [*results, *_memory(folder, scale)]


async def _compare(what: str, path: str, work: Callable[[str], None], budget: str) -> Measured:
    """In CPU time: both are one thread that does nothing else, and the machine may have other work."""
    size = os.path.getsize(path) / MB

    async def ours() -> float:
        return _spent(work, path) / size

    async def bare() -> float:
        return _spent(_bare, path) / size

    return await compare(
        what + " (CPU per MB)", ours, "a bare decode of its lines", bare, rounds=7, budget=budget
    )


def _spent(work: Callable[[str], None], path: str) -> float:
    start = time.process_time()
    work(path)
    return time.process_time() - start


def _bare(path: str) -> None:
    decode = msgspec.json.Decoder().decode
    with open(path, "rb") as file:
        for line in file:
            decode(line)


def _history(path: str) -> None:
    for _ in session_events(path, NATIVE_ID):
        pass


def _inspect(path: str) -> None:
    with ClaudeTranscript(path) as transcript:
        find_problems(collect_facts(transcript.pieces()), NATIVE_ID)


def _memory(folder: str, scale: int) -> list[Measured]:
    """A transcript that is forty times as long takes no more memory."""
    short, long = os.path.join(folder, "short.jsonl"), os.path.join(folder, "long.jsonl")
    write(short, 5 * MB // scale, "plain")
    found = []
    for form, budget in (("plain", "≤ 1.2"), ("bare", "≤ 1.2"), ("gap", "")):
        write(long, 200 * MB // scale, form)
        what = f"peak memory of reading {200 // scale} MB{FORMS[form]}"
        pairs = [(_peak(long), _peak(short)) for _ in range(3)]
        found.append(measured(what, f"of reading {5 / scale:g} MB", pairs, budget=budget, unit="bytes"))
    return found


def _peak(path: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path, NATIVE_ID], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def write(path: str, size: int, form: str, native_id: str = NATIVE_ID, seed: int = 7) -> None:
    """A transcript of that many bytes, of one of the forms."""
    encode = msgspec.json.Encoder().encode
    written = 0
    with open(path, "wb") as file:
        for number, turn in enumerate(_turns(random.Random(seed), native_id)):
            if form == "bare":
                turn[0], turn[1] = turn[1], turn[0]
            if form == "gap" and number == 1:
                del turn[1]
            written += file.write(b"\n".join(map(encode, turn)) + b"\n")
            if written >= size:
                return


def _turns(dice: random.Random, native_id: str) -> Iterator[list[dict[str, Any]]]:
    """Turns as the CLI writes them: short texts, some thinking, a few tools with results of some kB."""
    last: str | None = None

    def record(kind: str, **fields: Any) -> dict[str, Any]:
        nonlocal last
        above, last = last, str(uuid.UUID(int=dice.getrandbits(128)))
        return {
            "parentUuid": above,
            "isSidechain": False,
            "type": kind,
            **fields,
            "uuid": last,
            "timestamp": f"2026-11-15T22:{dice.randrange(60):02d}:{dice.randrange(60):02d}.780Z",
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": "/home/dev/proj",
            "sessionId": native_id,
            "version": "2.1.325",
            "gitBranch": "HEAD",
        }

    def says(message: str, block: dict[str, Any], stop: str) -> dict[str, Any]:
        body = {
            "id": message,
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": USAGE,
        }
        return record("assistant", message=body, requestId="req")

    while True:
        turn = [record("user", message={"role": "user", "content": WORDS * dice.randint(1, 6)})]
        for _ in range(dice.randint(1, 6)):
            message, call = f"msg_{dice.getrandbits(96):024x}", f"toolu_{dice.getrandbits(96):024x}"
            if dice.random() < 0.3:
                turn.append(says(message, {"type": "thinking", "thinking": WORDS * 4}, "tool_use"))
            turn.append(says(message, {"type": "text", "text": WORDS * dice.randint(1, 4)}, "tool_use"))
            given = {"command": "grep -rn needle src | head", "description": "Look for it"}
            use = {"type": "tool_use", "id": call, "name": "Bash", "input": given}
            turn.append(says(message, use, "tool_use"))
            output = WORDS * dice.randint(1, 40)
            result = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
            turn.append(
                record(
                    "user",
                    message={"role": "user", "content": [result]},
                    toolUseResult={"stdout": output, "stderr": "", "interrupted": False},
                )
            )
        done = {"type": "text", "text": WORDS * dice.randint(1, 8)}
        turn.append(says(f"msg_{dice.getrandbits(96):024x}", done, "end_turn"))
        turn.append({"type": "last-prompt", "lastPrompt": "…", "leafUuid": last, "sessionId": native_id})
        yield turn
