"""The demo agent: a real program that speaks ACP (version 1) on stdin and stdout and needs no model.

`python -m holdfast.demo` starts it. It does what the prompt's script says; a prompt without one gets a
friendly little run. It starts quickly and is small, so it imports nothing heavy.

A script is a JSON list between `<<` and `>>` anywhere in the prompt; of several the last one counts.
Its steps, done in order:

    {"say": TEXT, "chunk": 5, "delay": 0.1}    streamed, 5 characters at a time with a pause after each
    {"think": TEXT}                            the same as a thought
    {"tool": NAME, "run": COMMAND}             a shell command in a session of its own, output captured
    {"tool": NAME, "run": COMMAND, "ask": true}    asks for permission first, however long that takes
    {"parallel": [STEP, …]}                    tools at once; may hold one {"die": …, "delay": s}
    {"sleep": s}
    {"spew": n}                                one message of n chunks «0 », «1 », …, as fast as it can
    {"garbage": "notjson" | "notutf8" | "long", "bytes": n}    such a line on stdout («long» is valid JSON)
    {"stderr": TEXT}
    {"usage": {"inputTokens": 1, …}}           told with the answer; with "used" and "size", told at once
    {"sum": true}                              says how the tools of this turn ended
    {"stop": "refusal" | "max_tokens" | …}     ends the turn with that reason
    {"error": MESSAGE}                         ends the turn with a JSON-RPC error
    {"die": 3 | "KILL"}                        exit code or signal, at once; tools are left running
    {"hang": true | "deaf"}                    for ever, whatever is asked; "deaf" also to SIGTERM and SIGINT

The end of stdin between turns ends it with status 0; within a turn it finishes the turn first, and a
permission that nobody can answer any more counts as refused. SIGTERM ends it at once with status 143.
In both cases, and when it dies, tools that run are left to themselves; `session/cancel` ends them.

Its sessions are files `<session id>.jsonl` in `$HOLDFAST_DEMO_HOME`, else `holdfast-demo` in
`$XDG_DATA_HOME` or `~/.local/share`. They are only ever appended to, and each record is handed to the
operating system before the client is told of it; so what was told is there, whoever was killed. The
process that has a session open holds an exclusive `flock` on its file, and a second one is refused. A
record is one line:

    {"type": "session", "v": 1, "id", "cwd", "at", "from"?}        the first line; "from": forked from this id
    {"type": "prompt", "n", "turn", "id", "text", "at"}            a turn begins
    {"type": "message" | "thought", "n", "id", "text"}             whole, before its first piece is streamed
    {"type": "call", "n", "id", "name", "input"}                   before it is told and before it runs
    {"type": "ask", "n", "call"}  {"type": "answer", "n", "call", "option"}    option null: nobody answered
    {"type": "result", "n", "call", "status", "exit", "output"}    status completed or failed
    {"type": "end", "n", "turn", "stop", "usage"?, "error"?, "at"}    the turn is over; stop null: an error

`n` counts the records of a file from 1. `id` of prompts, messages and thoughts is the `messageId`, `id` of
a call the `toolCallId`; both are the same live and on replay. The file is sound when every line is a whole
record, `n` has no gap, every call has a result and the last turn its end. A line without a newline at its
end was cut off by a death; the next writer closes it and goes on behind it.
"""

from __future__ import annotations
