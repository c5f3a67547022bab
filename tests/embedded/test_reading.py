"""Reading: the table as it is and as of a moment, beside writers, and what is no trust."""

from __future__ import annotations

import copy
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.embedded.documents import (
    NOTES,
    SECOND,
    SHELL,
    closed,
    decided,
    lifted,
    recorded_step,
    rolled_back,
    step,
)
from tests.embedded.feeding import beside, feed, ingest, query, some_examples, store_in_a_folder
from tests.embedded.rollbacks import rolled_back_histories
from tests.laws.runs import Run
from tests.oracles.histories import RECORDED_FROM, Draft, recorded_at, told
from trustfold_schemas.errors import NotSettledError, TrustCorruptionError
from trustfold_schemas.scores import Corrupt, State, TrustScore
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.errors import StoreReadOnlyError

NOWHERE = Subject("", "nobody", "invoke")


def by_subject(states: list[State]) -> dict[Subject, State]:
    """A table by subject; it must be in the order of subjects."""
    assert [state.subject for state in states] == sorted(state.subject for state in states)
    return {state.subject: state for state in states}


# ---- as of a moment --------------------------------------------------------------------------


@some_examples
@given(history=rolled_back_histories())
def test_as_of_a_moment_is_the_fold_of_the_facts_up_to_it(history: list[Draft]) -> None:
    """At every recorded moment and just before it, as-of is what the law folds that prefix to."""
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        feed(store, clock, history, 1)
        run = Run()
        for fact in told(history):
            assert by_subject(store.states_as_of(fact.recorded - 1)) == run.states
            run.take(fact)
            assert by_subject(store.states_as_of(fact.recorded)) == run.states


@some_examples
@given(history=rolled_back_histories())
def test_as_of_the_end_is_the_table(history: list[Draft]) -> None:
    """As of the last moment, the table that is folded again is the one that was kept up to date."""
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        feed(store, clock, history, 3)
        clock.advance(SECOND)
        assert store.states_as_of(clock.now()) == store.states()


@some_examples
@given(history=rolled_back_histories(), data=st.data())
def test_one_subject_as_of_a_moment_is_its_line_of_the_table(
    history: list[Draft], data: st.DataObject
) -> None:
    """`state_as_of` says of every subject what `states_as_of` says, and None of the others."""
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        feed(store, clock, history, 2)
        moment = recorded_at(data.draw(st.integers(-1, len(history)))) + data.draw(
            st.integers(-1, 1)
        )
        clock.moment = max(clock.moment, moment)
        table = by_subject(store.states_as_of(moment))
        ever = [row.subject for row in store.states()]
        assert set(table) <= set(ever)
        for subject in (*ever, NOWHERE):
            assert store.state_as_of(subject, moment) == table.get(subject)
            assert (store.state(subject) is None) == (subject not in ever)


JUMPS = st.sampled_from((-10 * SECOND, -SECOND, -1, 0, 0, 1, SECOND, 10 * SECOND))


@some_examples
@given(history=rolled_back_histories(), data=st.data())
def test_nothing_recorded_later_changes_an_earlier_answer(
    history: list[Draft], data: st.DataObject
) -> None:
    """However the clock jumps, an answer as of a moment that has come stays the answer."""
    clock = ManualClock(recorded_at(len(history)))
    answers: dict[int, list[State]] = {}
    with store_in_a_folder(clock) as store, beside(store) as other:
        for draft in history:
            feed(store, clock, [draft], 1, clock.now())
            clock.advance(data.draw(JUMPS))
            asked = data.draw(st.sampled_from((store, other)))
            answers.setdefault(clock.now(), copy.deepcopy(asked.states_as_of(clock.now())))
            clock.advance(data.draw(JUMPS))
        clock.moment = max(answers, default=0)
        for moment, answer in answers.items():
            assert store.states_as_of(moment) == answer


@pytest.mark.parametrize("asked_by", ["writer", "neighbour", "predecessor"])
def test_an_answer_beyond_the_last_fact_fences_what_is_recorded_later(
    path: Path, store: EmbeddedStore, clock: ManualClock, asked_by: str
) -> None:
    """After an answer as of now, a clock set back records past that moment, whoever was asked."""
    ingest(store, closed("t1"))
    clock.advance(60 * SECOND)
    moment = clock.now()
    with EmbeddedStore.open(path, "write", clock=clock) as other:
        answer = (store if asked_by == "writer" else other).states_as_of(moment)
    clock.advance(-30 * SECOND)
    if asked_by == "predecessor":
        store.close()
    with EmbeddedStore.open(path, "write", clock=clock) as later:
        (receipt,) = ingest(later if asked_by == "predecessor" else store, closed("t2"))
        assert receipt.recorded is not None
        assert receipt.recorded > moment
        clock.moment = moment
        assert later.states_as_of(moment) == answer


def test_an_answer_as_of_a_moment_fences_a_clock_that_stands_still(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    """A fact that comes in the same microsecond as a question is recorded after it."""
    ingest(store, closed("t1"))
    clock.advance(1)
    answer = store.states_as_of(clock.now())
    ingest(store, closed("t2"))
    assert store.states_as_of(clock.now()) == answer


def test_as_of_the_future_is_refused(store: EmbeddedStore, clock: ManualClock) -> None:
    """Of a moment that has not come nothing is said, and the message names both moments."""
    ingest(store, closed("t1"))
    wanted = clock.now() + 1
    for asked in (lambda: store.states_as_of(wanted), lambda: store.state_as_of(NOTES, wanted)):
        with pytest.raises(NotSettledError, match=r"has not come: it is \d{4}-"):
            asked()


def test_a_handle_for_reading_answers_up_to_what_has_settled(
    path: Path, store: EmbeddedStore, clock: ManualClock
) -> None:
    """It cannot fence, so it refuses moments after the last fact, until a writer was asked."""
    ingest(store, closed("t1"))
    last = clock.now()
    clock.advance(SECOND)
    with EmbeddedStore.open(path, "read", clock=clock) as reading:
        assert len(reading.states_as_of(last)) == 2
        with pytest.raises(NotSettledError, match="has settled up to"):
            reading.states_as_of(last + 1)
        store.states_as_of(last + SECOND)
        assert len(reading.states_as_of(last + SECOND)) == 2


def test_before_the_first_fact_there_is_nothing(store: EmbeddedStore) -> None:
    """As of a moment before the log begins the table is empty."""
    ingest(store, closed("t1"))
    assert store.states_as_of(RECORDED_FROM - 1) == []
    assert store.state_as_of(NOTES, RECORDED_FROM - 1) is None


# ---- rollbacks -------------------------------------------------------------------------------


def test_a_rollback_by_half_and_its_lifting(store: EmbeddedStore, clock: ManualClock) -> None:
    """After 100 traces a rollback by 50 gives the sums of then, and lifting it all 100 again."""
    states: list[State | None] = []
    for number in range(100):
        clock.advance(SECOND)
        moment = RECORDED_FROM - (100 - number) * SECOND
        ingest(store, closed(f"t{number}", time=moment), decided(f"t{number}", time=moment))
        states.append(store.state(NOTES))
    half, full = states[49], states[99]
    ingest(store, rolled_back(NOTES, RECORDED_FROM + 50 * SECOND + 1))
    after = store.state(NOTES)
    ingest(store, lifted(NOTES))
    again = store.state(NOTES)
    assert half is not None
    assert full is not None
    assert after is not None
    assert again is not None
    assert (half.n_samples, full.n_samples) == (50, 100)
    for name in ("num", "den", "n_samples", "last_updated", "last_grant_at"):
        assert getattr(after, name) == getattr(half, name)
        assert getattr(again, name) == getattr(full, name)
    assert (len(after.rollbacks), len(again.rollbacks)) == (1, 0)


# ---- scores ----------------------------------------------------------------------------------


def test_a_subject_without_samples_has_no_score(store: EmbeddedStore) -> None:
    """`get` is None of what is unknown and of what was only braked; the brake is in the state."""
    denied = decided("t9", "denied", subjects=[SHELL])
    ingest(store, denied, recorded_step("t8", step()))
    assert store.get(NOWHERE) is None
    assert store.get(SHELL) is None
    state = store.state(SHELL)
    assert state is not None
    assert state.last_bad_at is not None


def test_a_score_is_read_at_the_clocks_moment_or_at_one_that_is_given(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    """`get` reads at the store's clock; thirty days after clean evidence the score has halved."""
    ingest(store, closed("t1", time=RECORDED_FROM))
    now, later = store.get(NOTES), store.get(NOTES, RECORDED_FROM + 30 * 86_400 * SECOND)
    assert now is not None
    assert later is not None
    assert (now.score, now.n_samples) == (now.raw_score, 1)
    assert later.score == now.score / 2
    clock.advance(30 * 86_400 * SECOND)
    assert store.get(NOTES) == later


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE scores SET content = replace(content, 'ewm/1', 'ewm/2')",
        "UPDATE scores SET digest = zeroblob(32)",
        "UPDATE scores SET checksum = zeroblob(32)",
        "UPDATE scores SET beside = '[[],99,1]'",
        "DELETE FROM scores",
    ],
)
def test_a_corrupt_record_is_no_trust(
    path: Path, store: EmbeddedStore, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """It is named in the table, refused as a state and empty as a score, and said aloud."""
    ingest(store, closed("t1"))
    with closing(sqlite3.connect(path)) as stranger, stranger:
        stranger.execute(damage)
    with caplog.at_level(logging.CRITICAL), pytest.raises(TrustCorruptionError):
        store.state(NOTES)
    assert store.get(NOTES) == TrustScore.empty(NOTES)
    assert [type(row) for row in store.states()] == [Corrupt, Corrupt]
    assert {record.levelno for record in caplog.records} == {logging.CRITICAL}


def test_a_corrupt_record_is_folded_again_by_the_next_fact(
    path: Path, store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer never builds on damage: it refolds the subject from the ledger and says so."""
    ingest(store, closed("t1"), closed("t2"))
    with closing(sqlite3.connect(path)) as stranger, stranger:
        stranger.execute("UPDATE scores SET content = '[]'")
    with caplog.at_level(logging.CRITICAL):
        ingest(store, closed("t3"))
    state = store.state(NOTES)
    assert state is not None
    assert state.n_samples == 3
    assert store.verify().findings == []
    assert len(caplog.records) == 2


# ---- readers beside a writer -----------------------------------------------------------------


def test_a_reader_sees_nothing_of_an_open_transaction(path: Path, store: EmbeddedStore) -> None:
    """Between a batch's first row and its commit others see the file as it was before."""
    ingest(store, closed("t1"))
    seen: list[tuple[int, int]] = []

    def look(statement: str) -> None:
        if statement == "COMMIT":
            with EmbeddedStore.open(path, "read", clock=store.clock) as reading:
                state = reading.state(NOTES)
                seen.append((reading.status().facts, state.n_samples if state else 0))

    store._connection.set_trace_callback(look)
    ingest(store, closed("t2"), closed("t3"))
    store._connection.set_trace_callback(None)
    assert seen == [(1, 1)]
    assert store.status().facts == 3


def test_a_handle_for_reading_follows_the_writer(path: Path, store: EmbeddedStore) -> None:
    """One that stays open sees every later commit."""
    ingest(store, closed("t1"))
    with EmbeddedStore.open(path, "read") as reading:
        for count in (2, 3):
            ingest(store, closed(f"t{count}"))
            state = reading.state(NOTES)
            assert state is not None
            assert state.n_samples == count


def test_a_handle_for_reading_does_not_write(path: Path, store: EmbeddedStore) -> None:
    """Ingest through it is refused by name, and nothing is kept."""
    with (
        EmbeddedStore.open(path, "read") as reading,
        pytest.raises(StoreReadOnlyError, match=str(path)),
    ):
        ingest(reading, closed("t1"))
    assert query(path, "SELECT count(*) FROM facts") == [(0,)]
