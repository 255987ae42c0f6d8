"""Every error that a user can see: a code, one sentence, a hint, and an exit status.

The default message of an error is its docstring. `docs/exit-codes.md` lists the exit statuses; a test
compares the two.
"""

from __future__ import annotations

from typing import Any


class HoldfastError(Exception):
    """Holdfast failed unexpectedly."""

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
    def from_json(cls, shown: dict[str, Any], exit_status: int) -> HoldfastError:
        """Rebuild an error that another process reported as JSON."""
        facts = dict(shown)
        problem = cls(facts.pop("message"), hint=facts.pop("hint"))
        problem.code, problem.exit_status, problem.facts = facts.pop("code"), exit_status, facts
        return problem


class BadInput(HoldfastError):
    """The input is not valid. Nothing was changed."""

    code = "bad_input"
    exit_status = 2


class UnstorableText(BadInput):
    """The text cannot be stored without changing it. Nothing was written."""

    code = "unstorable_text"


class TooLarge(BadInput):
    """The input is too large. Nothing was written."""

    code = "too_large"


class MetadataInvalid(BadInput):
    """A metadata patch must be a JSON object. Nothing was changed."""

    code = "metadata_invalid"


class TokenField(BadInput):
    """This metadata key is reserved for an agent's token. Nothing was changed."""

    code = "token_field"
    hint = "record a token with `holdfast token ID record NATIVE_ID`; metadata cannot hold or clear one"


class NotFound(HoldfastError):
    """Not found."""

    code = "not_found"
    exit_status = 3


class Ambiguous(NotFound):
    """The id prefix matches more than one entry."""

    code = "ambiguous"
    hint = "use a longer prefix"


class Refused(HoldfastError):
    """The current state does not allow this. Nothing was changed."""

    code = "refused"
    exit_status = 4


class KeyTaken(Refused):
    """Another live session has that key."""

    code = "key_taken"


class VersionMismatch(Refused):
    """The metadata changed after you read that version. Nothing was written."""

    code = "version_mismatch"
    hint = "read the metadata again and apply the change to the current version"


class MetadataUnreadable(Refused):
    """The stored metadata cannot be read. Its bytes are kept and nothing was changed."""

    code = "metadata_unreadable"
    exit_status = 7
    hint = "`holdfast doctor self` can rebuild it from the session's log"


class StaleGeneration(Refused):
    """Another owner has claimed this task. The write was refused."""

    code = "stale_generation"


class SessionRunning(Refused):
    """A task of this session is running."""

    code = "session_running"


class SessionDeleted(Refused):
    """This session is in the trash."""

    code = "session_deleted"
    hint = "`holdfast restore ID` brings it back"


class IllegalChange(Refused):
    """The current status does not allow this change."""

    code = "illegal_change"


class NoToken(Refused):
    """This session has no token to resume with."""

    code = "resume_unavailable"


class ResumeUnsafe(Refused):
    """It is not safe to resume this session."""

    code = "resume_unsafe"
    hint = "start fresh with --fresh, fork with --fork, or resume it anyway with --anyway"


class PlanChanged(Refused):
    """The state changed after the plan was made. Nothing was done."""

    code = "plan_changed"
    hint = "run `holdfast doctor` again and apply the new plan"


class ProgramRunning(Refused):
    """The program that owns these files is running. Nothing was done."""

    code = "program_running"
    hint = "stop the program, then apply the plan"


class AgentMissing(HoldfastError):
    """The agent is not installed."""

    code = "agent_missing"
    exit_status = 10


class AgentUnusable(AgentMissing):
    """Holdfast cannot run this agent yet."""

    code = "agent_unusable"
    hint = "`holdfast agents` lists the agents that it can run"


class TaskFailed(HoldfastError):
    """The task failed."""

    code = "task_failed"
    exit_status = 11


class TaskCancelled(HoldfastError):
    """The task was cancelled."""

    code = "task_cancelled"
    exit_status = 12


class TaskInterrupted(HoldfastError):
    """The agent exited without a final answer."""

    code = "task_interrupted"
    exit_status = 13


class StoreMissing(HoldfastError):
    """There is no Holdfast home here."""

    code = "store_missing"
    exit_status = 5
    hint = "set HOLDFAST_HOME, or create a home with `holdfast init`"


class StoreBusy(HoldfastError):
    """Another process has locked the store."""

    code = "store_busy"
    exit_status = 6
    hint = "try again; if the error persists, stop the process that holds the lock"


class PortTaken(HoldfastError):
    """The hub cannot listen on this address."""

    code = "port_taken"
    exit_status = 6
    hint = "choose another address with --host or --port"


class AccessDenied(HoldfastError):
    """The hub denies access to this request."""

    code = "forbidden"
    exit_status = 14


class Unauthorized(AccessDenied):
    """This request needs the hub's token."""

    code = "unauthorized"
    hint = "open the address that `holdfast up` printed, or send the token as `Authorization: Bearer …`"


class BadHost(AccessDenied):
    """The hub does not accept requests for this host name."""

    code = "bad_host"
    hint = "add the name to `hosts` in the [hub] table of config.toml"


class BadOrigin(AccessDenied):
    """The request comes from a page of another site."""

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
    hint = "`holdfast doctor self` shows what is wrong and can rebuild the store from the mirrors"


class SchemaNewer(StoreUnreadable):
    """The store was written by a newer Holdfast."""

    code = "schema_newer"
    hint = "upgrade Holdfast; nothing was changed"


class DiskFull(HoldfastError):
    """The disk is full. No partial data was written."""

    code = "disk_full"
    exit_status = 8
    hint = "free some space and try again"


class StoreReadOnly(HoldfastError):
    """The store cannot be written: the disk or the files are read-only."""

    code = "store_read_only"
    exit_status = 8


class StoreUnreachable(HoldfastError):
    """The database server does not answer."""

    code = "store_unreachable"
    exit_status = 9
    hint = "check that the server runs and that the address is right"


class CommitUnknown(StoreUnreachable):
    """The connection broke during a commit. It is not known whether the commit succeeded."""

    code = "commit_unknown"
    hint = "check whether your change was saved before you repeat it"


class StoreClosed(HoldfastError):
    """The store is closed."""

    code = "store_closed"
