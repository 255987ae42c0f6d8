"""The client's methods, one per call of the hub's API.

A prompt carries the id of its task. So a client can send it again, through the hub or without it, when the
connection broke and the outcome is unknown: the same id is never queued twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from holdfast import errors, ids
from holdfast.client import discovery
from holdfast.client.http import HubConnection, path_segment

if TYPE_CHECKING:
    from holdfast.client.stream import StreamMessage
    from holdfast.home import Home
    from holdfast.store.location import Location

How = Literal["resume", "fork", "fresh", "anyway"]
Leftovers = Literal["wait", "end", "ignore"]
Permissions = Literal["ask", "allow", "deny"]


class DispatchedJson(TypedDict):
    """The task and session of a prompt."""

    task: str
    session: str


class SessionJson(TypedDict, total=False):
    """A session's header; lists leave out its metadata."""

    id: str
    agent: str
    state: str
    created_at: str
    updated_at: str
    key: str | None
    cwd: str | None
    host: str | None
    title: str | None
    metadata: dict[str, Any] | None
    version: int
    events: int
    messages: int
    tasks: int
    last_task: str | None
    last_status: str | None


class TaskJson(TypedDict, total=False):
    """One prompt and its outcome."""

    id: str
    session: str
    prompt: str
    status: str
    queued_at: str
    started_at: str | None
    ended_at: str | None
    reason: str | None
    outcome: dict[str, Any] | None
    options: dict[str, Any]


class EventJson(TypedDict):
    """One record of a session's log."""

    seq: int
    kind: str
    body: dict[str, Any]
    at: str
    task: str | None
    replayed: bool
    origin: dict[str, Any] | None


class VerdictJson(TypedDict):
    """Whether a session is safe to resume, and why."""

    action: str
    reasons: list[dict[str, Any]]
    session: str
    token: Any


class SessionsPage(TypedDict):
    """Some sessions, and where the next ones begin."""

    sessions: list[SessionJson]
    next: str | None


BY_HAND = "by hand"  # the reason where none is given
PAGE = 500  # events asked for at a time


class HubClient:
    """A running hub; every call returns the answer, or raises the error that the hub reports."""

    def __init__(
        self,
        door: discovery.HubAddress,
        by: str = "",
        look: Callable[[], discovery.HubAddress | None] | None = None,
    ):
        self._by = by
        self._look = look or (lambda: door)  # where it is by now: a new one may have another port
        self._wire = HubConnection(door, by)

    @classmethod
    def of(cls, home: Home, location: Location | None = None, by: str = "") -> HubClient | None:
        """The hub that runs on a home; None if none does."""

        def look() -> discovery.HubAddress | None:
            return discovery.find_hub(home, location)

        door = look()
        return None if door is None else cls(door, by, look)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._wire.door.url

    # --- prompts

    def dispatch(
        self,
        prompt: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        session: str | None = None,
        cwd: str | None = None,
        here: str | None = None,
        worktree: bool = False,
        fork: bool = False,
        queue: bool = False,
        brief: bool = True,
        permissions: Permissions | None = None,
        time_limit_s: float | None = None,
        leftovers: Leftovers | None = None,
        task: str | None = None,
    ) -> DispatchedJson:
        """Queue a prompt where it belongs; `task` is the id that its task is to have."""
        return self._send(
            "/api/dispatch",
            task,
            {
                "prompt": prompt,
                "agent": agent,
                "key": key,
                "session": session,
                "cwd": cwd,
                "here": here,
                "worktree": worktree,
                "fork": fork,
                "queue": queue,
                "brief": brief,
                "permissions": permissions,
                "time_limit_s": time_limit_s,
                "leftovers": leftovers,
            },
        )

    def resume(
        self,
        session: str,
        prompt: str,
        *,
        how: How = "resume",
        queue: bool = False,
        brief: bool = True,
        permissions: Permissions | None = None,
        time_limit_s: float | None = None,
        leftovers: Leftovers | None = None,
        task: str | None = None,
    ) -> DispatchedJson:
        """Continue a session, if that is safe or forced."""
        return self._send(
            f"/api/sessions/{path_segment(session)}/resume",
            task,
            {
                "prompt": prompt,
                "how": how,
                "queue": queue,
                "brief": brief,
                "permissions": permissions,
                "time_limit_s": time_limit_s,
                "leftovers": leftovers,
            },
        )

    def redispatch(
        self,
        keys: Iterable[str] | None = None,
        *,
        tasks: Iterable[str] | None = None,
        failed: bool = False,
        wait: bool = False,
    ) -> dict[str, Any]:
        """Run interrupted tasks again: all, of these keys, or those named; `failed`: failed ones, too."""
        body = {
            "keys": None if keys is None else list(keys),
            "tasks": None if tasks is None else list(tasks),
            "failed": failed,
            "wait": wait,
        }
        answer: dict[str, Any] = self._asked("POST", "/api/redispatch", body)
        return answer

    def _send(self, path: str, task: str | None, wish: dict[str, Any]) -> DispatchedJson:
        """Send a prompt, once more if the connection broke while the hub lives; the id keeps it one."""
        named = {**wish, "task": task or ids.new(ids.TASK)}
        try:
            answer: DispatchedJson = self._asked("POST", path, named)
        except errors.HubGone:
            door = self._look()
            if door is None:
                raise
            self._wire = HubConnection(door, self._by)
            answer = self._asked("POST", path, named)
        return answer

    # --- tasks

    def tasks(
        self, *, session: str | None = None, status: str | None = None, limit: int = 100
    ) -> list[TaskJson]:
        """Tasks, the latest first."""
        query = {"session": session, "status": status, "limit": limit}
        answer: list[TaskJson] = self._asked("GET", "/api/tasks", query=query)["tasks"]
        return answer

    def task(self, task: str) -> TaskJson:
        """One task."""
        answer: TaskJson = self._asked("GET", f"/api/tasks/{path_segment(task)}")
        return answer

    def cancel(self, task: str, *, now: bool = False) -> TaskJson:
        """Ask a task to stop; the task as it is then."""
        answer: TaskJson = self._asked("POST", f"/api/tasks/{path_segment(task)}/cancel", {"now": now})
        return answer

    def answer(self, task: str, answer: str, *, call: str | None = None) -> list[dict[str, Any]]:
        """Allow or deny what an agent asks for; the answers as they were recorded."""
        body = {"answer": answer, "call": call}
        answered: list[dict[str, Any]] = self._asked(
            "POST", f"/api/tasks/{path_segment(task)}/permission", body
        )["answered"]
        return answered

    # --- sessions

    def sessions(
        self,
        *,
        state: str = "present",
        agent: str | None = None,
        key: str | None = None,
        text: str | None = None,
        empty: bool = False,
        before: str | None = None,
        limit: int = 50,
    ) -> SessionsPage:
        """A page of sessions, the latest first."""
        query = {"state": state, "agent": agent, "key": key, "text": text, "empty": empty}
        answer: SessionsPage = self._asked(
            "GET", "/api/sessions", query={**query, "before": before, "limit": limit}
        )
        return answer

    def session(self, session: str) -> SessionJson:
        """One session, by its id, a unique beginning of it, or its key."""
        answer: SessionJson = self._asked("GET", f"/api/sessions/{path_segment(session)}")["session"]
        return answer

    def patch(
        self, session: str, version: int, metadata: dict[str, Any] | None = None, title: str | None = None
    ) -> SessionJson:
        """Merge into a session's metadata, seen at that version; or give it another title."""
        body = {"version": version, "metadata": metadata, "title": title}
        return self._changed("PATCH", session, "", body)

    def archive(self, session: str, reason: str = BY_HAND) -> SessionJson:
        """Archive a session."""
        return self._changed("POST", session, "/archive", {"reason": reason})

    def unarchive(self, session: str) -> SessionJson:
        """Move it out of the archive."""
        return self._changed("POST", session, "/unarchive", {})

    def delete(self, session: str, reason: str = BY_HAND) -> tuple[SessionJson, str | None]:
        """Move it to the trash; also why its worktree stays, where it does."""
        answer = self._asked("DELETE", f"/api/sessions/{path_segment(session)}", query={"reason": reason})
        stays: str | None = answer.pop("worktree_stays")
        return answer, stays

    def restore(self, session: str) -> SessionJson:
        """Restore it from the trash."""
        return self._changed("POST", session, "/restore", {})

    def trust(self, session: str, reason: str = BY_HAND) -> dict[str, Any]:
        """Mark it as sound after its last task failed or was cancelled; the record."""
        answer: dict[str, Any] = self._asked(
            "POST", f"/api/sessions/{path_segment(session)}/trust", {"reason": reason}
        )
        return answer

    def tokens(self, session: str) -> dict[str, Any]:
        """The lineage of a session's tokens."""
        answer: dict[str, Any] = self._asked("GET", f"/api/sessions/{path_segment(session)}/tokens")
        return answer

    def record_token(self, session: str, native_id: str, *, protocol: str | None = None) -> dict[str, Any]:
        """Record the agent's own id by hand; the lineage with it."""
        return self._token(session, "", {"native_id": native_id, "protocol": protocol})

    def revoke_token(self, session: str, reason: str, *, native_id: str | None = None) -> dict[str, Any]:
        """The current token must not be resumed any more; the lineage then."""
        return self._token(session, "/revoke", {"reason": reason, "native_id": native_id})

    def reinstate_token(
        self, session: str, reason: str = BY_HAND, *, native_id: str | None = None
    ) -> dict[str, Any]:
        """Take a revocation back; the lineage then."""
        return self._token(session, "/reinstate", {"reason": reason, "native_id": native_id})

    def _token(self, session: str, action: str, body: dict[str, Any]) -> dict[str, Any]:
        path = f"/api/sessions/{path_segment(session)}/tokens{action}"
        answer: dict[str, Any] = self._asked("POST", path, body)
        return answer

    def verdict(self, session: str, *, fork: bool = False) -> VerdictJson:
        """Whether it is safe to resume."""
        answer: VerdictJson = self._asked(
            "GET", f"/api/sessions/{path_segment(session)}/verdict", query={"fork": fork}
        )
        return answer

    def events(self, session: str, after: int = 0) -> Iterator[EventJson]:
        """A session's log as it is now, from after that record."""
        path = f"/api/sessions/{path_segment(session)}/events"
        at: int | None = after
        while at is not None:
            page = self._asked("GET", path, query={"after": at, "limit": PAGE})
            yield from page["events"]
            at = page["next"]

    # --- live

    def stream(
        self, session: str | None = None, *, after: str | int | None = None, patience_s: float = 60.0
    ) -> Iterator[StreamMessage]:
        """Follow a session, or all of them, across restarts of the hub; see `stream.follow`."""
        from holdfast.client.stream import follow

        path = "/api/stream" if session is None else f"/api/sessions/{path_segment(session)}/stream"
        return follow(self._look, path, None if after is None else str(after), patience_s)

    def _changed(self, method: str, session: str, more: str, body: dict[str, Any]) -> SessionJson:
        answer: SessionJson = self._asked(method, f"/api/sessions/{path_segment(session)}{more}", body)
        return answer

    def _asked(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
    ) -> Any:
        return self._wire.ask(method, path, body, query)
