"""What of Hermes's database belongs to a session."""

from __future__ import annotations

from holdfast.history.share import Table

MINE = "select ?1"

TABLES = (
    # A parent that is gone is forgotten, as Hermes itself does when it deletes one.
    Table("sessions", ("id",), "id", loose="parent_session_id"),
    Table("messages", ("id",), "session_id"),
    Table(
        "session_model_usage",
        ("session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task"),
        "session_id",
        under="sessions",
    ),
)
