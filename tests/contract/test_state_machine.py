"""Anything in any order, from two openers, beside an oracle that says what must come of it.

HOLDFAST_TORTURE=N runs N examples of 50 steps instead of a few short ones.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from holdfast.home import Home
from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import Task, WaitingFor
from holdfast.store.location import Location
from holdfast.store.open import open_store
from tests.support.store_calls import claim_next
from tests.support.store_model import OWNER, Driver, Oracle, origin

TORTURE = int(os.environ.get("HOLDFAST_TORTURE", "0"))
SETTINGS = settings(
    max_examples=TORTURE or 8,
    stateful_step_count=50 if TORTURE else 25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "thinking", "notice"]), st.sampled_from([None, *"abcdef"])
    ),
    max_size=4,
)
NATIVE = st.sampled_from(["A", "B", "C"])
NAME = st.sampled_from("ab")
PICK = st.integers(0, 9)
ENDS = ["succeeded", "failed", "cancelled", "interrupted", "unreachable", "running", "queued"]
FOLLOWS = {  # the oracle's own words for what may follow what
    "queued": {"cancelled", "failed", "waiting"},
    "waiting": {"cancelled", "failed", "waiting", "queued"},
    "running": {"succeeded", "failed", "cancelled", "interrupted", "unreachable", "queued"},
    "unreachable": {"succeeded", "failed", "cancelled", "interrupted", "running"},
}
DELIVERIES = ["waiting", "sent", "accepted"]
PENDING = ("queued", "waiting")
SINCE = "2026-01-31T12:00:00.000000Z"
WAITS = [WaitingFor("leftovers", text, SINCE) for text in ("for a shell", "for an editor")]


def as_events(events: list[tuple[str, str | None]]) -> list[NewEvent]:
    return [
        NewEvent(kind, {"text": "x", "code": "y"}, origin=None if record is None else origin(record))
        for kind, record in events
    ]


class Machine(Driver):
    """What can be called, and what must come of it."""

    # --- sessions

    @rule(by=PICK, key=st.sampled_from([None, "k1", "k2"]), metadata=st.sampled_from([{}, {"a": 1}]))
    def create(self, by: int, key: str | None, metadata: dict[str, Any]) -> None:
        key = None if key is None else f"{key}-{self.mark}"
        answer = self.store(by).create_session("claude", key=key, metadata=metadata)
        if self.holder(key):
            self.refused(answer, "key_taken")
            return
        self.model[self.run(answer).id] = Oracle("claude", key, metadata)

    @rule(
        by=PICK,
        which=PICK,
        name=st.sampled_from("ab"),
        value=st.sampled_from([None, 1, 2]),
        off=st.booleans(),
    )
    def patch(self, by: int, which: int, name: str, value: int | None, off: bool) -> None:
        session, model = self.pick(which)
        answer = self.store(by).patch_metadata(session, {name: value}, model.version + off)
        if model.state == "deleted":
            self.refused(answer, "session_deleted")
        elif off:
            self.refused(answer, "version_mismatch")
        else:
            self.run(answer)
            merged = {k: v for k, v in {**model.metadata, name: value}.items() if v is not None}
            if merged != model.metadata:
                model.metadata, model.version = merged, model.version + 1
                model.kinds.append("session")

    @rule(by=PICK, which=PICK)
    def archive(self, by: int, which: int) -> None:
        session, model = self.pick(which)
        answer = self.store(by).archive(session, "me", "completed")
        if model.state == "deleted":
            self.refused(answer, "session_deleted")
            return
        self.run(answer)
        model.state, model.archived = "archived", True
        model.kinds.append("session")

    @rule(by=PICK, which=PICK)
    def unarchive(self, by: int, which: int) -> None:
        session, model = self.pick(which)
        answer = self.store(by).unarchive(session, "me")
        if model.state == "deleted":
            self.refused(answer, "session_deleted")
        elif model.state == "archived" and self.holder(model.key):
            self.refused(answer, "key_taken")
        else:
            self.run(answer)
            if model.state == "archived":
                model.state, model.archived = "live", False
                model.kinds.append("session")

    @rule(by=PICK, which=PICK)
    def delete(self, by: int, which: int) -> None:
        session, model = self.pick(which)
        answer = self.store(by).delete(session, "me", "gone")
        if model.state != "deleted" and model.active():
            self.refused(answer, "session_running")
            return
        self.run(answer)
        if model.state != "deleted":
            model.state = "deleted"
            model.kinds.append("session")

    @rule(by=PICK, which=PICK)
    def restore(self, by: int, which: int) -> None:
        session, model = self.pick(which)
        answer = self.store(by).restore(session, "me")
        if model.state == "deleted" and not model.archived and self.holder(model.key):
            self.refused(answer, "key_taken")
            return
        self.run(answer)
        if model.state == "deleted":
            model.state = "archived" if model.archived else "live"
            model.kinds.append("session")

    # --- the log

    @rule(by=PICK, which=PICK, events=EVENTS)
    def append(self, by: int, which: int, events: list[tuple[str, str | None]]) -> None:
        session, model = self.pick(which)
        answer = self.store(by).commit(Commit(session, as_events(events)))
        if model.state == "deleted" and events:
            self.refused(answer, "session_deleted")
            return
        done = self.run(answer)
        before = len(model.kinds)
        assert done.dropped == model.append(events)
        assert done.seqs == range(before + 1, len(model.kinds) + 1)

    @rule(by=PICK, which=PICK, events=EVENTS, step=st.integers(-2, 9), old=st.sampled_from([0, 0, 0, -1, 1]))
    def spool(self, by: int, which: int, events: list[tuple[str, str | None]], step: int, old: int) -> None:
        session, model, task, state = self.pick_task(which)
        generation, offset = state["generation"] + old, state["spool"] + step
        commit = Commit(session, as_events(events), task=task, generation=generation, spool=offset)
        answer = self.store(by).commit(commit)
        if old or task not in model.active():
            self.refused(answer, "stale_generation")
        elif step < 0:
            self.refused(answer, "illegal_change")
        else:
            assert self.run(answer).dropped == model.append(events)
            state["spool"] = offset

    # --- tokens

    @rule(by=PICK, which=PICK, native=NATIVE, protocol=st.sampled_from([None, "acp", "stream-json"]))
    def see_token(self, by: int, which: int, native: str, protocol: str | None) -> None:
        session, model = self.pick(which)
        answer = self.store(by).see_token(session, "claude", self.mark + native, protocol=protocol)
        if model.state == "deleted":
            self.refused(answer, "session_deleted")
        else:
            assert self.run(answer) == model.see(self.mark + native, protocol)

    @rule(by=PICK, which=PICK, native=NATIVE, back=st.booleans())
    def revoke_or_reinstate(self, by: int, which: int, native: str, back: bool) -> None:
        session, model = self.pick(which)
        store = self.store(by)
        answer = (store.reinstate_token if back else store.revoke_token)(
            session, "claude", self.mark + native, "why"
        )
        if model.state == "deleted":
            self.refused(answer, "session_deleted")
            return
        result = (model.reinstate if back else model.revoke)(self.mark + native)
        if result in ("done", "same"):
            self.run(answer)
        else:
            self.refused(answer, result)

    # --- tasks

    @rule(which=PICK)
    def enqueue(self, which: int) -> None:
        session, model = self.pick(which)
        if model.state == "deleted":
            self.refused(self.stores[0].enqueue(session, "x"), "session_deleted")
        else:
            self.queue(session, model)

    @rule(by=PICK, which=PICK, old=st.sampled_from([0, 0, 0, -1, 1]))
    def claim(self, by: int, which: int, old: int) -> None:
        session, model, task, state = self.pick_task(which)
        answer = self.store(by).claim(task, state["generation"] + old, OWNER, 60)
        if old or state["status"] not in (*PENDING, "running", "unreachable"):
            self.refused(answer, "stale_generation")
        elif state["status"] in PENDING and model.state == "archived":
            self.refused(answer, "illegal_change")
        elif state["status"] in PENDING and self.rivals(session):
            self.refused(answer, "session_running")
        elif model.state == "deleted":
            self.refused(answer, "session_deleted")
        else:
            self.run(answer)
            self.claimed(model, state)

    @rule(by=PICK)
    def claim_next(self, by: int) -> None:
        found: Task | None = self.run(claim_next(self.store(by), OWNER, 60))
        queue = [(t, s, m) for s, m in self.model.items() for t in m.order if m.state == "live"]
        may = [(t, m) for t, s, m in queue if m.tasks[t]["status"] == "queued" and not self.rivals(s)]
        if found is None:
            assert not may
            return
        model = self.model[found.session]
        self.touched.add(found.session)
        assert (found.id, model) in may
        assert found.queued_at == min(self.run(self.stores[0].task(t)).queued_at for t, _ in may)
        self.claimed(model, model.tasks[found.id])

    @rule(by=PICK, which=PICK, status=st.sampled_from(ENDS), owned=st.booleans())
    def set_status(self, by: int, which: int, status: Any, owned: bool) -> None:
        _, model, task, state = self.pick_task(which)
        generation = state["generation"] if owned else None
        answer = self.store(by).set_status(task, status, generation=generation)
        code = self.status_refusal(model, task, status, owned)
        if code is not None:
            self.refused(answer, code)
            return
        self.run(answer)
        state["status"], state["waiting_for"] = status, None
        if status == "queued":
            state["delivery"] = "waiting"
        model.kinds.append("task")

    @rule(by=PICK, which=PICK, why=st.sampled_from(WAITS), owned=st.booleans())
    def wait(self, by: int, which: int, why: WaitingFor, owned: bool) -> None:
        session, model, task, state = self.pick_task(which)
        change = SetStatus(status="waiting", reason=why.text, waiting_for=why)
        generation = state["generation"] if owned else None
        answer = self.store(by).commit(Commit(session, [change], task=task, generation=generation))
        code = self.status_refusal(model, task, "waiting", owned)
        if code is not None:
            self.refused(answer, code)
            return
        self.run(answer)
        if state["waiting_for"] != why:  # the same wait is not recorded twice
            state["status"], state["waiting_for"] = "waiting", why
            model.kinds.append("task")

    def status_refusal(self, model: Oracle, task: str, status: str, owned: bool) -> str | None:
        """The code with which a change of status must be refused."""
        state = model.tasks[task]
        if owned != (task in model.active()):  # only an active task has an owner, and only its owner may
            return "session_deleted" if model.state == "deleted" and not owned else "stale_generation"
        if model.state == "deleted":
            return "session_deleted"
        accepted = status == "queued" and state["delivery"] == "accepted"
        return "illegal_change" if status not in FOLLOWS.get(state["status"], ()) or accepted else None

    @rule(by=PICK, which=PICK, delivery=st.sampled_from(DELIVERIES), old=st.sampled_from([0, 0, -1]))
    def deliver(self, by: int, which: int, delivery: Any, old: int) -> None:
        _, model, task, state = self.pick_task(which)
        answer = self.store(by).deliver(task, delivery, state["generation"] + old)
        if old or task not in model.active():
            self.refused(answer, "stale_generation")
        elif DELIVERIES.index(delivery) < DELIVERIES.index(state["delivery"]):
            self.refused(answer, "illegal_change")
        else:
            self.run(answer)
            if delivery != state["delivery"]:
                state["delivery"] = delivery
                model.kinds.append("task")

    # --- its life

    @rule(which=PICK)
    def reopen(self, which: int) -> None:
        self.run(self.stores[which % 2].close())
        self.stores[which % 2] = self.run(open_store(*self.place))


def test_any_order_of_calls_comes_to_what_the_oracle_says(location: Location, home: Home) -> None:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        run_state_machine_as_test(lambda: Machine(loop, location, home), settings=SETTINGS)  # type: ignore[arg-type]
