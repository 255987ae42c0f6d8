"""Every refusal and failure a user can meet: a code, one sentence, a hint, and an exit status.

The default sentence of an error is its docstring. `docs/exit-codes.md` lists the statuses; a test
keeps the two level.
"""

from __future__ import annotations

from typing import Any


class HoldfastError(Exception):
    """Something went wrong that Holdfast has no better word for."""

    code = "error"
    exit_status = 1
    hint = ""

    def __init__(self, message: str | None = None, *, hint: str | None = None, **facts: Any):
        self.message = message or (self.__doc__ or self.code).strip()
        if hint is not None:
            self.hint = hint
        self.facts = facts
        super().__init__(self.message)

    def as_json(self) -> dict[str, Any]:
        """The error as `--json` and the API show it."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.facts}

    @classmethod
    def told(cls, shown: dict[str, Any], exit_status: int) -> HoldfastError:
        """The error that another process had and told as JSON."""
        facts = dict(shown)
        problem = cls(facts.pop("message"), hint=facts.pop("hint"))
        problem.code, problem.exit_status, problem.facts = facts.pop("code"), exit_status, facts
        return problem


class BadInput(HoldfastError):
    """That input cannot be taken; nothing was changed."""

    code = "bad_input"
    exit_status = 2


class UnstorableText(BadInput):
    """That text cannot be stored and read back the same; nothing was written."""

    code = "unstorable_text"


class TooLarge(BadInput):
    """That is larger than Holdfast takes; nothing was written."""

    code = "too_large"


class MetadataInvalid(BadInput):
    """Metadata is changed by a JSON object, merged into what is there; nothing was changed."""

    code = "metadata_invalid"


class TokenField(BadInput):
    """That metadata key names an agent's token, which lives in its own lineage; nothing was changed."""

    code = "token_field"
    hint = "`holdfast token ID record NATIVE_ID` records a token; metadata cannot hold or clear one"


class NotFound(HoldfastError):
    """There is no such thing here."""

    code = "not_found"
    exit_status = 3


class Ambiguous(NotFound):
    """That beginning of an id fits several."""

    code = "ambiguous"
    hint = "give more letters of the id"


class Refused(HoldfastError):
    """That does not fit the present state; nothing was changed."""

    code = "refused"
    exit_status = 4


class KeyTaken(Refused):
    """Another live session has that key."""

    code = "key_taken"


class VersionMismatch(Refused):
    """The metadata has changed since that version was read; nothing was changed."""

    code = "version_mismatch"
    hint = "read it again and repeat the change on the current version"


class MetadataUnreadable(Refused):
    """The stored metadata cannot be read; it is kept byte for byte and nothing was changed."""

    code = "metadata_unreadable"
    exit_status = 7
    hint = "`holdfast doctor self` can rebuild it from the session's log"


class StaleGeneration(Refused):
    """Another owner has taken this task since; the write was refused."""

    code = "stale_generation"


class SessionRunning(Refused):
    """A task of this session is running."""

    code = "session_running"


class SessionDeleted(Refused):
    """This session is in the trash."""

    code = "session_deleted"
    hint = "`holdfast restore ID` brings it back"


class IllegalChange(Refused):
    """That change does not follow from the present status."""

    code = "illegal_change"


class NoToken(Refused):
    """This session has no token to resume with."""

    code = "resume_unavailable"


class ResumeUnsafe(Refused):
    """Going on with this session is not safe."""

    code = "resume_unsafe"
    hint = "begin anew with --fresh, branch off with --fork, or overrule it with --anyway"


class PlanChanged(Refused):
    """What the plan was made from has changed since; nothing was done."""

    code = "plan_changed"
    hint = "look again with `holdfast doctor` and apply the new plan"


class ProgramRunning(Refused):
    """The program whose files these are is running; nothing was done."""

    code = "program_running"
    hint = "end it, then apply the plan"


class AgentMissing(HoldfastError):
    """That agent is not installed here."""

    code = "agent_missing"
    exit_status = 10


class AgentUnusable(AgentMissing):
    """That agent cannot be run by Holdfast yet."""

    code = "agent_unusable"
    hint = "`holdfast agents` lists those that can"


class TaskFailed(HoldfastError):
    """The task failed."""

    code = "task_failed"
    exit_status = 11


class TaskCancelled(HoldfastError):
    """The task was cancelled."""

    code = "task_cancelled"
    exit_status = 12


class TaskInterrupted(HoldfastError):
    """The agent was gone without a final answer."""

    code = "task_interrupted"
    exit_status = 13


class StoreMissing(HoldfastError):
    """There is no Holdfast home here."""

    code = "store_missing"
    exit_status = 5
    hint = "set HOLDFAST_HOME, or make one with `holdfast init`"


class StoreBusy(HoldfastError):
    """Another process is holding the store."""

    code = "store_busy"
    exit_status = 6
    hint = "try again; if it stays so, end the process that holds it"


class PortTaken(HoldfastError):
    """That address cannot be listened on."""

    code = "port_taken"
    exit_status = 6
    hint = "give another with --host or --port"


class NotLetIn(HoldfastError):
    """The hub does not let this request in."""

    code = "forbidden"
    exit_status = 14


class Unauthorized(NotLetIn):
    """That needs the hub's token."""

    code = "unauthorized"
    hint = "open the address that `holdfast up` printed, or send the token as `Authorization: Bearer …`"


class BadHost(NotLetIn):
    """The hub is not known by that name."""

    code = "bad_host"
    hint = "add the name to hosts in the [hub] table of config.toml"


class BadOrigin(NotLetIn):
    """A page of another site asked for that."""

    code = "bad_origin"


class HubGone(HoldfastError):
    """The hub does not answer."""

    code = "hub_gone"
    exit_status = 9
    hint = "start it with `holdfast up`"


class StoreUnreadable(HoldfastError):
    """The store cannot be read."""

    code = "store_unreadable"
    exit_status = 7
    hint = "`holdfast doctor self` says what is wrong and can rebuild it from the mirrors"


class SchemaNewer(StoreUnreadable):
    """The store was written by a newer Holdfast."""

    code = "schema_newer"
    hint = "upgrade Holdfast; nothing was changed"


class DiskFull(HoldfastError):
    """No room is left on the disk; nothing was half written."""

    code = "disk_full"
    exit_status = 8
    hint = "make room and try again"


class StoreReadOnly(HoldfastError):
    """The store cannot be written: the disk or the files are read-only."""

    code = "store_read_only"
    exit_status = 8


class StoreUnreachable(HoldfastError):
    """The database server does not answer."""

    code = "store_unreachable"
    exit_status = 9
    hint = "check that it runs and that the address is right"


class CommitUnknown(StoreUnreachable):
    """The connection broke while committing and the server cannot say whether it did."""

    code = "commit_unknown"
    hint = "read back what you wrote before you write it again"


class StoreClosed(HoldfastError):
    """The store has been closed."""

    code = "store_closed"
