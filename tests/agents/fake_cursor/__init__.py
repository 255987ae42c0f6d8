"""A fake of Cursor's backend on loopback, and the real Cursor SDK driven against it.

Real SDK, scripted backend: what a real backend sends, and in which order, is not proven by this.

| module | what it is |
|---|---|
| `wire` | protobuf and Connect frames, as far as they are needed |
| `script` | what a run is to do; it rides in the prompt as `<<{…}>>` |
| `backend` | the HTTP around it |
| `sdk` | a program that uses the real SDK: `python -m tests.agents.fake_cursor.sdk` |
"""
