"""The doctor computes each state of a session once, however many steps its repair has."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.doctor import operation
from holdfast.home import Home
from holdfast.peers.hermes import facts, findings, install
from holdfast.peers.hermes.conversation import HermesConversation
from holdfast.peers.hermes.install import HermesInstall
from holdfast.peers.hermes.repair import repair_session
from tests.unit.peers.hermes.test_doctor import CASES, FIXTURES

MAX_STATES = 5  # as found, after at most three changes, and without the copies that only differ


class Counts:
    """How often each computation runs, by what it is computed from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.conversations: Counter[tuple[str, int, int]] = Counter()
        self.problems: Counter[int] = Counter()
        self.messages: Counter[tuple[int, str]] = Counter()
        self.repairs: Counter[str] = Counter()
        self._held: list[object] = []  # an id means one object only as long as the object lives
        plan, problems = HermesConversation.__init__, findings.session_problems
        messages, repair = facts._parse_messages, repair_session

        def count_conversation(
            made: HermesConversation, own: Any, db: Any, as_displayed: bool = False
        ) -> None:
            self._held += [own, db]
            self.conversations[own.native_id, id(own), id(db)] += 1
            plan(made, own, db, as_displayed)

        def count_problems(own: Any, *others: Any) -> Any:
            self._held.append(own)
            self.problems[id(own)] += 1
            return problems(own, *others)

        def count_messages(side: Any, source: str) -> Any:
            self._held.append(side)
            self.messages[id(side), source] += 1
            return messages(side, source)

        def count_repair(state: Any) -> Any:
            self.repairs[state.native_id] += 1
            return repair(state)

        monkeypatch.setattr(HermesConversation, "__init__", count_conversation)
        monkeypatch.setattr(findings, "session_problems", count_problems)
        monkeypatch.setattr(facts, "_parse_messages", count_messages)
        monkeypatch.setattr(install, "repair_session", count_repair)

    def states(self) -> Counter[str]:
        """For each session, how many conversations were merged."""
        return Counter(own for own, _, _ in self.conversations)


@pytest.mark.parametrize("case", CASES)
def test_a_repair_computes_each_state_of_a_session_once(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FIXTURES / case / "hermes-home", tmp_path / "hermes")
    (tmp_path / "hermes" / "webui" / "sessions").mkdir(parents=True, exist_ok=True)
    home = Home(str(tmp_path / "home"))
    home.make()
    target = HermesInstall(str(tmp_path / "hermes"), {})
    diagnosis = target.diagnose()
    counts = Counts(monkeypatch)
    if diagnosis.steps:
        operation.apply(home, target, diagnosis.fingerprint)
    else:
        target.diagnose()
    assert set(counts.conversations.values()) <= {1}
    assert set(counts.problems.values()) <= {1}
    assert set(counts.messages.values()) <= {1}
    assert set(counts.repairs.values()) <= {1}
    assert max(counts.states().values(), default=0) <= MAX_STATES
