"""What of OpenCode's database belongs to a session: it and its subagents' sessions, never a secret.

`account`, `control_account`, `credential` and `session_share` are not among the tables.
"""

from __future__ import annotations

from holdfast.history.share import Table

# A session and those of its subagents, which OpenCode deletes with it.
MINE = "select ?1 union select session.id from session join mine on session.parent_id = mine.id"

TABLES = (
    Table("session", ("id",), "id"),
    Table("message", ("id",), "session_id"),
    Table("part", ("id",), "session_id"),
    Table("session_message", ("id",), "session_id", under="session"),
    Table(
        "project",
        ("id",),
        under="session",
        where="id in (select project_id from session where id in mine)",
    ),
    Table("event_sequence", ("aggregate_id",), "aggregate_id", under="session"),
    Table("event", ("id",), "aggregate_id", under="event_sequence"),
    Table("session_input", ("id",), "session_id", under="session"),
    Table("session_context_epoch", ("session_id",), "session_id", under="session"),
    Table("todo", ("session_id", "position"), "session_id", under="session"),
)
