"""The contract, kept by calls that need only what an `Engine` brings."""

from __future__ import annotations

from holdfast.store.calls.dispatches import DispatchCalls
from holdfast.store.calls.feed import FeedCalls
from holdfast.store.calls.log import LogCalls
from holdfast.store.calls.overview import OverviewCalls
from holdfast.store.calls.sessions import SessionCalls
from holdfast.store.calls.tasks import TaskCalls
from holdfast.store.calls.tokens import TokenCalls


class BaseStore(LogCalls, SessionCalls, TokenCalls, TaskCalls, DispatchCalls, FeedCalls, OverviewCalls):
    """Everything that `contract.py` promises."""
