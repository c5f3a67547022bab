"""Ingest: a batch becomes facts, entries, scores and dead letters as the law says, or nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.embedded.documents import (
    NOTES,
    SECOND,
    closed,
    decided,
    event,
    excluded,
    median,
    numbered,
    recorded_step,
    rolled_back,
    step,
    undone,
)
from tests.embedded.feeding import (
    beside,
    by_one_owner,
    counted,
    digests,
    feed,
    foreseen,
    ingest,
    query,
    some_examples,
    store_in_a_folder,
)
from tests.laws.runs import sums_of
from tests.oracles.batch import batch
from tests.oracles.histories import (
    RECORDED_FROM,
    Draft,
    recorded_at,
    tame_histories,
    wild_histories,
)
from trustfold_schemas.scores import State
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import Document, EmbeddedStore, Receipt

SIZES = pytest.mark.parametrize("size", [1, 7, 1_000])
ANY_HISTORY = st.one_of(tame_histories(), wild_histories())
PUBLISHERS = pytest.mark.parametrize("one_owner", [True, False], ids=["owner", "publishers"])
EVENTS = [
    median(),
    recorded_step("t1", step("b")),
    closed("t1", step("a"), cost_usd=0.01),
    decided("t1", step_ids=["a"]),
    closed("t2", step("a"), step("b", status="error"), cost_usd=0.03),
    undone("t2"),
    b"no event",
    closed("t3"),
    excluded("t3"),
    rolled_back(NOTES, RECORDED_FROM),
    closed("t4"),
    decided("t4", "denied"),
]
"""Something of everything; the step `b` of t1 is unlisted."""


# ---- the law ---------------------------------------------------------------------------------


@SIZES
@PUBLISHERS
@some_examples
@given(history=ANY_HISTORY)
def test_the_table_has_the_laws_digests(history: list[Draft], size: int, one_owner: bool) -> None:
    """Whatever the history and the size of batches, the table is what the law folds it to."""
    history = by_one_owner(history) if one_owner else history
    run, _ = foreseen(history, size)
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        feed(store, clock, history, size)
        assert digests(store.states()) == digests(run.states.values())


@SIZES
@some_examples
@given(history=wild_histories())
def test_the_table_has_the_sums_of_the_batch_oracle(history: list[Draft], size: int) -> None:
    """The stored sums are those of an oracle that shares no code with the law."""
    _, facts = foreseen(history, size)
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        feed(store, clock, history, size)
        states = {state.subject: state for state in store.states() if isinstance(state, State)}
        assert {subject: sums_of(state) for subject, state in states.items()} == batch(facts)


@some_examples
@given(history=tame_histories(), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_batching_changes_no_digest(history: list[Draft], sizes: tuple[int, int]) -> None:
    """One history without exclusive facts, cut into batches in two ways, gives one table."""
    tables = []
    for size in sizes:
        clock = ManualClock(RECORDED_FROM)
        with store_in_a_folder(clock) as store:
            feed(store, clock, by_one_owner(history), size)
            tables.append(digests(store.states()))
    assert tables[0] == tables[1]


@some_examples
@given(history=ANY_HISTORY, size=st.sampled_from((1, 7, 1_000)))
def test_every_document_is_counted_once_and_as_the_law_judges(
    history: list[Draft], size: int
) -> None:
    """The four counts add up to the documents, and each is what the law's verdicts come to."""
    run, facts = foreseen(history, size)
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        summary, receipts = feed(store, clock, history, size)
    expected = [
        counted(outcome, told.recorded) for outcome, told in zip(run.outcomes, facts, strict=True)
    ]
    assert [receipt.counted for receipt in receipts] == expected
    assert summary.total == len(history)
    assert {name: getattr(summary, name) for name in Counter(expected)} == Counter(expected)


@some_examples
@given(history=ANY_HISTORY, size=st.sampled_from((1, 7, 1_000)))
def test_what_is_in_the_log_is_a_duplicate_when_it_comes_again(
    history: list[Draft], size: int
) -> None:
    """Facts told again are all counted as duplicates; facts, entries and digests stay."""
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        _, receipts = feed(store, clock, history, size)
        kept = [d for d, r in zip(history, receipts, strict=True) if r.recorded is not None]
        before, status = digests(store.states()), store.status()
        summary, _ = feed(store, clock, kept, size)
        assert summary.duplicates == summary.total == len(kept)
        assert digests(store.states()) == before
        assert (store.status().facts, store.status().entries) == (status.facts, status.entries)


# ---- batches ---------------------------------------------------------------------------------


def test_each_committed_batch_is_told_of(store: EmbeddedStore) -> None:
    """`committed` hears of every batch in order, the last one shorter."""
    sizes: list[int] = []
    documents = numbered(closed(f"t{n}") for n in range(10))
    summary = store.ingest(documents, batch=4, committed=lambda some: sizes.append(len(some)))
    assert sizes == [4, 4, 2]
    assert summary.accepted == 10


def test_no_documents_are_no_batch(store: EmbeddedStore) -> None:
    """An ingest of nothing counts nothing and tells of nothing."""
    told: list[list[Receipt]] = []
    assert store.ingest([], committed=told.append).total == 0
    assert told == []


def test_an_input_that_breaks_off_keeps_the_batches_before(store: EmbeddedStore) -> None:
    """When the documents stop with an error, full batches are kept and the rest is not begun."""

    def breaking_off() -> Iterator[Document]:
        yield from numbered(closed(f"t{n}") for n in range(5))
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="the disk went away"):
        store.ingest(breaking_off(), batch=2)
    assert store.status().facts == 4


@pytest.mark.parametrize(
    ("inside", "call"),
    [("correlate", 0), ("correlate", 8), ("fold", 0), ("fold", 7), ("record_of", 1)],
)
def test_an_error_in_the_middle_of_a_batch_leaves_nothing_of_it(
    path: Path, store: EmbeddedStore, inside: str, call: int
) -> None:
    """Nothing of a failed batch is kept, and the same store goes on as if it had not been."""
    events = [closed(f"t{n}", step("a"), step("b")) for n in range(3)]
    ingest(store, *events)
    before = query(path, "SELECT * FROM ledger"), digests(store.states())
    with pytest.MonkeyPatch.context() as patch:
        place = f"trustfold_streams.embedded.writer.{inside}"
        patch.setattr(place, _failing(place, call))
        with pytest.raises(ZeroDivisionError):
            ingest(store, *EVENTS)
    assert (query(path, "SELECT * FROM ledger"), digests(store.states())) == before
    assert query(path, "SELECT count(*) FROM dead_letters") == [(0,)]

    ingest(store, *EVENTS)
    with store_in_a_folder() as undisturbed:
        ingest(undisturbed, *events)
        ingest(undisturbed, *EVENTS)
        assert digests(store.states()) == digests(undisturbed.states())
    assert store.verify().findings == []


def _failing(place: str, call: int) -> object:
    """A stand-in that works for so many calls and then fails."""
    module, name = place.rsplit(".", 1)
    real = getattr(__import__(module, fromlist=[name]), name)
    calls = iter(range(1_000))

    def stand_in(*values: object, **named: object) -> object:
        if next(calls) == call:
            raise ZeroDivisionError
        return real(*values, **named)

    return stand_in


@some_examples
@given(history=ANY_HISTORY, turns=st.lists(st.integers(0, 1), min_size=1, max_size=30))
def test_two_writers_by_turns_are_one_writer(history: list[Draft], turns: list[int]) -> None:
    """Two stores open on one file and writing alternately give what one writer gives."""
    run, _ = foreseen(history, 1)
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as first, beside(first) as second:
        writers = [first if turn == 0 else second for turn in turns]
        for position, draft in enumerate(history):
            feed(writers[position % len(writers)], clock, [draft], 1, recorded_at(position))
        assert digests(first.states()) == digests(run.states.values())
        assert second.verify().findings == []


# ---- dead letters ----------------------------------------------------------------------------


def test_a_bad_line_is_a_dead_letter_and_the_rest_goes_on(path: Path, store: EmbeddedStore) -> None:
    """What is no event is kept with its bytes and its origin; what stands around it is folded."""
    bad = b'{"half": \xff'
    summary = store.ingest(numbered([closed("t1"), bad, closed("t2")], "log.jsonl"))
    assert (summary.accepted, summary.dead_letters) == (2, 1)
    rows = query(path, "SELECT reason, origin, body, times FROM dead_letters")
    assert rows == [("malformed", "log.jsonl:2", bad, 1)]
    state = store.state(NOTES)
    assert state is not None
    assert state.n_samples == 2


def test_the_same_bytes_refused_again_are_one_dead_letter(path: Path, store: EmbeddedStore) -> None:
    """A dead letter that comes again is counted at the first one, with its last origin."""
    for name in ("one.jsonl", "two.jsonl"):
        store.ingest(numbered([b"no event"], name))
    rows = query(path, "SELECT origin, times FROM dead_letters")
    assert rows == [("two.jsonl:1", 2)]


@pytest.mark.parametrize("size", [1, 1_000])
def test_an_unlisted_step_is_buried_with_its_own_bytes(
    path: Path, store: EmbeddedStore, size: int
) -> None:
    """When a close proves an earlier step useless, the dead letter holds that step's bytes."""
    stray = recorded_step("t1", step("stray"))
    receipts: list[Receipt] = []
    documents = numbered([stray, closed("t1", step("a"))])
    store.ingest(documents, batch=size, committed=receipts.extend)
    assert [receipt.counted for receipt in receipts] == ["accepted", "accepted"]
    assert query(path, "SELECT reason, body FROM dead_letters") == [("unlisted_step", stray)]


def test_the_same_id_with_other_content_is_a_conflict(store: EmbeddedStore) -> None:
    """A second content under one id changes nothing and is told apart from a duplicate."""
    first, other = closed("t1"), closed("t1", step(status="error"))
    receipts = ingest(store, first, other, first)
    assert [receipt.counted for receipt in receipts] == ["accepted", "conflicts", "duplicates"]
    assert receipts[1].recorded is None


# ---- recorded --------------------------------------------------------------------------------


def test_recorded_grows_though_the_clock_stands_still(path: Path, store: EmbeddedStore) -> None:
    """Facts of one moment are recorded a microsecond apart, within a batch and after it."""
    ingest(store, closed("t1"), closed("t2"))
    ingest(store, closed("t3"))
    moments = [moment for (moment,) in query(path, "SELECT recorded FROM facts ORDER BY 1")]
    assert moments == [RECORDED_FROM, RECORDED_FROM + 1, RECORDED_FROM + 2]


@pytest.mark.parametrize(("behind", "warns"), [(5 * SECOND, False), (5 * SECOND + 1, True)])
def test_a_clock_that_went_back_is_reported_and_recorded_goes_on(
    store: EmbeddedStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    behind: int,
    warns: bool,
) -> None:
    """`recorded` goes on from the last fact; more than five seconds behind is a warning."""
    (first,) = ingest(store, closed("t1"))
    clock.advance(-behind)
    with caplog.at_level(logging.WARNING):
        (second,) = ingest(store, closed("t2"))
    assert first.recorded is not None
    assert second.recorded == first.recorded + 1
    assert bool(caplog.records) is warns


def test_a_store_that_is_opened_again_goes_on_after_its_last_fact(
    path: Path, store: EmbeddedStore, clock: ManualClock
) -> None:
    """A process with a clock behind the file's last fact records after it."""
    (first,) = ingest(store, closed("t1"))
    store.close()
    with EmbeddedStore.open(path, clock=ManualClock(clock.now() - SECOND)) as again:
        (second,) = ingest(again, closed("t2"))
    assert first.recorded is not None
    assert second.recorded == first.recorded + 1


def test_what_is_refused_takes_no_moment(store: EmbeddedStore) -> None:
    """Dead letters and duplicates are not in the log, so the next fact has the next moment."""
    receipts = ingest(store, closed("t1"), b"no event", closed("t1"), closed("t2"))
    assert [receipt.recorded for receipt in receipts] == [
        RECORDED_FROM,
        None,
        None,
        RECORDED_FROM + 1,
    ]


@pytest.mark.parametrize(("ahead", "counted"), [(0, "accepted"), (1, "dead_letters")])
def test_the_future_is_judged_by_the_stores_clock(
    store: EmbeddedStore, ahead: int, counted: str
) -> None:
    """An event may be five minutes ahead of its recorded moment, and no microsecond more."""
    late = RECORDED_FROM + 300 * SECOND + ahead
    (receipt,) = ingest(store, closed("t1", time=late))
    assert receipt.counted == counted


def test_names_in_any_alphabet_and_with_any_character_are_kept(store: EmbeddedStore) -> None:
    """Tools, effects and ids may hold NUL, quotes and other alphabets, and are read back."""
    odd = NOTES._replace(tool="ключ\x00'\"", effect="запись:%\x00*")
    ingest(store, closed("т\x001", step("a", odd)))
    ingest(store, closed("т\x002", step("a", odd)), event("nothing", "x", {}))
    state = store.state(odd)
    assert state is not None
    assert (state.subject, state.n_samples) == (odd, 2)
    assert store.verify().findings == []
