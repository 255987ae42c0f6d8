"""Whether a session of Hermes is sound: a pure function of the facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.model.event import NewEvent
from holdfast.peers.hermes import journal, values
from holdfast.peers.hermes.conversation import HermesConversation
from holdfast.peers.hermes.events import HermesEventBuilder
from holdfast.peers.hermes.facts import GRACE_S, HermesFacts
from holdfast.peers.hermes.layout import session_id
from holdfast.peers.hermes.sidecar import Sidecar
from holdfast.transcripts.reader import TranscriptProblem

# With only these the stored session is complete and safe to resume; others mean a loss or a doubt.
HARMLESS = frozenset(
    {"count_mismatch", "duplicate_partials", "duplicate_result", "intentional_shrink", "missing_sidecar"}
)


class TurnProgress(msgspec.Struct):
    """How far a conversation got, counted from its events."""

    turns: int = 0
    complete: int | None = None
    answered: bool = False  # the last message is an answer
    replied: bool = False  # something follows the last prompt

    def on_event(self, event: NewEvent) -> None:
        """Count one event."""
        if event.kind == "user":
            self._end_turn()
            self.turns, self.answered, self.replied = self.turns + 1, False, False
        elif event.kind == "assistant":
            self.answered, self.replied = not event.body.get("partial"), True
        elif event.kind in ("tool_progress", "tool_summary"):
            self.answered, self.replied = False, True
        elif event.kind == "error":
            self.answered = False

    def finish(self) -> None:
        """Count the last turn."""
        self._end_turn()

    def _end_turn(self) -> None:
        if self.turns and self.answered:
            self.complete = self.turns


def problems(
    conversation: HermesConversation,
    builder: HermesEventBuilder,
    progress: TurnProgress,
    turns: list[journal.JournaledTurn],
    now: float,
) -> list[TranscriptProblem]:
    """Everything that is wrong: the stores first, then the conversation."""
    facts = conversation.facts
    if facts.deleted:
        return [deleted_problem(facts)]
    return [
        *_store_problems(facts, conversation),
        *file_problems(facts),
        *copy_problems(facts, conversation),
        *stream_problems(facts, turns, now),
        *_conversation_problems(facts, builder, progress, now),
    ]


def deleted_problem(facts: HermesFacts) -> TranscriptProblem:
    """A session that the user deleted."""
    text = "the user deleted it in the web UI; its remains stay deleted"
    return _problem("deleted_tombstone", text, database=facts.database)


def is_sound(problems: Iterable[TranscriptProblem]) -> bool:
    """Whether a resume would lose or repeat nothing."""
    return all(problem.code in HARMLESS for problem in problems)


def is_fresh(turn: journal.JournaledTurn, now: float) -> bool:
    """Whether a turn started so recently that it may still be running."""
    return turn.at is not None and now - turn.at < GRACE_S


def _store_problems(facts: HermesFacts, conversation: HermesConversation) -> list[TranscriptProblem]:
    found = []
    if facts.damage or conversation.lost_rows:
        text = "part of its database cannot be read"
        evidence = {"said": facts.damage, "rows": conversation.lost_rows}
        found.append(_problem("store_damaged", text, database=facts.database, **evidence))
    if facts.unknown_schema:
        found.append(_problem("schema_unknown", "its database does not have the tables of hermes-agent"))
    return found


def file_problems(facts: HermesFacts) -> list[TranscriptProblem]:
    """What is wrong with each file of its own."""
    found = []
    live, path = facts.live, facts.live.path
    evidence = {"path": path, "bytes": live.size, "messages": len(live.messages)}
    if live.state == "torn":
        text = f"its sidecar is damaged; {_messages(len(live.messages))} in it can be read"
        found.append(_problem("torn_live", text, **evidence))
    elif live.state == "empty":
        found.append(_problem("empty_live", "its sidecar is empty", **evidence))
    elif live.state == "foreign" and facts.header is None and facts.backup.state == "absent":
        found.append(_problem("foreign_file", "the file is not a session", **evidence))
    elif live.state in ("foreign", "malformed", "unreadable"):
        why = "cannot be read" if live.state == "unreadable" else "has no list of messages"
        found.append(_problem("malformed_session", f"its sidecar {why}", **evidence))
    if live.surrogates:
        text = "its sidecar contains half a character, so the web UI cannot save it again"
        found.append(_problem("lone_surrogate", text, path=path))
    if facts.backup.state not in ("whole", "absent"):
        found.append(
            _problem("malformed_backup", "part of its backup cannot be read", path=facts.backup.path)
        )
    if lines := facts.torn_turns + facts.torn_runs + sum(run.torn for run in facts.runs.values()):
        text = f"{'1 line' if lines == 1 else f'{lines:,} lines'} of its journals cannot be read"
        found.append(_problem("journal_torn", text, lines=lines))
    if (other := live.other_id(session_id(path.rpartition("/")[2]) or "")) is not None:
        text = f"its sidecar names another session: {values.replace_lone_surrogates(other)[:200]}"
        found.append(
            _problem("session_id_mismatch", text, path=path, session_id=values.replace_lone_surrogates(other))
        )
    elif live.nameless:
        text = "its sidecar does not name its session"
        found.append(_problem("session_id_mismatch", text, path=path, session_id=None))
    return found


def copy_problems(facts: HermesFacts, conversation: HermesConversation) -> list[TranscriptProblem]:
    """Where its copies differ."""
    return [
        *_backup_problems(facts, conversation.only_backup),
        *_row_problems(facts, conversation),
        *_count_problems(facts.live, conversation.repeats),
    ]


def _backup_problems(facts: HermesFacts, only_backup: int) -> list[TranscriptProblem]:
    found = []
    live, backup, counts = facts.live, facts.backup, _counts(facts)
    longer = len(backup.messages) > len(live.messages)
    if facts.shrink_reason and longer:
        text = f"its backup has more messages because of a deliberate {facts.shrink_reason}"
        found.append(_problem("intentional_shrink", text, **counts))
    elif _is_diverged(facts, only_backup):
        text = f"its sidecar has {_messages(len(live.messages))}; {_only_in(only_backup, 'its backup')}"
        code = "shrunken_live" if longer else "content_diverged"
        found.append(_problem(code, text, lost=only_backup, **counts))
    if live.state == "absent" and backup.state == "whole":
        # As in the web UI: only a database that can be read can show that the session was deleted.
        known = facts.header is not None or not facts.database_answered
        code = "orphan_backup" if known else "orphan_backup_no_row"
        text = f"its sidecar is missing; its backup has {_messages(len(backup.messages))}"
        found.append(_problem(code, text, path=backup.path, **counts))
    return found


def _is_diverged(facts: HermesFacts, only_backup: int) -> bool:
    """Whether the backup of a whole sidecar has messages that nobody removed on purpose."""
    live, backup = facts.live, facts.backup
    if facts.shrink_reason and len(backup.messages) > len(live.messages):
        return False
    return live.state == "whole" and backup.usable and only_backup > 0


def _row_problems(facts: HermesFacts, conversation: HermesConversation) -> list[TranscriptProblem]:
    found = []
    live, backup, only_rows = facts.live, facts.backup, conversation.only_rows
    if live.state == "whole" and only_rows and not live.head.get("pre_compression_snapshot"):
        evidence = {"rows": only_rows, "database": facts.database, **_counts(facts)}
        where = "the agent's database"
        if facts.transcript is not None:
            where, evidence["transcript"] = "the agent's transcript", facts.transcript
        is_shrunken = len(backup.messages) > len(live.messages)
        if only_rows > conversation.only_live:
            text = f"{where} has {_messages(only_rows)} that the sidecar lacks"
            found.append(_problem("live_behind_db", text, **evidence))
        elif is_shrunken or not _is_diverged(facts, conversation.only_backup):
            text = f"the sidecar has other messages; {_only_in(only_rows, where)}"
            found.append(_problem("content_diverged", text, **evidence))
    if facts.header is not None and facts.header.text("source") == "webui" and live.state == "absent":
        if backup.state != "whole" and (only_rows or conversation.undone):
            text = f"the web UI has no file for it; the agent has {_messages(only_rows)}"
            found.append(_problem("missing_sidecar", text, database=facts.database))
        elif backup.state == "absent":
            text = "only a row without messages is left of it"
            found.append(_problem("empty_db_row", text, database=facts.database))
    return found


def _count_problems(live: Sidecar, repeats: int) -> list[TranscriptProblem]:
    found = []
    count, actual = live.head.get("message_count"), len(live.messages)
    if live.state == "whole" and count is not None and (type(count) is not int or count != actual):
        text = f"its sidecar has {_messages(actual)} and records another count"
        found.append(_problem("count_mismatch", text, says=values.storable(count), has=actual))
    if repeats:
        text = f"its sidecar repeats partial answers {repeats:,} times"
        found.append(_problem("duplicate_partials", text, count=repeats))
    return found


def _counts(facts: HermesFacts) -> dict[str, Any]:
    return {"live": len(facts.live.messages), "backup": len(facts.backup.messages)}


def stream_problems(
    facts: HermesFacts, turns: list[journal.JournaledTurn], now: float
) -> list[TranscriptProblem]:
    """Turns that never finished."""
    found = []
    pending = facts.pending
    if pending is not None:
        evidence = {"stream": pending.stream, "started_at": pending.at}
        if is_fresh(pending, now):
            found.append(_problem("run_still_open", "a turn started a moment ago", **evidence))
        else:
            since = f"since {values.stamp(pending.at)}" if pending.at else "since an unknown time"
            found.append(
                _problem(
                    "stale_stream", f"a turn is marked as running {since}, and nothing runs it", **evidence
                )
            )
    for turn in turns:
        if turn is not pending:
            text = "the web UI accepted a prompt that never reached the conversation"
            found.append(_problem("journal_pending_turn", text, turn=turn.id, prompt=turn.prompt))
    return found


def _conversation_problems(
    facts: HermesFacts, builder: HermesEventBuilder, progress: TurnProgress, now: float
) -> list[TranscriptProblem]:
    found = []
    if builder.orphans:
        text = "tool results without a call"
        found.append(
            _problem("orphan_tool_row", text, calls=builder.orphans[:20], count=len(builder.orphans))
        )
    if builder.doubled:
        text = "tool calls with more than one result"
        found.append(
            _problem("duplicate_result", text, calls=builder.doubled[:20], count=len(builder.doubled))
        )
    if builder.dangling:
        text = "tool calls without a result; what they did is unknown"
        found.append(_problem("dangling_call", text, calls=[call["call"] for call in builder.dangling[:20]]))
    if facts.pending is not None and is_fresh(facts.pending, now):
        return found  # the answer may still come
    if progress.turns and not progress.replied:
        found.append(_problem("no_reply", "its last prompt has no answer"))
    elif progress.turns and not progress.answered:
        found.append(_problem("turn_unfinished", "its last turn has no final answer"))
    return found


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _only_in(count: int, where: str) -> str:
    return f"{_messages(count)} {'is' if count == 1 else 'are'} only in {where}"


def _problem(code: str, text: str, **evidence: Any) -> TranscriptProblem:
    return TranscriptProblem(code, text, evidence)
