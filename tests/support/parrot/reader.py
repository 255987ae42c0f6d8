"""Reads the made-up agent's store: only what a reader must define."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptReader, is_same_folder
from holdfast.transcripts.turns import COMPLETE, TurnTracker


class ParrotReader(TranscriptReader):
    """One file per session."""

    agent = "parrot"
    root_variable = "PARROT_HOME"
    root_folder = ".parrot"

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        for path in sorted(glob.glob(os.path.join(root, "*.jsonl"))):
            header = next(jsonl.lines(path)).value or {}
            ref = SessionRef(agent=self.agent, native_id=str(header["id"]), path=path, cwd=header["cwd"])
            if cwd is None or is_same_folder(ref.cwd, cwd):
                yield ref

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        kinds = {"prompt": "user", "reply": "assistant"}
        for line in jsonl.lines(ref.path):
            record = line.value or {}
            if (kind := kinds.get(str(record.get("type")))) is not None:
                origin = Origin(self.agent, ref.native_id, f"line:{line.number}")
                yield NewEvent(kind, {"text": record["text"]}, origin=origin)

    def inspect(self, ref: SessionRef) -> Inspection:
        turns = TurnTracker()
        for event in self.events(ref):
            if event.kind == "user":
                list(turns.prompt())
            else:
                turns.add_text()
                turns.now.ended = COMPLETE
        list(turns.close())
        return self.inspection(ref, turns.problems(), turns=turns.count, last_complete=turns.last_complete)
