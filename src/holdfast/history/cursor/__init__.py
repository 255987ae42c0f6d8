"""Cursor's own stores: the SDK's (SQLite and JSONL), the CLI's `store.db`, and agent-transcripts."""

from holdfast.history.cursor.reader import CursorReader
from holdfast.history.cursor.runs import Message, Run, run_events

__all__ = ["CursorReader", "Message", "Run", "run_events"]
