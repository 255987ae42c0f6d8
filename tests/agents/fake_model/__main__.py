"""`python -m tests.agents.fake_model [PORT]`: the fake model for a person who tries things."""

from __future__ import annotations

import signal
import sys

from tests.agents.fake_model.server import serving

with serving(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as model:
    print(f"fake model on {model.url}; requests at {model.url}/_log; Ctrl-C ends it", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
