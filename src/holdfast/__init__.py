"""Holdfast runs coding agents so that a crash never costs anyone their work."""

__version__ = "0.1.0"
