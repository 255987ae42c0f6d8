"""Where the project and its recorded fixtures are."""

from __future__ import annotations

from pathlib import Path

PROJECT = Path(__file__).parents[2]
FIXTURES = PROJECT / "tests" / "fixtures"
