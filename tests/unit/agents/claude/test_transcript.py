"""Claude Code's own history: recordings of four versions, and records made up by the rules of the format."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.claude import transcript as stretch
from holdfast.agents.claude.logical_order import logical_order
from holdfast.agents.claude.transcript import ClaudeTranscript
from tests.support.claude_transcripts import FOLDER, READER, Made, cases, codes, load, put, told
from tests.support.transcript_cases import check_storable, ended_by_us, ought, plain

CASES = cases()
RECORDED = sorted(os.listdir(os.path.join(FOLDER, "recorded")))


@pytest.mark.parametrize("name", CASES)
def test_recorded_sessions_are_read_as_they_were(name: str, tmp_path: Path) -> None:
    path, id, truth = CASES[name]
    place = put(tmp_path, path, id)
    events = list(READER.events(place))
    found = READER.inspect(place)
    main = [event for event in events if "parent" not in event.body]
    wanted = [ought(entry) for entry in truth["events"] if entry["k"] != "marker"]
    for entry in wanted:
        entry.pop("queued", None)
    assert plain(main) == wanted
    check_storable(events)
    assert all(
        event.at is not None
        for event in events
        if event.origin is not None and "byte:" not in event.origin.record_id
    )
    judged = truth["holdfast"]
    assert [call["call"] for call in found.dangling] == truth["dangling"] == ended_by_us(main)
    assert all(call["name"] and call["input"] for call in found.dangling)
    assert sorted(problem.code for problem in found.problems) == sorted(
        reason.lower() for reason in truth["verdict"]["reasons"]
    )
    assert judged["sound"] in (None, found.sound)
    assert found.turns == judged["turns"]
    if judged["complete_turns"] is not None and None not in judged["complete_turns"]:
        complete = [number for number, is_complete in enumerate(judged["complete_turns"], 1) if is_complete]
        assert found.last_complete == max(complete, default=None)
    assert found.cwd in (None, "/home/dev/proj")


@pytest.mark.parametrize("case", RECORDED)
def test_more_recordings_with_subagents_and_two_writers(case: str) -> None:
    truth = load("recorded", case, "expected.json")
    (place,) = READER.find(os.path.join(FOLDER, "recorded", case), truth["session_id"])
    events = list(READER.events(place))
    check_storable(events)
    shown = [
        {**short, "parent": event.body["parent"]} if "parent" in event.body else short
        for event in events
        if (event.kind not in ("notice", "error")) and (event.kind != "tool_summary" or event.origin)
        for short in plain([event])
    ]
    assert shown == truth["events"]
    found = READER.inspect(place)
    assert [call["call"] for call in found.dangling] == truth["dangling"]
    assert {problem.code.upper() for problem in found.problems} == set(truth["verdict"]["reasons"])
    judged = truth["holdfast"]
    assert (found.sound, found.turns, found.last_complete) == tuple(judged.values())


def test_an_unknown_session_is_not_found(tmp_path: Path) -> None:
    assert READER.find(str(tmp_path), "11111111-1111-4111-8111-111111111111") == []
    gone = Made(tmp_path).place()
    os.unlink(gone.path)
    found = READER.inspect(gone)
    assert [problem.code for problem in found.problems] == ["no_transcript"] and not found.sound
    assert found.path is None and list(READER.events(gone)) == []


# --- order


def test_replies_before_their_prompt(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.calls("c1", message="m1", uuid="a", parent="p")
    made.calls("c2", message="m1", uuid="b", parent="a")
    made.user("go", uuid="p", parent=None)
    made.returns("c2", uuid="r2", parent="b")
    made.returns("c1", uuid="r1", parent="a")
    made.says("done", parent="r2")
    assert told(made.place()) == [
        "user go",
        "tool_progress c1",
        "tool_progress c2",
        "tool_summary c2 ok",
        "tool_summary c1 ok",
        "assistant done",
    ]
    assert codes(made.place()) == []


@given(st.data())
def test_every_order_is_one_of_parents_first(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    parents = data.draw(st.lists(st.integers(-1, count - 1), min_size=count, max_size=count))
    order, cut = logical_order(parents)
    assert sorted(order) == list(range(count))
    place = {number: at for at, number in enumerate(order)}
    for number, parent in enumerate(parents):
        assert number in cut or parent < 0 or place[parent] < place[number]
    for number in cut:  # only what is in a circle
        above = parents[number]
        for _ in range(count):
            if above == number:
                break
            above = parents[above] if above >= 0 else -1
        assert above == number
    if all(parent < number for number, parent in enumerate(parents)):
        assert list(order) == list(range(count))


def test_long_circles_and_reversed_files_take_no_long_time() -> None:
    count = 50_000
    assert logical_order([count - 1, *range(count - 1)]).cut == [0]
    assert list(logical_order([*range(1, count), -1]).order) == list(range(count - 1, -1, -1))


def long_way(folder: Path, parent_of_last: str, first_parent: str | None) -> Made:
    made = Made(folder)
    made.user("P0", uuid="first", parent=first_parent)
    for number in range(1, 30):
        made.user(f"P{number}")
    made.lines.append(made.lines[2])  # a record that is there twice
    made.raw(b'{"torn')
    made.user("last", uuid="last", parent=parent_of_last)
    made.says("done")
    return made


@pytest.mark.parametrize("window", [3, 4096])
@pytest.mark.parametrize("near", [2, 5, 256])
def test_parents_far_away_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: int, window: int
) -> None:
    """Whatever is remembered and looked ahead, the order is the same."""
    monkeypatch.setattr(stretch, "WINDOW", window)
    monkeypatch.setattr(stretch, "NEAR", near)
    count = [f"user P{number}" for number in range(30)]
    torn = 'notice {"torn bad_line'
    before = long_way(tmp_path, "first", None)
    assert told(before.place()) == [*count, torn, "user last", "assistant done"]
    nowhere = long_way(tmp_path, "nowhere", None)
    assert told(nowhere.place()) == [*count, torn, "user last", "assistant done"]
    later = long_way(tmp_path, "nowhere", "last")
    assert told(later.place()) == [torn, "user last", *count, "assistant done"]
    circle = long_way(tmp_path, "first", "last")
    assert sorted(told(circle.place())) == sorted([*count, torn, "user last", "assistant done"])
    lost = long_way(tmp_path, "u5", "lost")
    assert told(lost.place()) == [*count, torn, "user last", "assistant done"]


@settings(max_examples=60)
@given(st.data())
def test_a_short_look_ahead_gives_the_same_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    parents = data.draw(st.lists(st.integers(-2, count - 1), min_size=count, max_size=count))
    near = data.draw(st.integers(1, 16))
    window = data.draw(st.integers(1, 8))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch, "NEAR", near)
        patch.setattr(stretch, "WINDOW", window)
        made = Made(Path(folder))
        for number, parent in enumerate(parents):
            above = {-1: None, -2: "nowhere"}.get(parent, f"u{parent}")
            made.user(f"P{number}", uuid=f"u{number}", parent=above)
        order = logical_order([max(parent, -1) for parent in parents]).order
        assert told(made.place()) == [f"user P{number}" for number in order]


def test_what_waits_for_one_record_is_then_told_as_it_is_written() -> None:
    assert list(logical_order([3, 3, 0, -1]).order) == [3, 0, 1, 2]


def test_a_few_records_out_of_order_need_no_index(tmp_path: Path) -> None:
    with ClaudeTranscript(CASES["2.1.197/parallel_tools"][0]) as transcript:
        assert sum(1 for _ in transcript.in_order()) == 12
        assert "index" not in vars(transcript)


# --- what a session's end tells


def test_how_the_last_turn_ended(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.says("A1")
    assert codes(made.place()) == []
    made.user("two")
    assert codes(made.place()) == ["no_reply"]
    made.says([{"type": "thinking", "thinking": "hm"}], stop="tool_use")
    assert codes(made.place()) == ["turn_unfinished"]
    made.says("Running it.", stop="tool_use")
    assert codes(made.place()) == ["turn_unfinished"]
    made.calls("c1")
    assert codes(made.place()) == ["dangling_call"]
    made.returns("c1")
    assert codes(made.place()) == ["turn_unfinished"]
    assert READER.inspect(made.place()).last_complete == 1
    made.says("A2")
    made.add("system", subtype="local_command", content="<local-command-stdout>x</local-command-stdout>")
    assert codes(made.place()) == []
    found = READER.inspect(made.place())
    assert (found.turns, found.last_complete, found.sound) == (2, 2, True)


def test_a_queued_prompt_begins_no_turn(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.calls("c1")
    made.returns("c1")
    made.add("attachment", attachment={"type": "queued_command", "prompt": "also", "commandMode": "prompt"})
    made.says("done")
    assert told(made.place())[3:] == ["user also", "assistant done"]
    assert READER.inspect(made.place()).turns == 1


def test_a_command_of_the_cli_is_no_turn_and_a_prompt_by_command_is_one(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("<command-name>/cost</command-name>\n<command-message>cost</command-message>")
    made.user("<local-command-stdout>$1</local-command-stdout>")
    assert READER.inspect(made.place()).turns == 0
    made.user("<command-message>init</command-message>\n<command-name>/init</command-name>")
    made.user("Look at all of it.", isMeta=True)
    made.says("done")
    assert [line.split()[0] for line in told(made.place())] == [
        "notice",
        "notice",
        "user",
        "notice",
        "assistant",
    ]
    assert READER.inspect(made.place()).turns == 1


def test_a_call_is_ended_where_its_turn_ends_unless_a_result_comes_later(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.calls("c1", uuid="c1")
    made.calls("c2", uuid="c2")
    made.user("two", parent="c1")
    made.says("A2")
    made.returns("c2", parent="c2")
    assert told(made.place()) == [
        "user one",
        "tool_progress c1",
        "tool_progress c2",
        "tool_summary c1 interrupted",
        "user two",
        "assistant A2",
        "tool_summary c2 ok",
    ]
    assert "forked_history" in codes(made.place())


@pytest.mark.parametrize(
    "result",
    [
        {"content": "The user doesn't want to proceed with this tool use. The tool use was rejected"},
        {"content": "[Tool call interrupted: the session ended before this call's result was recorded"},
        {"content": "Exit code 137", "toolUseResult": {"interrupted": True}},
    ],
)
def test_results_that_say_that_a_call_was_interrupted(tmp_path: Path, result: dict[str, object]) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.calls("c1")
    more = {key: value for key, value in result.items() if key != "content"}
    made.returns("c1", result["content"], error=True, **more)
    assert told(made.place())[-1] == "tool_summary c1 interrupted"


def test_a_turn_is_what_follows_its_prompt_and_not_what_is_written_after_it(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.calls("c1", uuid="c")
    made.user("two", parent="c")
    made.returns("c1", parent="c")
    made.says("A1")
    found = READER.inspect(made.place())
    assert (found.turns, found.last_complete) == (2, 1)
    assert codes(made.place()) == ["forked_history", "no_reply"]


def test_what_wakes_the_model_is_no_prompt(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.says("A1")
    made.user("It ended.", origin={"kind": "task-notification"})
    made.says("Good.")
    made.user("from a person", origin={"kind": "human"})
    assert told(made.place())[2::2] == ["notice It ended. told", "user from a person"]
    assert READER.inspect(made.place()).turns == 2


def test_tools_of_the_api_itself(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.says([{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}], message="m")
    assert codes(made.place()) == ["dangling_call"]
    made.says([{"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}], message="m")
    assert codes(made.place()) == ["turn_unfinished"]
    assert told(made.place())[1:] == ["tool_progress s1", "tool_summary s1 ok"]


# --- damage that the CLI forgives


def test_problems_of_a_file(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one", uuid="p")
    made.says("A1", uuid="a")
    made.lines.append(made.lines[-1])
    assert codes(made.place()) == ["duplicate_record"]
    made.lines[-1] = made.lines[-1].rstrip(b"\n")
    assert codes(made.place()) == ["duplicate_record", "torn_tail"]
    made.lines = made.lines[:2]
    made.user("two", uuid="q", parent="a", sessionId="22222222-2222-4222-8222-222222222222")
    made.says("A2")
    assert codes(made.place()) == ["session_id_mismatch"]


def test_a_record_glued_to_a_torn_one_is_still_read(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.says("A1")
    made.user("two")
    made.says("A2")
    whole = told(made.place())
    made.lines[1] = made.lines[1][:150] + made.lines[2]
    del made.lines[2]
    assert told(made.place()) == [
        whole[0],
        "notice " + made.lines[1][:60].decode() + " bad_line",
        *whole[2:],
    ]
    assert codes(made.place()) == ["bad_line", "glued_lines", "missing_parent"]
    made.lines[1] = b"\0" * 40 + made.lines[1][150:]
    assert told(made.place()) == [whole[0], "notice 40 blank bytes bad_line", *whole[2:]]


def test_a_second_result_is_shown_and_is_no_second_end(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.calls("c1", uuid="c")
    made.returns("c1", "a", uuid="r")
    made.returns("c1", "b", parent="c")
    made.says("done", parent="r")
    assert told(made.place())[2:] == ["tool_summary c1 ok", "notice b duplicate_result", "assistant done"]
    assert codes(made.place()) == ["duplicate_result"]


def test_forks(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one", uuid="p")
    made.says("A1", uuid="a")
    made.user("two")
    made.says("A2")
    made.user("other two", parent="a")
    made.says("other A2")
    assert codes(made.place()) == ["forked_history"]
    assert told(made.place())[-2:] == ["user other two", "assistant other A2"]


def test_a_prompt_behind_the_first_of_two_results_is_no_fork(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.calls("c1", message="m", uuid="c1")
    made.calls("c2", message="m", uuid="c2")
    made.returns("c2")
    made.returns("c1", uuid="r1", parent="c1")
    made.user("two", parent="r1")
    made.says("A2")
    assert codes(made.place()) == []


def test_compaction_keeps_what_was_before(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    last = made.says("A1")
    made.add(
        "system",
        subtype="compact_boundary",
        parent=None,
        logicalParentUuid=last,
        content="Conversation compacted",
    )
    made.user("This session is being continued from …", isCompactSummary=True)
    made.user("two")
    made.says("A2")
    assert [line.split()[0] for line in told(made.place())] == [
        "user",
        "assistant",
        "notice",
        "notice",
        "user",
        "assistant",
    ]
    assert codes(made.place()) == []
    in_order = told(made.place())
    made.lines.insert(0, made.lines.pop(2))  # the mark before what it follows
    assert told(made.place()) == in_order
    made.lines[0] = made.lines[0].replace(last.encode(), b"elsewhere")
    assert codes(made.place()) == []


def test_records_of_no_known_kind_are_shown(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("one")
    made.raw({"type": "future-thing", "value": [1, 2]})
    made.add("system", subtype="future", value=3)
    made.raw({"type": "mode", "mode": "normal"})
    made.says([{"type": "hologram", "x": 1}])
    shown = [line for line in told(made.place()) if line.endswith("unknown_record")]
    assert len(shown) == 3
    check_storable(READER.events(made.place()))


# --- subagents


def test_subagents_of_subagents_and_of_calls_that_are_gone(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("go")
    made.calls("t1", "Agent", {"prompt": "sub"})
    made.returns("t1", "subdone")
    made.says("done")
    place = made.place()
    folder = tmp_path / made.id / "subagents"
    folder.mkdir(parents=True)
    for agent, call, inner in (("x1", "t1", "t2"), ("x2", "t2", "b1"), ("x3", "gone", "b2")):
        sub = Made(folder, f"agent-{agent}")
        sub.id = made.id
        sub.user("sub", isSidechain=True, agentId=agent)
        sub.calls(inner, "Agent" if inner == "t2" else "Bash", isSidechain=True)
        sub.returns(inner, isSidechain=True)
        sub.path.write_bytes(b"".join(sub.lines))
        (folder / f"agent-{agent}.meta.json").write_text(json.dumps({"toolUseId": call}))
    assert told(place) == [
        "user go",
        "tool_progress t1",
        "tool_progress t2 <t1",
        "tool_progress b1 <t2",
        "tool_summary b1 ok <t2",
        "tool_summary t2 ok <t1",
        "tool_summary t1 ok",
        "assistant done",
        "tool_progress b2 <gone",
        "tool_summary b2 ok <gone",
    ]
    assert sorted(os.path.basename(path) for path in READER.files(place)) == [
        "11111111-1111-4111-8111-111111111111.jsonl",
        *(f"agent-x{n}{end}" for n in (1, 2, 3) for end in (".jsonl", ".meta.json")),
    ]


def test_two_subagents_at_once_in_one_file(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("go", uuid="p")
    made.calls("t1", "Task", {"prompt": "first"}, message="m", uuid="c1")
    made.calls("t2", "Task", {"prompt": "second"}, message="m", uuid="c2")
    made.user("second", parent=None, uuid="s2", isSidechain=True)
    made.user("first", parent=None, uuid="s1", isSidechain=True)
    made.says("of one", parent="s1", isSidechain=True)
    made.says("of two", parent="s2", isSidechain=True)
    made.returns("t1", parent="c2")
    made.returns("t2")
    made.says("done")
    assert told(made.place()) == [
        "user go",
        "tool_progress t1",
        "tool_progress t2",
        "assistant of one <t1",
        "assistant of two <t2",
        "tool_summary t1 ok",
        "tool_summary t2 ok",
        "assistant done",
    ]
    assert codes(made.place()) == []
    assert READER.inspect(made.place()).turns == 1


def test_a_subagent_of_2_0_that_was_killed_is_found_by_its_prompt(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("go")
    made.calls("t1", "Task", {"prompt": "the job"})
    for agent, prompt in (("another", "the job"), ("warm", "Warmup"), ("real", "the job")):
        sub = Made(tmp_path, f"agent-{agent}")
        sub.id = made.id if agent != "another" else "of another session"
        sub.user(prompt, isSidechain=True)
        sub.calls(f"b-{agent}", isSidechain=True)
        sub.path.write_bytes(b"".join(sub.lines))
    assert told(made.place()) == [
        "user go",
        "tool_progress t1",
        "tool_progress b-real <t1",
        "tool_summary b-real interrupted <t1",
        "tool_summary t1 interrupted",
    ]
    (place,) = READER.find("", str(made.path))
    names = [os.path.basename(path) for path in READER.files(place)]
    assert names == [f"{made.id}.jsonl", "agent-real.jsonl", "agent-warm.jsonl"]
    made.returns("t1", toolUseResult={"agentId": "another"})
    assert "tool_progress b-another <t1" not in told(made.place())
    made.lines[-1] = made.lines[-1].replace(b'"another"', b'"real"')
    assert "tool_progress b-real <t1" in told(made.place())
