"""Live and stored: what the driver makes of a recorded stream is what the reader makes of its transcript."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.agents.claude.driver import ClaudeDriver
from holdfast.agents.driver import AgentJob
from holdfast.model.event import NewEvent
from tests.support.claude_transcripts import FOLDER, READER, cases, put

CASES = {
    name: case
    for name, case in cases().items()
    if os.path.exists(os.path.join(os.path.dirname(case[0]), "meta.json"))
}
RECORDED = "2.1.325-subagent"

# What only the stream has. A store keeps none of these, or not with an id of the stream.
LIVE_ONLY = {
    "user": "the prompt; these CLIs were not given our uuid for it",
    "resumed": "the proof that the agent resumed what it was asked for",
    "permission": "asked and answered beside the conversation",
    "api_retry": "2.1.197 keeps none; 2.1.325 does, under another uuid",
    "compacted": "the driver's has no origin; 2.1.197 keeps none",
    "permission_denied": "the result of the call has the same words",
    "unknown_record": "model_refusal_no_fallback: the API error behind it says the same",
    "cut": "what it was saying when it was killed; the store keeps whole blocks",
    "background_ended": "the store has the CLI's own words to the model instead",
}
# What only the store has.
STORE_ONLY = {
    "user": "the prompt, under a uuid of the CLI's own",
    "told": "what the CLI says to the model: notifications, caveats, «Continue …»",
    "api_retry": "2.1.325: see above",
    "compacted": "2.1.325: see above",
    "subagent": "2.1.197 streams a subagent's calls and results, and not what it says",
}
# What a stream knew and a kill kept from the store, or the other way round.
LOST = {
    "2.1.197/kill_write_unflushed": "a Write and its result, 40 ms before the kill",
    "2.1.197/compact": "2.1.197 does not keep a /compact",
    "2.1.197/hub_dies_midtool": "nobody read the stream after the call",
}


def live(folder: str, id: str, prompt: str, resume: bool) -> list[NewEvent]:
    job = AgentJob(
        agent="claude",
        session="s000000000000000",
        task="t000000000000000",
        prompt=prompt,
        cwd="/home/dev/proj",
        program=("claude",),
        native_id=id,
        resume=resume,
        permissions="allow",
    )
    driver = ClaudeDriver(job)
    driver.start_messages()
    heard: list[NewEvent] = []
    for line in stream(folder):
        heard += [entry for entry in driver.on_line(line).entries if isinstance(entry, NewEvent)]
    return [*heard, *(entry for entry in driver.on_eof().entries if isinstance(entry, NewEvent))]


def stream(folder: str) -> list[bytes]:
    path = os.path.join(folder, "stdout.jsonl")
    if os.path.exists(path):
        with open(path, "rb") as file:
            return file.read().split(b"\n")[:-1]
    with open(os.path.join(folder, "traffic.jsonl"), "rb") as file:
        traffic = [json.loads(line) for line in file]
    return [json.dumps(entry["msg"]).encode() for entry in traffic if entry["dir"] == "from_agent"]


def by_origin(events: list[NewEvent]) -> dict[str, NewEvent]:
    return {event.origin.record_id: event for event in events if event.origin is not None}


def kind(event: NewEvent) -> str:
    if "parent" in event.body and event.kind in ("assistant", "thinking"):
        return "subagent"
    return "cut" if event.body.get("cut") else str(event.body.get("code", event.kind))


def meet(heard: list[NewEvent], stored: list[NewEvent], resumed: bool, lost: bool) -> int:
    """Both have the same of what both have; how many that are."""
    there, here = by_origin(heard), by_origin(stored)
    both = [id for id in there if id in here]
    for id in both:
        prompt = here[id].kind == "user"  # of one process we give one prompt, so another is no prompt of ours
        assert prompt or (there[id].kind, there[id].body) == (here[id].kind, here[id].body)
    prompts = [event.body["text"] for event in stored if event.kind == "user"]
    for event in heard:
        if event.origin is None or event.origin.record_id not in here:
            open_call = event.kind == "tool_summary" and event.origin is None
            assert open_call or lost or kind(event) in LIVE_ONLY, event
        if event.kind == "user" and not event.body["text"].startswith("/") and prompts and event.body["text"]:
            assert event.body["text"] in prompts or lost
    for event in stored:
        if not resumed and (event.origin is None or event.origin.record_id not in there):
            open_call = event.kind == "tool_summary" and event.origin is None
            assert open_call or lost or kind(event) in STORE_ONLY, event
    # A call that neither of them saw end is ended by both in the same words.
    ends = [event for event in heard if event.kind == "tool_summary" and event.origin is None]
    for end in ends if not lost else ():
        same = [event.body for event in stored if event.body.get("call") == end.body["call"]]
        assert same[-1] == end.body or "permission" in end.body["output"]
    return len(both)


@pytest.mark.parametrize("name", CASES)
def test_live_and_stored_meet(name: str, tmp_path: Path) -> None:
    path, id, _ = CASES[name]
    folder = os.path.dirname(path)
    with open(os.path.join(folder, "meta.json"), encoding="utf-8") as file:
        args = json.load(file)["args"]
    given = args[args.index("-p") + 1]
    prompt = "" if given.startswith("--") else given  # it came by stdin, and is echoed
    resumed = "--resume" in args or "second_turn" in name  # the stream is that of the last process only
    stored = list(READER.events(put(tmp_path, path, id)))
    met = meet(live(folder, id, prompt, resumed), stored, resumed, name in LOST)
    assert met > 0 or name in ("2.1.197/compact", "2.1.197/kill_midstream")


def test_a_subagent_in_the_background_meets_too() -> None:
    folder = os.path.join(FOLDER, "recorded", RECORDED)
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        truth = json.load(file)
    (place,) = READER.find(folder, truth["session_id"])
    stored = list(READER.events(place))
    heard = live(folder, place.native_id, truth["events"][0]["text"], False)
    assert meet(heard, stored, False, False) == 8
    said = [e for e in by_origin(heard).values() if "parent" in e.body and e.kind == "assistant"]
    assert len(said) == 2  # 2.1.325 streams what a subagent says
