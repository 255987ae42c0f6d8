"""`python -m holdfast.demo` is the demo agent."""

import sys

from holdfast.demo.server import main

if __name__ == "__main__":
    main(sys.argv[1:])
