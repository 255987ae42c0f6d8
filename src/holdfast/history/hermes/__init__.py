"""Hermes: hermes-agent's `state.db` and the sidecars of hermes-webui, read as one history."""

from holdfast.history.hermes.reader import HermesReader

__all__ = ["HermesReader"]
