"""Exit statuses of commands that ended without an error; docs/exit-codes.md lists all of them."""

FINDINGS = 15  # `doctor`: there is damage
NOTHING_SENT = 16  # `redispatch`: no task is run again
