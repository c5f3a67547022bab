"""The state of a subject, its digest, and the record that refuses damage (SPEC 4)."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_schemas.amounts import PPM
from trustfold_schemas.errors import LogError, TrustCorruptionError
from trustfold_schemas.instants import instant_of
from trustfold_schemas.scores import (
    Rollback,
    ScoreRecord,
    State,
    TrustScore,
    check_ranges,
    content_digest,
    content_json,
    record_of,
    state_of,
)
from trustfold_schemas.subject import Subject

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
SUBJECTS = st.builds(Subject, st.just("") | NAMES, NAMES, NAMES)
MOMENTS = st.none() | st.integers(-(2**62), 2**62)
PARTS = ("content", "beside", "digest", "checksum")


@st.composite
def sums(draw: st.DrawFn, count: int) -> tuple[list[int], list[int]]:
    """Numerators and denominators inside their ranges, far beyond 64 bits."""
    den = draw(st.lists(st.integers(0, 2**140), min_size=count, max_size=count))
    return [draw(st.integers(0, one * PPM)) for one in den], den


@st.composite
def states(draw: st.DrawFn) -> State:
    """Any state that a fold may come to."""
    num, den = draw(sums(6))
    rollbacks = st.builds(Rollback, NAMES, st.integers(0, 2**62), st.integers(0, 2**62))
    return State(
        subject=draw(SUBJECTS),
        num=num[:5],
        den=den[:5],
        n_samples=draw(st.integers(0, 2**70)),
        self_play_num=num[5],
        self_play_den=den[5],
        last_updated=draw(MOMENTS),
        last_bad_at=draw(MOMENTS),
        last_grant_at=draw(MOMENTS),
        rollbacks=tuple(draw(st.lists(rollbacks, max_size=3))),
        version=draw(st.integers(0, 2**62)),
    )


@given(states(), st.integers(-1, 2**62))
def test_a_record_opens_to_the_state_that_it_sealed(state: State, position: int) -> None:
    """Nothing is lost or rounded, and the ledger position comes back with it."""
    record = record_of(state, position)
    assert state_of(record) == (state, position)
    assert record.digest.hex() == content_digest(state)


@given(states(), st.data())
def test_one_changed_byte_is_seen(state: State, data: st.DataObject) -> None:
    """Whichever byte of whichever part: the record is never opened."""
    record = record_of(state, 7)
    name = data.draw(st.sampled_from(PARTS))
    part = bytearray(getattr(record, name))
    part[data.draw(st.integers(0, len(part) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(TrustCorruptionError):
        state_of(msgspec.structs.replace(record, **{name: bytes(part)}))


@pytest.mark.parametrize("name", PARTS)
def test_a_cut_or_longer_part_is_seen(name: str) -> None:
    """A part that lost its end or grew is never opened, and the error names the subject."""
    record = record_of(State(subject=Subject("", "shell", "invoke")), 7)
    part: bytes = getattr(record, name)
    for damaged in (part[:-1], part + b" ", b""):
        with pytest.raises(TrustCorruptionError) as error:
            state_of(msgspec.structs.replace(record, **{name: damaged}))
        assert "shell" in str(error.value) or (name == "content" and damaged != part + b" ")
        assert isinstance(error.value, LogError)


def test_a_byte_cannot_move_between_the_parts() -> None:
    """The checksum knows where the content ends and what stands beside it begins."""
    record = record_of(State(subject=Subject("", "shell", "invoke")), 7)
    content, beside = record.content + record.beside[:1], record.beside[1:]
    digest = hashlib.sha256(content).digest()
    with pytest.raises(TrustCorruptionError, match="checksum"):
        state_of(ScoreRecord(content, beside, digest, record.checksum))


def resealed(**changes: Any) -> ScoreRecord:
    """A record of another content with all digests right, as only a faulty worker writes it."""
    content = json.loads(record_of(State(subject=Subject("", "shell", "invoke")), 7).content)
    places = ("formula", "subject", "num", "den", "n_samples", "sp_num", "sp_den", "updated")
    for name, value in changes.items():
        content[places.index(name)] = value
    text, beside = json.dumps(content, separators=(",", ":")).encode(), b"[[],0,7]"
    seal = hashlib.sha256(b"%d:%b%b" % (len(text), text, beside)).digest()
    return ScoreRecord(text, beside, hashlib.sha256(text).digest(), seal)


def test_resealed_is_opened_where_nothing_is_wrong() -> None:
    """The next test's records fail for what they say and not for how they are sealed."""
    assert state_of(resealed())[1] == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"num": ["-1", "0", "0", "0", "0"]},
        {"num": ["1000001", "0", "0", "0", "0"], "den": ["1", "0", "0", "0", "0"]},
        {"num": ["0", "0", "0", "0", "1"]},
        {"den": ["0", "0", "-1", "0", "0"]},
        {"num": ["0"] * 4, "den": ["0"] * 4},
        {"num": ["0"] * 6, "den": ["0"] * 6},
        {"num": ["0"] * 4},
        {"n_samples": "-1"},
        {"sp_num": "1"},
        {"n_samples": "many"},
        {"n_samples": 1},
        {"subject": ["", "", "invoke"]},
        {"updated": "yesterday"},
        {"formula": "ewm/2"},
        {"formula": None},
    ],
)
def test_a_state_that_cannot_be_is_not_opened(changes: dict[str, Any]) -> None:
    """Right digests do not help: form, formula and ranges are checked after them."""
    with pytest.raises(TrustCorruptionError):
        state_of(resealed(**changes))


@pytest.mark.parametrize(
    "state",
    [
        State(subject=Subject("", "shell", "invoke"), num=[1, 0, 0, 0, 0]),
        State(subject=Subject("", "shell", "invoke"), num=[0, 0, 0, 0, -1]),
        State(subject=Subject("", "shell", "invoke"), den=[0, 0, 0, -1, 0]),
        State(subject=Subject("", "shell", "invoke"), self_play_num=1),
        State(subject=Subject("", "shell", "invoke"), n_samples=-1),
        State(subject=Subject("", "shell", "invoke"), num=[0] * 4, den=[0] * 4),
    ],
)
def test_a_state_outside_its_ranges_is_not_sealed(state: State) -> None:
    """Assert before the write too: what is wrong in memory never reaches the table."""
    with pytest.raises(TrustCorruptionError, match="shell"):
        check_ranges(state)
    with pytest.raises(TrustCorruptionError, match="shell"):
        record_of(state, 7)


def test_the_check_value_of_the_specification() -> None:
    """One closed trace with one ok step and nothing else, its sums written out by hand."""
    g = 1849056653 << 76
    state = State(
        subject=Subject("", "fs_write", "fs_write:~/notes/*"),
        num=[PPM * g, 0, 0, PPM * g, 0],
        den=[g, 0, 0, g, g],
        n_samples=1,
        last_updated=instant_of(datetime(2026, 4, 22, 12, 34, 56, 789012, UTC)),
    )
    assert content_digest(state).startswith("e86a68985c133796")


@given(states())
def test_the_digest_is_of_the_compact_json(state: State) -> None:
    """Every integer a decimal string, absent = null, as json.dumps writes it."""

    def text(number: int | None) -> str | None:
        return None if number is None else str(number)

    wanted = [
        "ewm/1",
        list(state.subject),
        [str(one) for one in state.num],
        [str(one) for one in state.den],
        *map(text, (state.n_samples, state.self_play_num, state.self_play_den)),
        *map(text, (state.last_updated, state.last_bad_at, state.last_grant_at)),
    ]
    compact = json.dumps(wanted, ensure_ascii=False, separators=(",", ":")).encode()
    assert content_json(state) == compact
    assert content_digest(state) == hashlib.sha256(compact).hexdigest()


@given(states(), states())
def test_what_stands_beside_is_outside_the_digest(state: State, other: State) -> None:
    """Rollbacks and version follow the order of arrival and change no digest."""
    before = content_digest(state)
    state.rollbacks, state.version = other.rollbacks, other.version
    assert content_digest(state) == before


def test_an_empty_score_is_no_trust() -> None:
    """A subject without history: score 0, and nothing to rest anything on."""
    empty = TrustScore.empty(Subject("", "shell", "invoke"))
    assert empty.score == empty.raw_score == empty.n_samples == empty.effective_samples == 0
    assert empty.last_updated is None
