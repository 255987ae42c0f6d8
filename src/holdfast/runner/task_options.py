"""The options of a task that the runner reads and writes: their names in the stored JSON."""

from __future__ import annotations

START_MODE = "begin"  # how its conversation starts: "anyway" or FORK; by the verdict if absent
NO_MOVE = "insists"  # it fails where it would otherwise move to a fresh session
BRIEF = "brief"  # whether its prompt starts with a brief of the run before
FORK = "fork"  # which conversation is copied, and up to where
WORKER = "worker"  # the worker that queued it and means to run it
LEFTOVERS = "leftovers"  # its own policy for leftover processes
