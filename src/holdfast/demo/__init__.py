"""The demo agent: a real program that speaks ACP (version 1) on stdin and stdout and needs no model.

`python -m holdfast.demo` starts it. It runs the script in the prompt; a prompt without one gets a short
friendly run. It starts fast and is small, so it imports nothing heavy.

A script is a JSON list between `<<` and `>>` anywhere in the prompt; if there are several, the last one
counts. Its steps run in order:

    {"say": TEXT, "chunk": 5, "delay": 0.1}    streamed, 5 characters at a time with a pause after each
    {"think": TEXT}                            the same as a thought
    {"tool": NAME, "run": COMMAND}             a shell command in a session of its own, output captured
    {"tool": NAME, "run": COMMAND, "ask": true}    asks for permission first, however long that takes
    {"parallel": [STEP, …]}                    tools at once; may contain one {"die": …, "delay": s}
    {"sleep": s}
    {"spew": n}                                one message of n chunks «0 », «1 », …, as fast as possible
    {"garbage": "notjson" | "notutf8" | "long", "bytes": n}    such a line on stdout («long» is valid JSON)
    {"stderr": TEXT}
    {"usage": {"inputTokens": 1, …}}           reported with the result; with "used" and "size", at once
    {"sum": true}                              says how the tools of this turn ended
    {"stop": "refusal" | "max_tokens" | …}     ends the turn with that reason
    {"error": MESSAGE}                         ends the turn with a JSON-RPC error
    {"die": 3 | "KILL"}                        exit code or signal, at once; tools are left running
    {"hang": true | "deaf"}                    forever, whatever is asked; "deaf" also to SIGTERM and SIGINT

If stdin ends between turns, the agent exits with status 0; within a turn it finishes the turn first, and a
permission that nobody can answer any more counts as refused. SIGTERM ends it at once with status 143.
In both cases, and when it dies, running tools keep running; `session/cancel` stops them.

Its sessions are files `<session id>.jsonl` in `$HOLDFAST_DEMO_HOME`, else `holdfast-demo` in
`$XDG_DATA_HOME` or `~/.local/share`. They are only ever appended to, and the operating system has each
record before the client hears of it; so a kill loses nothing that was reported. The process that has a
session open holds an exclusive `flock` on its file, and a second process is refused. A record is one line:

    {"type": "session", "v": 1, "id", "cwd", "at", "from"?}        the first line; "from": forked from this id
    {"type": "prompt", "n", "turn", "id", "text", "at"}            a turn starts
    {"type": "message" | "thought", "n", "id", "text"}             whole, before its first chunk is streamed
    {"type": "call", "n", "id", "name", "input"}                   before it is reported and before it runs
    {"type": "ask", "n", "call"}  {"type": "answer", "n", "call", "option"}    option null: nobody answered
    {"type": "result", "n", "call", "status", "exit", "output"}    status completed or failed
    {"type": "end", "n", "turn", "stop", "usage"?, "error"?, "at"}    the turn is over; stop null: an error

`n` counts the records of a file from 1. `id` of prompts, messages and thoughts is the `messageId`, `id` of
a call the `toolCallId`; both are the same live and on replay. The file is sound when every line is a whole
record, `n` has no gap, every call has a result and the last turn its end. A last line without a newline was
cut off by a crash; the next writer ends it and appends after it.
"""

from __future__ import annotations
