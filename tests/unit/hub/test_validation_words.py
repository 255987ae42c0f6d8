"""What a validator says of a request is told in plain words, without its quoting and types."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.hub.api.tasks import DispatchRequest
from holdfast.hub.app import plain_reason

SAID = {
    b"{}": "prompt is missing",
    b'{"prompt": ""}': "must not be empty",
    b'{"prompt": 1}': "must be str, not int",
    b'{"prompt": "x", "promt": "y"}': "there is no field promt",
    b'{"prompt": "x", "time_limit_s": 0}': "must be > 0",
    b'{"prompt": "x", "permissions": "yes"}': "'yes' is not one of the possible values",
}


@pytest.mark.parametrize("body", SAID, ids=[body.decode() for body in SAID])
def test_a_reason_is_plain(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(body, type=DispatchRequest)
    assert plain_reason(str(refused.value)) == SAID[body]
    assert "`" not in plain_reason("anything `else` at all - at `$.x`")
