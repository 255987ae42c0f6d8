"""The fake model itself: one script comes out the same in every protocol, and a wrong history shows."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.fake_model.history import refusal, signature
from tests.agents.fake_model.reply import SIDE
from tests.agents.fake_model.script import Call, Step, Turn, due, prompt
from tests.agents.fake_model.server import FakeModel

Json = dict[str, Any]


class Heard(NamedTuple):
    """A reply as an agent understands it."""

    think: str
    text: str
    calls: list[tuple[str, str, Json]]  # id, name, arguments


class Speaker(NamedTuple):
    """One protocol, as a client speaks it; a history is what was said and each reply with its results."""

    path: Callable[[bool], str]
    body: Callable[[str, Sequence[Heard], bool], Json]
    stream: Callable[[list[Json]], Heard]
    whole: Callable[[Json], Heard]


SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}, "description": {"type": "string"}}}


def _anthropic_body(said: str, replies: Sequence[Heard], stream: bool) -> Json:
    messages: list[Json] = [{"role": "user", "content": said}]
    for heard in replies:
        content: list[Json] = []
        if heard.think:
            content.append({"type": "thinking", "thinking": heard.think, "signature": signature(heard.think)})
        if heard.text:
            content.append({"type": "text", "text": heard.text})
        content += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in heard.calls]
        messages.append({"role": "assistant", "content": content})
        results = [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i, _, _ in heard.calls]
        messages.append({"role": "user", "content": results or "go on"})
    return {"messages": messages, "tools": [{"name": "Bash", "input_schema": SCHEMA}], "stream": stream}


def _anthropic_stream(events: list[Json]) -> Heard:
    blocks: dict[int, Json] = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "json": ""}
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                block["json"] += delta["partial_json"]
            else:
                field = delta["type"].removesuffix("_delta")
                block[field] += delta[field]
    for block in blocks.values():
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"])
    return _anthropic_whole({"content": list(blocks.values())})


def _anthropic_whole(message: Json) -> Heard:
    think = "".join(b["thinking"] for b in message["content"] if b["type"] == "thinking")
    text = "".join(b["text"] for b in message["content"] if b["type"] == "text")
    calls = [(b["id"], b["name"], b["input"]) for b in message["content"] if b["type"] == "tool_use"]
    return Heard(think, text, calls)


def _responses_body(said: str, replies: Sequence[Heard], stream: bool) -> Json:
    items: list[Json] = [{"role": "user", "content": [{"type": "input_text", "text": said}]}]
    for heard in replies:
        if heard.text:
            content = [{"type": "output_text", "text": heard.text}]
            items.append({"type": "message", "role": "assistant", "content": content})
        for call, name, args in heard.calls:
            made = {"call_id": call, "name": name, "arguments": json.dumps(args)}
            items.append({"type": "function_call", **made})
        items += [{"type": "function_call_output", "call_id": c, "output": "x"} for c, _, _ in heard.calls]
    tool = {"type": "function", "name": "shell", "parameters": SCHEMA}
    return {"input": items, "tools": [tool], "stream": stream}


def _responses_stream(events: list[Json]) -> Heard:
    heard = _responses_whole(events[-1]["response"])
    pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(pieces) == heard.text
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return heard


def _responses_whole(response: Json) -> Heard:
    output = response["output"]
    think = "".join(item["summary"][0]["text"] for item in output if item["type"] == "reasoning")
    text = "".join(item["content"][0]["text"] for item in output if item["type"] == "message")
    calls = [item for item in output if item["type"] == "function_call"]
    return Heard(think, text, [(c["call_id"], c["name"], json.loads(c["arguments"])) for c in calls])


def _chat_body(said: str, replies: Sequence[Heard], stream: bool) -> Json:
    messages: list[Json] = [{"role": "system", "content": "be good"}, {"role": "user", "content": said}]
    for heard in replies:
        calls = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for call, name, args in heard.calls
        ]
        messages.append({"role": "assistant", "content": heard.text, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call, "content": "x"} for call, _, _ in heard.calls]
    tool = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}
    return {"messages": messages, "tools": [tool], "stream": stream}


def _chat_stream(events: list[Json]) -> Heard:
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    calls: dict[int, Json] = {}
    for delta in deltas:
        for call in delta.get("tool_calls", []):
            if "id" in call:
                calls[call["index"]] = call
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    message = {
        "reasoning_content": "".join(delta.get("reasoning_content", "") for delta in deltas),
        "content": "".join(delta.get("content", "") for delta in deltas),
        "tool_calls": list(calls.values()),
    }
    return _chat_whole({"choices": [{"message": message}]})


def _chat_whole(answer: Json) -> Heard:
    message = answer["choices"][0]["message"]
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", [])
    ]
    return Heard(message.get("reasoning_content", ""), message["content"] or "", calls)


def _gemini_body(said: str, replies: Sequence[Heard], stream: bool) -> Json:
    contents: list[Json] = [{"role": "user", "parts": [{"text": "context"}, {"text": said}]}]
    for heard in replies:
        parts: list[Json] = [{"text": heard.text}] if heard.text else []
        parts += [{"functionCall": {"name": name, "args": args}} for _, name, args in heard.calls]
        contents.append({"role": "model", "parts": parts})
        results = [{"functionResponse": {"name": name, "response": {}}} for _, name, _ in heard.calls]
        contents.append({"role": "user", "parts": results})
    known = {"name": "run_shell_command", "parametersJsonSchema": SCHEMA}
    return {"contents": contents, "tools": [{"functionDeclarations": [known]}]}


def _gemini_stream(events: list[Json]) -> Heard:
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    return _gemini_whole({"candidates": [{"content": {"parts": parts}}]})


def _gemini_whole(answer: Json) -> Heard:
    parts = answer["candidates"][0]["content"]["parts"]
    think = "".join(part["text"] for part in parts if part.get("thought"))
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    calls = [("", p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "functionCall" in p]
    return Heard(think, text, calls)


def _at(path: str) -> Callable[[bool], str]:
    return lambda stream: path


def _gemini_path(stream: bool) -> str:
    return f"/v1beta/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


SPEAKERS = {
    "anthropic": Speaker(_at("/v1/messages?beta=true"), _anthropic_body, _anthropic_stream, _anthropic_whole),
    "responses": Speaker(_at("/v1/responses"), _responses_body, _responses_stream, _responses_whole),
    "chat": Speaker(_at("/v1/chat/completions"), _chat_body, _chat_stream, _chat_whole),
    "gemini": Speaker(_gemini_path, _gemini_body, _gemini_stream, _gemini_whole),
}


@pytest.fixture(params=SPEAKERS)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return SPEAKERS[request.param]


def post(model: FakeModel, path: str, body: Json) -> bytes:
    """The body of the answer."""
    request = urllib.request.Request(model.url + path, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: bytes = answer.read()
    return found


def ask(
    model: FakeModel, speaker: Speaker, said: str, replies: Sequence[Heard] = (), *, stream: bool = True
) -> Heard:
    raw = post(model, speaker.path(stream), speaker.body(said, replies, stream))
    if not stream:
        return speaker.whole(json.loads(raw))
    lines = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    return speaker.stream([json.loads(line) for line in lines if line != "[DONE]"])


STEPS = (
    Step(think="Hm.", say="Täter — first.", shell="echo 'a \"b\"'", chunk=3),
    Step(calls=(Call(shell="echo 1"), Call(tool="other", args={"x": [1]}))),
    Step(text="Done."),
)


@pytest.mark.parametrize("stream", [True, False])
def test_one_script_in_every_protocol(model: FakeModel, speaker: Speaker, stream: bool) -> None:
    said = prompt("do it", STEPS)
    replies: list[Heard] = []
    for _ in range(4):
        replies.append(ask(model, speaker, said, replies, stream=stream))
    first, second, third, beyond = replies
    assert (first.think, first.text) == ("Hm.", "Täter — first.")
    assert [call[2]["command"] for call in first.calls] == ["echo 'a \"b\"'"]
    assert second.text == ""
    assert [call[1] for call in second.calls] == [first.calls[0][1], "other"]
    assert second.calls[1][2] == {"x": [1]}
    assert third == Heard("", "Done.", [])
    assert beyond.text == "beyond the script (3)"


def test_a_shortened_history_is_a_wrong_step(model: FakeModel, speaker: Speaker) -> None:
    said = prompt("shorter", STEPS)
    first = ask(model, speaker, said)
    second = ask(model, speaker, said, [first])
    assert ask(model, speaker, said, [first, second]).text == "Done."
    assert ask(model, speaker, said, [second]).calls != []


def test_a_later_prompt_counts_from_itself() -> None:
    one, two = prompt("one", STEPS), prompt("two", [Step(text="b0"), Step(text="b1")])
    turns = [Turn("user", one), Turn("model"), Turn("result"), Turn("user", two), Turn("user", "a reminder")]
    found = due(turns)
    assert (found.step.text, found.at, found.prompts) == ("b0", 0, (one, two))
    assert due([*turns, Turn("model"), Turn("other"), Turn("model"), Turn("result")]).step.text == "b1"


def test_joined_and_quoted_prompts_are_read() -> None:
    one, two = prompt("one", STEPS), prompt("two", [Step(text="b0")])
    assert due([Turn("user", f"{one}\n{two}")]).step.text == "b0"
    assert due([Turn("user", '"' + two.replace('"', '\\"') + '"')]).step.text == "b0"


@given(
    st.lists(st.builds(Step, say=st.text(), shell=st.text(), chunk=st.integers(1, 9)), min_size=1, max_size=4)
)
def test_every_step_survives_a_prompt(steps: list[Step]) -> None:
    if any("]>>" in str(word) for step in steps for word in (step.say, step.shell)):
        return  # the mark of a script's end
    turns = [Turn("user", prompt("do", steps))]
    for step in steps:
        assert due(turns).step == step
        turns += [Turn("model"), Turn("result")]


def test_a_bad_script_is_refused(model: FakeModel, speaker: Speaker) -> None:
    for bad in ('<<[{"text": 1}]>>', '<<[{"txt": "a"}]>>', "<<[oh]>>"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(model, speaker, bad)
        with caught.value as answer:
            assert answer.code == 400 and b"bad script" in answer.read()


def test_a_request_without_tools_gets_a_title(model: FakeModel, speaker: Speaker) -> None:
    body = speaker.body(prompt("title", STEPS), [], False)
    del body["tools"]
    raw = post(model, speaker.path(False), body)
    assert speaker.whole(json.loads(raw)).text == SIDE
    assert model.journal.requests()[-1].side


def test_a_scripted_error(model: FakeModel, speaker: Speaker) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(model, speaker, prompt("fail", [Step(status=529, message="too much")]))
    with caught.value as answer:
        assert answer.code == 529 and "too much" in json.loads(answer.read())["error"]["message"]


def test_a_dropped_reply(model: FakeModel, speaker: Speaker) -> None:
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(model, speaker, prompt("drop it", [Step(text="0123456789" * 4, drop=True)]))
    assert model.journal.scripted("drop it")[-1].end == "dropped"


def test_a_slow_reply_and_a_hanging_one(model: FakeModel, speaker: Speaker) -> None:
    begun = time.monotonic()
    slow = prompt("slow", [Step(text="0123", chunk=1, delay=0.02, hang=0.1)])
    assert ask(model, speaker, slow).text == "0123"
    assert 0.18 <= time.monotonic() - begun < 2


def test_a_client_that_goes_is_noted(model: FakeModel, speaker: Speaker) -> None:
    said = prompt("leave early", [Step(text="word " * 400, chunk=5, delay=0.005)])
    connection = http.client.HTTPConnection("127.0.0.1", model.server_port, timeout=5)
    connection.request("POST", speaker.path(True), json.dumps(speaker.body(said, [], True)))
    answer = connection.getresponse()
    answer.read(10)
    answer.close()
    connection.close()
    request = model.journal.scripted("leave early")[-1]
    until = time.monotonic() + 5
    while request.end is None and time.monotonic() < until:
        time.sleep(0.01)
    assert request.end == "gone"


def test_the_log_tells_what_came(model: FakeModel) -> None:
    ask(model, SPEAKERS["chat"], prompt("log me", [Step(text="ok")]))
    with urllib.request.urlopen(f"{model.url}/_log") as answer:
        last = json.loads(answer.read())[-1]
    assert (last["api"], last["step"], last["end"]) == ("chat", 0, "sent")
    assert last["history"] == ["other", "user"]
    assert [said[:6] for said in last["prompts"]] == ["log me"]


def test_tokens_and_models(model: FakeModel) -> None:
    assert json.loads(post(model, "/v1/messages/count_tokens", {"messages": []}))["input_tokens"] > 0
    assert json.loads(post(model, "/v1beta/models/m:countTokens", {}))["totalTokens"] > 0
    with urllib.request.urlopen(f"{model.url}/v1/models") as answer:
        assert json.loads(answer.read())["data"][0]["id"] == "fake-model"


def _user(*content: Json | str) -> Json:
    return {
        "role": "user",
        "content": [{"type": "text", "text": c} if isinstance(c, str) else c for c in content],
    }


def _said(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "at least one message"),
        ([_said({"type": "text", "text": "a"})], "first message"),
        ([_user("")], "must be non-empty"),
        ([_user()], "non-empty content"),
        ([_user("a"), _said(CALL)], "without `tool_result`"),
        ([_user("a"), _said(CALL), _user("b")], "without `tool_result`"),
        ([_user("a"), _said(CALL), _user("b"), _user(RESULT)], "without `tool_result`"),
        ([_user("a"), _user(RESULT)], "unexpected `tool_use_id`"),
        ([_user("a"), _said({"type": "thinking", "thinking": "t", "signature": "s"})], "Invalid `signature`"),
    ],
)
def test_what_the_real_api_refuses(model: FakeModel, messages: list[Json], why: str) -> None:
    found = refusal(messages)
    assert found is not None and why in found
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(model, "/v1/messages", {"messages": messages, "tools": [{"name": "Bash"}]})
    with caught.value as answer:
        assert answer.code == 400


def test_what_the_real_api_takes() -> None:
    thought = {"type": "thinking", "thinking": "t", "signature": signature("t")}
    system = {"role": "system", "content": "mind"}
    assert refusal([_user("a"), system, _said(thought, CALL), _user(RESULT, "b"), _said()]) is None


def test_chat_refuses_calls_without_results(model: FakeModel) -> None:
    first = Heard("", "a", [("c1", "bash", {})])
    body = SPEAKERS["chat"].body(prompt("x", STEPS), [first], False)
    del body["messages"][-1]
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(model, "/v1/chat/completions", body)
    with caught.value as answer:
        assert b"did not have response messages" in answer.read()
