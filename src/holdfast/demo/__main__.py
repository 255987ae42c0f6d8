"""`python -m holdfast.demo` is the demo agent."""

from __future__ import annotations

import sys

from holdfast.demo.server import main

if __name__ == "__main__":
    main(sys.argv[1:])
