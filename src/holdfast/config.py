"""The config file of a home, `config.toml`; everything in it is optional."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadInput
from holdfast.home import Home


def load(home: Home) -> dict[str, Any]:
    """The config as it was written; an empty one if there is none."""
    import tomllib

    try:
        with open(home.config, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadInput(f"{home.config} is not valid TOML: {problem}") from None
