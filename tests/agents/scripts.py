"""The scripts that the tests play."""

from __future__ import annotations

from tests.agents.fake_model.script import Step

TWO_TOOLS = (
    Step(say="First a file.", shell="echo one > one.txt; echo out-one"),
    Step(say="Then another.", shell="echo two > two.txt; echo out-two"),
    Step(text="Both files are there.", chunk=4),
)
ANSWER = (Step(text="Yes, I am still here."),)
# Long enough to be struck in the middle, also on a busy machine; not the same word again and again, which
# Gemini takes for a loop.
SLOW_TEXT = (
    Step(say="A tool first.", shell="echo one > one.txt; echo out-one"),
    Step(text=" ".join(f"word{n}" for n in range(45)) + " end.", chunk=5, delay=0.04),
)
SLOW_TOOL = (
    Step(say="A slow one.", shell="touch started; sleep 2.5; touch finished; echo waited"),
    Step(say="A quick one.", shell="echo two > two.txt; echo out-two"),
    Step(text="Both are done."),
)
GATED_TOOL = (  # as long as it must be, however busy the machine is: until there is a file `gate`
    Step(
        say="It waits for me.",
        shell="touch started; timeout 120 sh -c 'until [ -e gate ]; do sleep 0.1; done'; "
        "touch finished; echo waited",
    ),
    *SLOW_TOOL[1:],
)
LONG_TOOL = (
    Step(say="It takes long.", shell="touch started; sleep 6; touch finished"),
    Step(text="It is done."),
)
SLOW_START = (Step(text="I began late, and once."),)
EVERYTHING = (
    Step(
        say="Some words before the first tool, and of these so many that it takes a while to say them.",
        shell="sleep 0.4; echo out-one",
        chunk=9,
        delay=0.03,
    ),
    Step(
        say="And before the second.", shell="echo two > two.txt; sleep 0.3; echo out-two", chunk=4, delay=0.02
    ),
    Step(
        text="The end of it all; this too is long enough to be cut off in its middle or near its end.",
        chunk=7,
        delay=0.03,
    ),
)
