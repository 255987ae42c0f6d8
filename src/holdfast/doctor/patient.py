"""What the doctor must know of a program to look at its files and mend them."""

from __future__ import annotations

from typing import Protocol

from holdfast.doctor.finding import Diagnosis, Progress


class Patient(Protocol):
    """One install of one program."""

    target: str  # the program's name, as on the command line
    path: str  # the folder (real path) whose files may be changed; it is locked meanwhile

    def look(self, progress: Progress | None = None) -> Diagnosis:
        """All findings and the steps that would mend them; nothing is changed by it, nor any time."""
        ...

    def running(self) -> list[str]:
        """For each sign that the program runs on these files, one sentence that says how it is known."""
        ...
