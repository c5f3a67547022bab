"""The incremental law against a batch computation that knows no corrections, and against itself."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.runs import run
from tests.oracles.batch import batch
from tests.oracles.histories import Draft, rearranged, tame_histories, told, wild_histories
from trustfold_projections.laws.correlation import (
    Outcome,
    Verdict,
    correlate,
    key_of,
    lone_close,
    new_state,
)
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import CostMedianEvent, TraceClosedEvent
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.scores import content_digest


@given(tame_histories())
def test_tame_histories_equal_the_batch_oracle(history: list[Draft]) -> None:
    """Without facts that exclude each other, the ledger sums to what a batch over all gives."""
    facts = told(history)
    assert run(facts).sums() == batch(facts)


@given(wild_histories())
def test_wild_histories_equal_the_batch_oracle(history: list[Draft]) -> None:
    """With conflicts, late steps, foreign scopes and future events they are the oracle's too."""
    facts = told(history)
    assert run(facts).sums() == batch(facts)


@given(wild_histories(), st.data())
def test_every_prefix_equals_the_batch_oracle(history: list[Draft], data: st.DataObject) -> None:
    """The table is right after every fact, not only at the end."""
    facts = told(history)
    some = facts[: data.draw(st.integers(0, len(facts)))]
    assert run(some).sums() == batch(some)


@given(st.data())
def test_any_order_and_repetition_gives_the_same_digests(data: st.DataObject) -> None:
    """Any permutation and duplication of a tame history gives the same content digests."""
    history = data.draw(tame_histories())
    first = run(told(history))
    again = run(told(data.draw(rearranged(history))))
    assert {s: content_digest(x) for s, x in first.states.items()} == {
        s: content_digest(x) for s, x in again.states.items()
    }


@given(wild_histories())
def test_a_lone_close_writes_what_the_whole_law_writes(history: list[Draft]) -> None:
    """The short way answers as the long one, or leaves the answer to it, whatever the medians."""
    medians = MedianTable()
    for one in told(history):
        document = msgspec.json.encode(one.event)
        event = decode_event(document)
        fact = Fact(one.recorded, one.recorded, OWNER, event, document)
        if isinstance(event, CostMedianEvent):
            medians.add(event.data, fact.recorded)
        shortly = lone_close(fact, medians)
        key = key_of(event)
        if shortly is not None:
            outcome = correlate(new_state(key), fact, medians)
            assert outcome == Outcome(Verdict.ACCEPTED, shortly, (), remembered=True)
        elif isinstance(event, TraceClosedEvent) and event.time <= fact.recorded:
            assert event.data.violations or event.data.step_count is not None


@given(wild_histories())
def test_entries_name_themselves_once(history: list[Draft]) -> None:
    """No two entries have the same entry_id, and revisions count from 1 without gaps."""
    ledger = run(told(history)).ledger
    assert len({entry.entry_id for entry in ledger}) == len(ledger)
    revisions: dict[object, int] = {}
    for entry in ledger:
        if entry.trace_id is not None:
            last = revisions.get((entry.trace_id, entry.subject), 0)
            assert entry.revision == last + 1
            revisions[(entry.trace_id, entry.subject)] = entry.revision


@given(wild_histories())
def test_chains_hold_every_earlier_moment_of_evidence(history: list[Draft]) -> None:
    """An evidence or correction carries the moments of all before it of its trace and subject."""
    chains: dict[object, tuple[int, ...]] = {}
    for entry in run(told(history)).ledger:
        if entry.kind in ("evidence", "correction"):
            before = chains.get((entry.trace_id, entry.subject), ())
            assert entry.chain == (*before, entry.recorded)
            chains[(entry.trace_id, entry.subject)] = entry.chain
        else:
            assert entry.chain == (entry.recorded,)


@given(wild_histories())
def test_a_second_run_of_the_same_facts_changes_nothing(history: list[Draft]) -> None:
    """Facts that were accepted are duplicates when they come again, and make no entry."""
    facts = told(history)
    made = run(facts)
    accepted = [
        fact for fact, outcome in zip(facts, made.outcomes, strict=True) if outcome.remembered
    ]
    before = len(made.ledger)
    for fact in accepted:
        assert made.take(fact).verdict == "duplicate"
    assert len(made.ledger) == before
