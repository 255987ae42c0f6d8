"""Prompts from a template: `{name}` is replaced, once, by a text; nothing else means anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")  # {{name}} stays as {name}


def unknown(template: str, names: Collection[str]) -> list[str]:
    """The places of a template that no text is known for."""
    return [found[2] for found in _PLACE.finditer(template) if found[2] and found[2] not in names]


def fill(template: str, texts: Mapping[str, str]) -> str:
    """The template with its places filled; what a text brings is never looked at again."""
    return _PLACE.sub(lambda found: texts[found[2]] if found[2] else f"{{{found[1]}}}", template)
