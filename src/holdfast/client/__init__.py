"""A Python client of a running hub: `HubClient.of(home)` finds it, its methods are the API's calls."""

from __future__ import annotations

from holdfast.client.client import HubClient

__all__ = ["HubClient"]
