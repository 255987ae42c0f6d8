"""A hub that runs, as Python sees it: `Hub.of(home)` finds it, its methods are the API's calls."""

from __future__ import annotations

from holdfast.client.client import Hub

__all__ = ["Hub"]
