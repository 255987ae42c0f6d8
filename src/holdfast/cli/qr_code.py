"""A QR code as lines of text, for a phone's camera."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import BadInput

BORDER = 2  # modules around it; cameras need some
# By the modules above and below: a dark one is left blank, because terminals are dark.
BLOCKS = {(True, True): " ", (True, False): "▄", (False, True): "▀", (False, False): "█"}


def qr_lines(text: str) -> Iterator[str]:
    """The lines of the code, two rows of modules in each."""
    try:
        import qrcode
    except ModuleNotFoundError:
        raise BadInput("--qr needs the package qrcode", hint="pip install qrcode") from None
    code = qrcode.QRCode(border=BORDER, error_correction=qrcode.constants.ERROR_CORRECT_L)
    code.add_data(text)
    rows: list[list[bool]] = code.get_matrix()
    light = [False] * len(rows[0])
    for above, below in zip(rows[::2], [*rows[1::2], light], strict=False):
        yield "".join(BLOCKS[pair] for pair in zip(above, below, strict=True))
