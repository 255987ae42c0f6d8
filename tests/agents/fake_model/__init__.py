"""A fake model: four wire protocols on one loopback port, and one script syntax in the prompt for all.

A prompt carries its script as `<<[step, …]>>`. The server remembers nothing: which step is due follows from
what came after that prompt in the request. So anything may be killed and started again, and a history that
is wrong or too short shows as a wrong step.

| module | what it is |
|---|---|
| `script` | steps, prompts that carry them, and which one is due |
| `reply` | what a step comes to: thought, text, calls, pace |
| `tools` | which tool of the agent runs a shell command |
| `anthropic`, `responses`, `chat`, `gemini` | a request read, a reply written; values in, values out |
| `history` | what the Anthropic API refuses |
| `journal` | every request and how its reply ended |
| `server` | the HTTP around it |
"""
