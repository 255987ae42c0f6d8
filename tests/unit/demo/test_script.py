"""What the demo agent reads out of a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.demo import script

texts = st.text(alphabet=st.sampled_from('a"\\ []<>{}é\n'), max_size=12)
steps = st.one_of(
    texts.map(lambda text: {"say": text}),
    texts.map(lambda text: {"tool": "t", "run": text, "ask": True}),
    st.builds(lambda text, n: {"think": text, "chunk": n, "delay": 0.5}, texts, st.integers(1, 9)),
    st.sampled_from(script.STOPS).map(lambda stop: {"stop": stop}),
    st.floats(0, 10).map(lambda seconds: {"sleep": seconds}),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(steps), texts, texts)
def test_a_script_is_found_in_any_text(wanted: list[dict[str, Any]], before: str, after: str) -> None:
    prompt = f"{before.replace('<', '')}<<{json.dumps(wanted)}>>{after.replace('<', '')}"
    assert script.steps(prompt) == wanted


@settings(deadline=None, max_examples=60)
@given(st.lists(steps, min_size=1), st.lists(steps, min_size=1))
def test_the_last_of_several_scripts_counts(quoted: list[Any], wanted: list[Any]) -> None:
    prompt = f"before: <<{json.dumps(quoted)}>> now <<{json.dumps(wanted)}>>"
    assert script.steps(prompt) == wanted
    cut = f"before: <<{json.dumps(quoted)[:-1]} … now <<{json.dumps(wanted)}>>"
    assert script.steps(cut) == wanted


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_any_prompt_gives_valid_steps_or_an_error(prompt: str) -> None:
    for step in script.steps(prompt):
        script.check(step)


@pytest.mark.parametrize(
    "step",
    [
        {},
        [],
        "say",
        {"say": 1},
        {"say": "x", "think": "y"},
        {"say": "x", "chunk": 0},
        {"say": "x", "chunk": True},
        {"say": "x", "delay": -1},
        {"say": "x", "run": "y"},
        {"tool": "x"},
        {"tool": "x", "run": 1},
        {"tool": "x", "run": "y", "ask": 1},
        {"parallel": {}},
        {"parallel": [{"say": "x"}]},
        {"parallel": [{"die": 1}, {"die": 2}]},
        {"sleep": "1"},
        {"sleep": float("nan")},
        {"spew": -1},
        {"spew": 1.5},
        {"garbage": "x"},
        {"garbage": "long", "bytes": 0},
        {"usage": 1},
        {"stop": "x"},
        {"die": -9},
        {"die": 256},
        {"die": "STOP"},
        {"hang": False},
        {"sum": 1},
    ],
)
def test_an_invalid_step_is_refused(step: Any) -> None:
    with pytest.raises(script.BadScript):
        script.check(step)


@pytest.mark.parametrize("prompt", ["<<[", "<<[1, ]>>", "<<[] >>", '<<[{"say": "x"}]>'])
def test_a_script_that_cannot_be_read_is_refused(prompt: str) -> None:
    with pytest.raises(script.BadScript, match="cannot be read"):
        script.steps(prompt)
