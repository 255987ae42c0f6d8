"""What handlers are given besides what a request brings."""

from __future__ import annotations

from litestar.di import NamedDependency

from holdfast.hub.hub import Hub

TheHub = NamedDependency[Hub]
By = NamedDependency[str]  # in whose name
