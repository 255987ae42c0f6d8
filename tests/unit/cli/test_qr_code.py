"""The QR code in a terminal is the code of the address."""

from __future__ import annotations

import pytest
import qrcode

from holdfast.cli.qr_code import BLOCKS, BORDER, qr_lines

URL = "http://192.0.2.2:8420/?token=" + "x" * 43


def test_the_lines_hold_every_module() -> None:
    code = qrcode.QRCode(border=BORDER, error_correction=qrcode.constants.ERROR_CORRECT_L)
    code.add_data(URL)
    modules = {shown: pair for pair, shown in BLOCKS.items()}
    rows: list[list[bool]] = []
    for line in qr_lines(URL):
        pairs = [modules[letter] for letter in line]
        rows += [[above for above, _ in pairs], [below for _, below in pairs]]
    wanted = code.get_matrix()
    assert rows[: len(wanted)] == wanted and not any(rows[-1])


def test_it_fits_a_terminal() -> None:
    lines = list(qr_lines(URL))
    assert max(map(len, lines)) <= 80 and len({len(line) for line in lines}) == 1


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from holdfast.errors import BadInput

    monkeypatch.setitem(sys.modules, "qrcode", None)
    with pytest.raises(BadInput, match="needs the package qrcode"):
        list(qr_lines(URL))
