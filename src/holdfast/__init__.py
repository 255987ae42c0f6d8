"""Holdfast runs coding agents so that a crash never costs anyone their work."""

from __future__ import annotations

__version__ = "0.1.0"
