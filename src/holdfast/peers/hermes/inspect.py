"""Whether a session of Hermes is sound: a pure judgement of what was found."""

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
from holdfast.transcripts.reader import TranscriptProblem

# With these, what is stored is all there and would be gone on with; the rest is a loss or a doubt.
HARMLESS = frozenset(
    {"count_mismatch", "duplicate_partials", "duplicate_result", "intentional_shrink", "missing_sidecar"}
)


class TurnProgress(msgspec.Struct):
    """How far a conversation has come, counted from its events."""

    turns: int = 0
    complete: int | None = None
    answered: bool = False  # the last thing that was said is an answer
    said: bool = False  # something came after the last prompt

    def take(self, event: NewEvent) -> None:
        """One event more."""
        if event.kind == "user":
            self._settle()
            self.turns, self.answered, self.said = self.turns + 1, False, False
        elif event.kind == "assistant":
            self.answered, self.said = not event.body.get("partial"), True
        elif event.kind in ("tool_progress", "tool_summary"):
            self.answered, self.said = False, True
        elif event.kind == "error":
            self.answered = False

    def end(self) -> None:
        """That was all."""
        self._settle()

    def _settle(self) -> None:
        if self.turns and self.answered:
            self.complete = self.turns


def problems(
    story: HermesConversation,
    telling: HermesEventBuilder,
    tally: TurnProgress,
    turns: list[journal.JournaledTurn],
    now: float,
) -> list[TranscriptProblem]:
    """Everything that is wrong, the stores first, then the conversation."""
    facts = story.facts
    if facts.deleted:
        text = "it was deleted in the web UI; what is left of it stays deleted"
        return [TranscriptProblem("deleted_tombstone", text, {"database": facts.database})]
    return [
        *_stores(facts, story),
        *file_problems(facts),
        *copy_problems(facts, story),
        *stream_problems(facts, turns, now),
        *_conversation(facts, telling, tally, now),
    ]


def is_sound(problems: Iterable[TranscriptProblem]) -> bool:
    """Whether nothing of it would be lost or done again by going on."""
    return all(problem.code in HARMLESS for problem in problems)


def is_fresh(turn: journal.JournaledTurn, now: float) -> bool:
    """Whether a turn began so lately that it may well be under way."""
    return turn.at is not None and now - turn.at < GRACE_S


def _stores(facts: HermesFacts, story: HermesConversation) -> list[TranscriptProblem]:
    found = []
    if facts.damage or story.lost_rows:
        text = "its database cannot be read in full"
        found.append(
            _problem("store_damaged", text, database=facts.database, said=facts.damage, rows=story.lost_rows)
        )
    if facts.unknown_schema:
        found.append(_problem("schema_unknown", "its database has not the tables of hermes-agent"))
    return found


def file_problems(facts: HermesFacts) -> list[TranscriptProblem]:
    """What is wrong with each of its files by itself."""
    found = []
    live, path = facts.live, facts.live.path
    shown = {"path": path, "bytes": live.size, "messages": len(live.messages)}
    if live.state == "torn":
        text = f"its sidecar is torn; {_messages(len(live.messages))} of it can be read"
        found.append(_problem("torn_live", text, **shown))
    elif live.state == "empty":
        found.append(_problem("empty_live", "its sidecar has nothing in it", **shown))
    elif live.state == "foreign" and facts.header is None and facts.backup.state == "absent":
        found.append(_problem("foreign_file", "that file is no session", **shown))
    elif live.state in ("foreign", "malformed", "unreadable"):
        cannot = "cannot be read" if live.state == "unreadable" else "has no list of messages"
        found.append(_problem("malformed_session", f"its sidecar {cannot}", **shown))
    if live.surrogates:
        text = "its sidecar holds half a character, and the web UI can never save it again"
        found.append(_problem("lone_surrogate", text, path=path))
    if facts.backup.state not in ("whole", "absent"):
        found.append(
            _problem("malformed_backup", "its backup cannot be read in full", path=facts.backup.path)
        )
    if lines := facts.torn_turns + facts.torn_runs + sum(run.torn for run in facts.runs.values()):
        text = f"{'a line' if lines == 1 else f'{lines:,} lines'} of its journals cannot be read"
        found.append(_problem("journal_torn", text, lines=lines))
    if (other := live.other_id(session_id(path.rpartition("/")[2]) or "")) is not None:
        text = f"its sidecar says that it is session {values.replace_lone_surrogates(other)[:200]}"
        found.append(
            _problem("session_id_mismatch", text, path=path, session_id=values.replace_lone_surrogates(other))
        )
    elif live.nameless:
        text = "its sidecar does not say which session it is"
        found.append(_problem("session_id_mismatch", text, path=path, session_id=None))
    return found


def copy_problems(facts: HermesFacts, story: HermesConversation) -> list[TranscriptProblem]:
    """Where its copies do not say the same."""
    found = []
    live, backup = facts.live, facts.backup
    counts = {"live": len(live.messages), "backup": len(backup.messages)}
    if facts.why_shorter and len(backup.messages) > len(live.messages):
        text = f"its backup has more, because of a {facts.why_shorter} on purpose"
        found.append(_problem("intentional_shrink", text, **counts))
    elif live.usable and backup.usable and story.only_backup and live.state == "whole":
        longer = len(backup.messages) > len(live.messages)
        text = (
            f"its sidecar has {_messages(len(live.messages))}; {story.only_backup:,} are in its backup only"
        )
        found.append(
            _problem(
                "shrunken_live" if longer else "content_diverged", text, lost=story.only_backup, **counts
            )
        )
    if live.state == "absent" and backup.state == "whole":
        # As the web UI has it: only a database that answers can say that the session was deleted.
        known = facts.header is not None or not facts.consulted
        code = "orphan_backup" if known else "orphan_backup_no_row"
        text = f"its sidecar is gone; its backup has {_messages(len(backup.messages))}"
        found.append(_problem(code, text, path=backup.path, **counts))
    if live.state == "whole" and story.only_rows and not live.head.get("pre_compression_snapshot"):
        shown = {"rows": story.only_rows, "database": facts.database, **counts}
        where = "database"
        if facts.transcript is not None:
            where, shown["transcript"] = "transcript", facts.transcript
        if story.only_rows > story.only_live:
            text = f"the agent's {where} has {_messages(story.only_rows)} that the sidecar lost"
            found.append(_problem("live_behind_db", text, **shown))
        elif not any(problem.code == "content_diverged" for problem in found):
            text = f"the sidecar has other messages; {story.only_rows:,} are in the agent's {where} only"
            found.append(_problem("content_diverged", text, **shown))
    if facts.header is not None and facts.header.word("source") == "webui":
        if live.state == "absent" and backup.state != "whole" and (story.only_rows or story.undone):
            text = f"the web UI has no file for it; the agent has {_messages(story.only_rows)}"
            found.append(_problem("missing_sidecar", text, database=facts.database))
        elif live.state == "absent" and backup.state == "absent":
            text = "there is nothing of it but a row without messages"
            found.append(_problem("empty_db_row", text, database=facts.database))
    told = live.head.get("message_count")
    if live.state == "whole" and told is not None and (type(told) is not int or told != len(live.messages)):
        text = f"its sidecar has {_messages(len(live.messages))} and says another number"
        found.append(_problem("count_mismatch", text, says=values.storable(told), has=len(live.messages)))
    if count := story.repeats:
        text = f"partial answers stand in its sidecar again and again, {count:,} times too many"
        found.append(_problem("duplicate_partials", text, count=count))
    return found


def stream_problems(
    facts: HermesFacts, turns: list[journal.JournaledTurn], now: float
) -> list[TranscriptProblem]:
    """Turns that never came to an end."""
    found = []
    pending = facts.pending
    if pending is not None:
        shown = {"stream": pending.stream, "started_at": pending.at}
        if is_fresh(pending, now):
            found.append(_problem("run_still_open", "a turn of it began a moment ago", **shown))
        else:
            since = f"since {values.stamp(pending.at)}" if pending.at else "and began long ago"
            found.append(_problem("stale_stream", f"a turn of it is said to run {since}", **shown))
    for turn in turns:
        if turn is not pending:
            text = "a prompt was accepted and never came into the conversation"
            found.append(_problem("journal_pending_turn", text, turn=turn.id, prompt=turn.prompt))
    return found


def _conversation(
    facts: HermesFacts, telling: HermesEventBuilder, tally: TurnProgress, now: float
) -> list[TranscriptProblem]:
    found = []
    if telling.orphans:
        text = "results of tools whose calls are nowhere"
        found.append(
            _problem("orphan_tool_row", text, calls=telling.orphans[:20], count=len(telling.orphans))
        )
    if telling.doubled:
        text = "calls that have more than one result"
        found.append(
            _problem("duplicate_result", text, calls=telling.doubled[:20], count=len(telling.doubled))
        )
    if telling.dangling:
        text = "calls whose result is nowhere; what they did is not known"
        found.append(_problem("dangling_call", text, calls=[call["call"] for call in telling.dangling[:20]]))
    if facts.pending is not None and is_fresh(facts.pending, now):
        return found  # it may be being answered
    if tally.turns and not tally.said:
        found.append(_problem("no_reply", "its last prompt has no answer"))
    elif tally.turns and not tally.answered:
        found.append(_problem("turn_unfinished", "its last turn has not come to an answer"))
    return found


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _problem(code: str, text: str, **evidence: Any) -> TranscriptProblem:
    return TranscriptProblem(code, text, evidence)
