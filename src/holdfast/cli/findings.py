"""What a doctor found, for a person to read: first what can be mended, then the rest by kind."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.cli import output

if TYPE_CHECKING:
    from holdfast.doctor.finding import Diagnosis, Finding

INDENT = "  "
ALONE = "none: left alone"


def show(found: Diagnosis) -> None:
    """All findings and how many there are; where it is no terminal, one line for each."""
    width = output.columns()
    if width is None:
        rows = [(f.subject, f.code, f.text, f.action or ALONE) for f in found.shown]
        output.table(("SUBJECT", "CODE", "WHAT", "REPAIR"), rows)
    else:
        for line in lines(found.shown, max(width, 40)):
            output.text(line)
    safe = sum(finding.safe for finding in found.shown)
    told = "1 finding" if len(found.shown) == 1 else f"{len(found.shown)} findings"
    output.text(f"{found.path}: {told}, {safe} of them can be mended safely, the others are left alone")


def lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """The findings in as many lines as they need, none wider than that."""
    mended = [finding for finding in findings if finding.safe]
    if mended:
        yield "CAN BE MENDED"
        for finding in mended:
            yield from _wrapped(f"{finding.subject}  {finding.code}", width, 1)
            yield from _wrapped(finding.text, width, 2)
            yield from _wrapped(f"→ {finding.action}", width, 2)
    kinds: dict[str, dict[str, list[Finding]]] = {}
    for finding in findings:
        if not finding.safe:
            kinds.setdefault(finding.code, {}).setdefault(finding.text, []).append(finding)
    if kinds:
        yield "LEFT ALONE"
    for code, told in sorted(kinds.items(), key=lambda kind: sum(map(len, kind[1].values()))):
        yield f"{INDENT}{code} ({sum(map(len, told.values()))})"
        for text, alike in told.items():
            yield from _wrapped(text, width, 2)
            yield from _listed([finding.subject for finding in alike], width, 3)
            for choice in {choice: None for finding in alike for choice in _choices(finding)}:
                yield from _wrapped(f"? {choice}", width, 3)


def _choices(finding: Finding) -> Iterator[str]:
    """What a person may choose of, where the doctor will not."""
    for candidate in finding.evidence.get("candidates", ()):
        told = ", ".join(f"{key} {value}" for key, value in candidate["keys"].items())
        yield f"{told}, from {candidate['path'] or candidate['source']}"


def _wrapped(text: str, width: int, depth: int) -> list[str]:
    begin = INDENT * depth
    return textwrap.wrap(
        output.plain(text), width, initial_indent=begin, subsequent_indent=begin, break_on_hyphens=False
    )


def _listed(names: Iterable[str], width: int, depth: int) -> Iterator[str]:
    """Names beside each other, as many as there is room for."""
    line = ""
    for name in map(output.plain, names):
        longer = f"{line}  {name}" if line else INDENT * depth + name
        if line and len(longer) > width:
            yield line
            longer = INDENT * depth + name
        line = longer
    if line:
        yield line
