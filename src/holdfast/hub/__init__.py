"""The hub: an HTTP API, live streams and the page, above one worker."""

from __future__ import annotations
