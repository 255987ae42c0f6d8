"""What is wrong with the web UI's folder of sessions as a whole; sessions are judged one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

from holdfast.doctor.hermes import listing
from holdfast.doctor.hermes.census import Census
from holdfast.history.hermes.layout import INDEX, is_litter
from holdfast.history.hermes.sidecar import State
from holdfast.history.reader import Problem


def problems(
    census: Census, odd: Mapping[str, State], misnamed: Mapping[str, str], knows: Callable[[str], bool]
) -> list[Problem]:
    """Its index, files that are no sessions, what crashes left.

    `odd`: the sidecars that are not whole; `misnamed`: the sessions that files of a wrong name tell;
    `knows`: whether a database has a session.
    """
    found = []
    strange = [own for own, state in odd.items() if state == "foreign" and not _is_kept(census, own, knows)]
    if strange:
        names = sorted(f"{own}.json" for own in strange)
        found.append(Problem("foreign_file", "files that are no sessions", {"names": names}))
    if litter := sorted(name for name in census.listed if is_litter(name)):
        text = f"a crash left temporary files ({len(litter):,})"
        found.append(Problem("tmp_litter", text, {"names": litter}))
    if (said := _index(census, odd, misnamed, knows)) is not None:
        found.append(said)
    return found


def _index(
    census: Census, odd: Mapping[str, State], misnamed: Mapping[str, str], knows: Callable[[str], bool]
) -> Problem | None:
    sidecars = census.sidecars
    wanted = bytearray(0 if own in odd or own in misnamed else 1 for own in sidecars)
    if INDEX not in census.listed:
        return Problem("index_missing", "its index is not there", {"name": INDEX}) if any(wanted) else None
    elsewhere = set(misnamed.values())
    ghosts: set[str] = set()
    try:
        for own in listing.ids(census):
            place = bisect_left(sidecars, own)
            if place < len(sidecars) and sidecars[place] == own and odd.get(own) != "foreign":
                wanted[place] = 0
            elif own not in elsewhere:
                ghosts.add(own)
    except (OSError, ValueError):
        return Problem("index_corrupt", "its index cannot be read", {"name": INDEX})
    # An entry whose file is gone is not a ghost while its backup or its row is there (#5504).
    ghosts = {own for own in ghosts if not _is_kept(census, own, knows)}
    if not ghosts and not any(wanted):
        return None
    missing = [own for own, is_wanted in zip(sidecars, wanted, strict=True) if is_wanted]
    text = (
        f"its index lists {len(ghosts):,} sessions that are gone, and lacks {len(missing):,} that are there"
    )
    return Problem("index_stale", text, {"ghosts": sorted(ghosts), "missing": missing})


def _is_kept(census: Census, own: str, knows: Callable[[str], bool]) -> bool:
    return own in census.backups or knows(own)
