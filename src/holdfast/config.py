"""The config file of a home, `config.toml`; everything in it is optional."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadInput
from holdfast.home import Home

TABLES = ("run", "agents", "hub", "forges", "notify")  # each is read by the room that it is for
SEE = "see docs/configuration.md"


def load(home: Home) -> dict[str, Any]:
    """The config as it was written; an empty one if there is none."""
    import tomllib

    try:
        with open(home.config, "rb") as file:
            written = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadInput(f"{home.config} is not valid TOML: {problem}") from None
    for name, table in written.items():
        if name not in TABLES:
            raise BadInput(f"config.toml: there is nothing called {name!r}", hint=near(name, TABLES))
        if not isinstance(table, dict):
            raise BadInput(f"config.toml: {name} must be a table: [{name}]", hint=SEE)
    return written


def near(name: str, known: tuple[str, ...]) -> str:
    """A hint what was meant."""
    from difflib import get_close_matches

    meant = get_close_matches(name, known, 1)
    return f"did you mean {meant[0]!r}?" if meant else "known: " + ", ".join(known)
