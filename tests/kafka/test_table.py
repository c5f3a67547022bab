"""The table in memory as a policy asks it, without a broker."""

from __future__ import annotations

from trustfold_projections.laws.policy.standing import standing_of
from trustfold_schemas.scores import Corrupt, State, content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.score_records import Position, pack_score
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.table import TableReader

SUBJECT = Subject("", "shell", "fs_read:./src")
OTHER = Subject("", "shell", "fs_read:./docs")


def _state(subject: Subject, samples: int) -> State:
    weight = samples << 40
    return State(
        subject=subject,
        num=[weight * 700_000] * 5,
        den=[weight] * 5,
        n_samples=samples,
        last_updated=1_767_225_600_000_000,
        version=samples,
    )


def _take(table: TableReader, state: State) -> None:
    table.take_score(state.subject.key, pack_score(state, Position(0, 0)))


def test_a_standing_is_that_of_the_last_record() -> None:
    """Asked once or often: after another record, and after the subject is gone, nothing old."""
    table = TableReader(KafkaSettings("nowhere:1"))
    assert table.standing(SUBJECT) is None
    for samples in (3, 4):
        state = _state(SUBJECT, samples)
        _take(table, state)
        for _ in range(2):
            found = table.standing(SUBJECT)
            assert found is not None
            assert not isinstance(found, Corrupt)
            expected = standing_of(state, content_digest(state))
            assert (found.digest, found.version) == (expected.digest, samples)
            assert (found.raw_score, found.weight) == (expected.raw_score, expected.weight)
            assert found.all_sums == (tuple(state.num), tuple(state.den))
    _take(table, _state(OTHER, 1))
    table.take_score(SUBJECT.key, None)
    assert table.standing(SUBJECT) is None
    assert table.standing(OTHER) is not None


def test_a_damaged_record_is_no_standing_even_after_a_sound_one() -> None:
    """What was kept of the sound one is gone; every question is told what is wrong."""
    table = TableReader(KafkaSettings("nowhere:1"))
    sound = pack_score(_state(SUBJECT, 3), Position(0, 0))
    table.take_score(SUBJECT.key, sound)
    assert not isinstance(table.standing(SUBJECT), Corrupt)
    table.take_score(SUBJECT.key, sound.replace(b'"n_samples":"3"', b'"n_samples":"4"'))
    for _ in range(2):
        found = table.standing(SUBJECT)
        assert isinstance(found, Corrupt)
        assert "checksum" in found.error
    assert table.corrupt_reads == 2
    table.take_score(SUBJECT.key, sound)
    assert not isinstance(table.standing(SUBJECT), Corrupt)


def test_another_subjects_record_under_a_key_is_no_standing() -> None:
    """A sound record in the wrong place speaks of nobody."""
    table = TableReader(KafkaSettings("nowhere:1"))
    table.take_score(SUBJECT.key, pack_score(_state(OTHER, 3), Position(0, 0)))
    found = table.standing(SUBJECT)
    assert isinstance(found, Corrupt)
    assert "holds that of" in found.error
