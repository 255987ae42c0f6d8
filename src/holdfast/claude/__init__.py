"""Holdfast as the session store of the Claude Agent SDK (extra `claude`)."""

try:
    import claude_agent_sdk as _sdk  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "claude_agent_sdk":
        raise
    raise ModuleNotFoundError(
        "holdfast.claude needs the Claude Agent SDK: pip install 'holdfast[claude]'", name=missing.name
    ) from missing

from holdfast.claude.store import SessionStore

__all__ = ["SessionStore"]
