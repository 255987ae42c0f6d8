"""Conversations in blobs: what the CLI's `store.db` can hold, built by hand from the format's numbers."""

from __future__ import annotations

import hashlib
import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.agents.cursor import tool_calls
from holdfast.agents.cursor.checkpoints import CheckpointGraph
from holdfast.agents.cursor.protobuf import NotProtobuf, ProtobufMessage, fields
from holdfast.agents.cursor.reader import CursorReader, find_problems
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import TranscriptProblem
from tests.agents.fake_cursor import script
from tests.agents.fake_cursor.backend import serving
from tests.agents.fake_cursor.wire import all_of, data, frame, inside, message, number, read, unframed, varint

NATIVE = "5b1f8a52-3c0b-4f7e-9a10-2d6a1f0c9e77"


class Blobs(dict[str, bytes]):
    """Blobs by their hash."""

    def put(self, raw: bytes) -> bytes:
        found = hashlib.sha256(raw).digest()
        self[found.hex()] = raw
        return found

    def say(self, text: str) -> bytes:
        return self.put(message(1, data(1, text)))

    def call(self, member: int, args: bytes, result: bytes | None, call: str = "toolu_01AbcDef234") -> bytes:
        told = [message(1, args), *([message(2, result)] if result is not None else [])]
        return self.put(message(2, message(member, *told), data(57, call), number(59, 1794780000000)))

    def turn(self, ask: str, *steps: bytes, request: str = "") -> bytes:
        user = self.put(data(1, ask) + data(2, "m"))
        named = data(3, request) if request else b""
        return self.put(message(1, data(1, user), *[data(2, step) for step in steps], named))

    def root(self, *turns: bytes, more: bytes = b"") -> str:
        return self.put(b"".join(data(8, turn) for turn in turns) + more + number(10, 1)).hex()

    def prompt(self, **told: Any) -> bytes:
        return data(1, self.put(json.dumps(told).encode()))


def told(blobs: Blobs, root: str) -> tuple[list[NewEvent], list[str]]:
    items = list(CheckpointGraph(NATIVE, root, blobs.get).items())
    events = [item for item in items if isinstance(item, NewEvent)]
    origins = [event.origin for event in events if event.origin is not None]
    assert len(set(origins)) == len(origins)
    return events, sorted({problem.code for problem in find_problems(items, has_runs=False).problems})


def shell(command: str) -> bytes:
    return data(1, command) + data(2, "/w")


def brief(events: list[NewEvent]) -> list[tuple[str, Any]]:
    return [(e.kind, e.body.get("text", e.body.get("output", e.body.get("input")))) for e in events]


def test_the_same_words_twice_are_two_events() -> None:
    blobs = Blobs()
    turns = [blobs.turn("again", blobs.say("ok"), request=f"r{n}") for n in range(2)]
    events, codes = told(blobs, blobs.root(*turns))
    assert brief(events) == [("user", "again"), ("assistant", "ok")] * 2
    assert codes == []


def test_turns_without_a_request_or_with_the_same_one() -> None:
    blobs = Blobs()
    same = [blobs.turn(f"t{n}", blobs.say("ok"), request="r") for n in range(2)]
    none = [blobs.turn(f"n{n}", blobs.say("ok")) for n in range(2)]
    assert len(told(blobs, blobs.root(*same, *none))[0]) == 8


@pytest.mark.parametrize(
    ("result", "outcome", "output"),
    [
        (message(1, data(5, "out\n")), "ok", "out\n"),
        (message(1, number(3, 7), data(5, "out\n")), "error", "out\n"),
        (message(2, number(3, 2), data(5, "out"), data(6, "err")), "error", "out\nerr"),
        (message(3, data(1, "sleep"), number(3, 5)), "error", "sleep"),
        (message(4, data(3, "no, thanks")), "error", "no, thanks"),
    ],
)
def test_how_a_command_ended(result: bytes, outcome: str, output: str) -> None:
    blobs = Blobs()
    step = blobs.call(1, shell("x"), result)
    events, codes = told(blobs, blobs.root(blobs.turn("do", step, blobs.say("done"))))
    assert (events[2].body["outcome"], events[2].body["output"]) == (outcome, output)
    assert events[1].at == "2026-11-15T22:00:00.000000Z"
    assert codes == []


def test_a_call_is_named_as_the_live_driver_names_it() -> None:
    blobs = Blobs()
    step = blobs.call(1, shell("x"), message(1, data(5, "")))
    events, _ = told(blobs, blobs.root(blobs.turn("do", step, step, blobs.say("done"), request="r")))
    names = [event.origin.record_id for event in events if event.origin is not None]
    assert names[1:3] == ["call:toolu_01AbcDef234", "result:toolu_01AbcDef234"]
    assert names[3:5] == ["r:1", "r:1:result"]


def test_a_tool_that_is_not_known_is_read_from_what_the_model_was_told() -> None:
    blobs = Blobs()
    step = blobs.call(15, data(1, "srv-do") + data(3, "toolu_01AbcDef234"), message(1, data(1, "raw")))
    other = blobs.call(99, data(1, "text") + number(2, 7) + data(3, b"\xff\xfe"), message(1, b""), call="c2")
    said = blobs.prompt(
        role="assistant",
        content=[
            {"type": "tool-call", "toolCallId": "toolu_01AbcDef234", "toolName": "do", "args": {"a": 1}}
        ],
    )
    back = blobs.prompt(
        role="tool",
        content=[
            {
                "type": "tool-result",
                "toolCallId": "toolu_01AbcDef234",
                "result": [{"type": "text", "text": "m"}],
            }
        ],
    )
    events, codes = told(blobs, blobs.root(blobs.turn("do", step, other, blobs.say("x")), more=said + back))
    assert events[1].body == {"call": "toolu_01AbcDef234", "name": "mcp", "input": {"a": 1}}
    assert events[2].body["output"] == "m"
    assert events[3].body == {"call": "c2", "name": "tool-99", "input": {"1": "text", "2": 7, "3": "//4="}}
    assert codes == []


def test_a_call_without_a_result_ends_its_turn() -> None:
    blobs = Blobs()
    first = blobs.turn("one", blobs.call(1, shell("x"), None), blobs.say("on"))
    events, codes = told(blobs, blobs.root(first, blobs.turn("two", blobs.say("b"))))
    kinds = [event.kind for event in events]
    assert kinds == ["user", "tool_progress", "assistant", "tool_summary", "user", "assistant"]
    assert codes == ["dangling_call"]


@pytest.mark.parametrize("text", ["", "not json", "[1]", '{"call":"toolu_9"}', '{"id":7}', "\udcff"])
def test_pending_calls_in_any_words(text: str) -> None:
    blobs = Blobs()
    pending = data(4, text.encode(errors="surrogateescape"))
    events, codes = told(blobs, blobs.root(blobs.turn("do", blobs.say("hm")), more=pending + pending))
    assert "dangling_call" in codes
    assert events[-1].body["outcome"] == "interrupted"


def test_a_pending_call_that_has_a_step_is_one_call() -> None:
    blobs = Blobs()
    step = blobs.call(1, shell("x"), None)
    events, _ = told(
        blobs, blobs.root(blobs.turn("do", step), more=data(4, '{"toolCallId":"toolu_01AbcDef234"}'))
    )
    assert [event.kind for event in events] == ["user", "tool_progress", "tool_summary"]


def test_what_is_gone_leaves_the_rest_readable() -> None:
    blobs = Blobs()
    gone = [blobs.say("gone"), blobs.turn("gone too")]
    root = blobs.root(blobs.turn("a", gone[0], blobs.say("b")), gone[1], blobs.turn("c", blobs.say("d")))
    for blob in gone:
        del blobs[blob.hex()]
    events, codes = told(blobs, root)
    assert [(e.kind, e.body.get("code")) for e in events] == [
        ("user", None),
        ("notice", "missing_blob"),
        ("assistant", None),
        ("notice", "missing_blob"),
        ("user", None),
        ("assistant", None),
    ]
    assert codes == ["missing_blob"]
    assert told(Blobs(), "ab" * 32)[1] == ["missing_blob"]


def test_a_prompt_that_is_gone_still_begins_a_turn() -> None:
    blobs = Blobs()
    root = blobs.root(blobs.turn("a", blobs.say("b")))
    del blobs[hashlib.sha256(data(1, "a") + data(2, "m")).hexdigest()]
    found = find_problems(CheckpointGraph(NATIVE, root, blobs.get).items(), has_runs=False)
    assert (found.turns, found.last_complete) == (1, 1)


def test_references_in_a_circle_end() -> None:
    """No hash can name itself, but a damaged store can say so."""
    root, turn = b"\x01" * 32, b"\x02" * 32
    blobs = Blobs(
        {
            root.hex(): data(8, root) + data(8, turn) + data(8, turn),
            turn.hex(): message(1, data(2, turn), data(2, root)),
        }
    )
    _, codes = told(blobs, root.hex())
    assert {"parent_cycle", "duplicate_record"} <= set(codes)


def test_a_command_of_the_users_own_is_no_prompt() -> None:
    blobs = Blobs()
    command, output = blobs.put(data(1, "ls")), blobs.put(data(1, "a\n") + data(2, "b"))
    own = blobs.put(message(2, data(1, command), data(2, output)))
    events, codes = told(blobs, blobs.root(blobs.turn("x", blobs.say("y")), own))
    assert (events[-1].kind, events[-1].body["text"]) == ("notice", "$ ls\na\nb")
    assert codes == []


def test_a_simulated_message_is_a_mark() -> None:
    blobs = Blobs()
    user = blobs.put(data(1, "reminder") + number(5, 1))
    turn = blobs.put(message(1, data(1, user), data(2, blobs.say("y"))))
    events, _ = told(blobs, blobs.root(turn))
    assert (events[0].kind, events[0].body["code"]) == ("notice", "synthetic")


def test_a_long_prompt_is_in_a_blob_of_its_own() -> None:
    blobs = Blobs()
    user = blobs.put(data(18, blobs.put("long é".encode())))
    turn = blobs.put(message(1, data(1, user), data(2, blobs.say("y"))))
    assert brief(told(blobs, blobs.root(turn))[0])[0] == ("user", "long é")


@pytest.mark.parametrize(
    ("steps", "code"), [([], "no_reply"), (["thought"], "turn_unfinished"), (["call"], "turn_unfinished")]
)
def test_a_last_turn_without_an_answer(steps: list[str], code: str) -> None:
    blobs = Blobs()
    made = {
        "thought": blobs.put(message(3, data(1, "hm"), number(2, 4))),
        "call": blobs.call(1, shell("x"), message(1, data(5, ""))),
    }
    turns = [blobs.turn("a"), blobs.turn("b", *[made[step] for step in steps])]
    assert told(blobs, blobs.root(*turns))[1] == [code]
    assert told(blobs, blobs.root(turns[0], blobs.turn("b", blobs.say("ok"))))[1] == []


def test_a_conversation_without_turns_is_read_from_its_prompts() -> None:
    blobs = Blobs()
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "Shell", "args": {"command": "ls"}}
    wrapped = "<user_info>\nOS\n</user_info>\n<user_query>\nlist\n</user_query>"
    more = b"".join(
        [
            blobs.prompt(role="system", content="You are."),
            blobs.prompt(role="user", content=[{"type": "text", "text": wrapped}]),
            blobs.prompt(role="user", content="<user_info>only this</user_info>"),
            blobs.prompt(role="assistant", id="1", content=[{"type": "reasoning", "text": "hm"}, call]),
            blobs.prompt(
                role="tool", content=[{"type": "tool-result", "toolCallId": "c", "result": "README"}]
            ),
            blobs.prompt(role="assistant", id="1", content=[{"type": "text", "text": "one"}]),
            blobs.prompt(role="assistant", id="1", content=[{"type": "text", "text": "one"}]),
            blobs.prompt(
                role="tool", content=[{"type": "tool-result", "toolCallId": "z", "result": {"a": 1}}]
            ),
        ]
    )
    events, codes = told(blobs, blobs.root(more=more))
    assert brief(events) == [
        ("user", "list"),
        ("thinking", "hm"),
        ("tool_progress", {"command": "ls"}),
        ("tool_summary", "README"),
        ("assistant", "one"),
        ("assistant", "one"),
        ("tool_summary", '{"a":1}'),
    ]
    assert codes == ["orphan_result", "turn_unfinished"]


@pytest.mark.parametrize("encoding", ["hex", "json"])
def test_a_store_with_either_kind_of_meta(tmp_path: Path, encoding: str) -> None:
    blobs = Blobs()
    root = blobs.root(blobs.turn("hi", blobs.say("ho")))
    place = store(tmp_path, blobs, {"agentId": NATIVE, "latestRootBlobId": root, "name": "n"}, encoding)
    assert brief(list(CursorReader().events(place))) == [("user", "hi"), ("assistant", "ho")]
    assert CursorReader().inspect(place).sound


def test_stores_that_tell_nothing(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"agentId": NATIVE, "latestRootBlobId": ""}, "empty"),
        ({"agentId": NATIVE}, "empty"),
        ({"agentId": NATIVE, "latestRootBlobId": "00"}, "missing_blob"),
        ({"other": 1}, "bad_header"),
    ]
    for case, (meta, code) in enumerate(cases):
        place = store(tmp_path / str(case), Blobs(), meta, "json")
        seen = CursorReader().inspect(place)
        assert (seen.sound, [problem.code for problem in seen.problems]) == (False, [code])


def store(folder: Path, blobs: Blobs, meta: dict[str, Any], encoding: str) -> Any:
    home = folder / "chats" / "drawer" / NATIVE
    home.mkdir(parents=True)
    db = apsw.Connection(str(home / "store.db"))
    db.execute("create table blobs (id text primary key, data blob)")
    db.execute("create table meta (key text primary key, value text)")
    db.executemany("insert into blobs values (?, ?)", blobs.items())
    raw = json.dumps(meta)
    db.execute("insert into meta values ('0', ?)", (raw.encode().hex() if encoding == "hex" else raw,))
    db.close()
    (place,) = CursorReader().find(str(folder), NATIVE)
    return place


# --- the wire


def test_what_is_written_is_read() -> None:
    raw = number(1, 300) + data(2, "é") + message(3, number(1, 0)) + data(2, b"\xff") + number(5, 2**64 - 1)
    told_ = ProtobufMessage(raw)
    assert (told_.number(1), told_.text(2), told_.texts(2), told_.number(5)) == (
        300,
        "\ufffd",
        ["é", "\ufffd"],
        -1,
    )
    inner = told_.inside(3)
    assert inner is not None and inner.number(1) == 0
    assert told_.numbers == [1, 2, 3, 5]
    assert (told_.number(2), told_.one(1), told_.inside(9), told_.text(9)) == (None, None, None, "")
    fixed = ProtobufMessage(varint(1 << 3 | 1) + bytes(8) + varint(2 << 3 | 5) + bytes(4) + number(3, 1))
    assert (fixed.number(3), fixed.broken) == (1, False)


@pytest.mark.parametrize(
    "raw", [b"\x00", b"\x0a", b"\x0a\x05abc", b"\x0b", b"\x08" + b"\xff" * 11, b"\x09abc"]
)
def test_bytes_that_are_no_message(raw: bytes) -> None:
    with pytest.raises(NotProtobuf):
        list(fields(raw))
    broken = ProtobufMessage(number(1, 1) + raw)
    assert broken.broken
    assert broken.number(1) == 1


def test_the_laboratorys_own_wire() -> None:
    raw = number(1, 5) + message(2, data(1, "a"), data(1, "b"))
    assert read(raw) == [(1, 5), (2, b"\x0a\x01a\x0a\x01b")]
    assert all_of(inside(raw, 2), 1) == [b"a", b"b"]
    assert unframed(frame(b"xyz")) == b"xyz"
    made = script.Script(cmd='echo "}>>"', final="é")
    assert script.of(script.prompt("do", made)) == made
    assert script.of("nothing") == script.Script()
    assert "".join(script.halves("abc")) == "abc"


def test_the_fake_backend_answers() -> None:
    with serving() as backend:
        with urllib.request.urlopen(f"{backend.url}/v1/models", timeout=10) as answer:
            assert json.load(answer)["items"][0]["id"] == "composer-2"
        asked = urllib.request.Request(f"{backend.url}/auth/exchange_user_api_key", data=b"{}", method="POST")
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert "accessToken" in json.load(answer)
        port = int(backend.url.rpartition(":")[2])
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_a_problem_names_its_blob() -> None:
    (notice, problem) = CheckpointGraph(NATIVE, "ab" * 32, Blobs().get).items()
    assert isinstance(problem, TranscriptProblem) and problem.evidence == {"blob": "ab" * 32}
    assert isinstance(notice, NewEvent) and notice.body["blob"] == "ab" * 32


def test_a_call_of_nothing() -> None:
    assert tool_calls.read(b"").name == "tool-0"
