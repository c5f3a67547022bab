"""What a refusal must say, and the assertion that decoding says it."""

from typing import NamedTuple

import pytest

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused


class Refusal(NamedTuple):
    """The reason, and in words what was wanted, what was got, and where."""

    reason: Reason
    wanted: str
    got: str
    path: str


def assert_refused(document: bytes, said: Refusal) -> None:
    """Decoding refuses the document for this reason and says all three."""
    with pytest.raises(EventRefused) as refusal:
        decode_event(document)
    detail = refusal.value.detail
    assert refusal.value.reason is said.reason, detail
    assert detail.startswith(said.wanted), detail
    assert f"got {said.got}" in detail, detail
    assert detail.endswith(f" - at `{said.path}`"), detail
    assert detail.encode().decode() == str(refusal.value)


def assert_accepted(document: bytes) -> None:
    """Decoding accepts the document."""
    decode_event(document)
