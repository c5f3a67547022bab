"""Rollbacks over whole histories: what counts, what stays, what comes back when one is lifted.

What a state must be is computed by the batch oracle over prefixes of the log, in `rolled_back`.
The interval and the chain themselves are tested on single entries in `test_fold`.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.laws.rolled_back import (
    expected,
    lifting,
    logs,
    near_moments,
    operators,
    rollback,
    rolled_back_logs,
    rolled_back_part,
    without_marks,
)
from tests.laws.runs import Run, run
from tests.oracles.batch import HALF_LIFE, MILLION, Subject, Sums, Told, batch, g, latest
from tests.oracles.histories import ACTIONS, RECORDED_GAP, recorded_at
from trustfold_projections.laws.fold import refold
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State, check_ranges, content_digest
from trustfold_schemas.subject import Subject as LedgerSubject

NOTES: Subject = ("", *ACTIONS[0])


Log = tuple[list[Told], Subject]


def digests(made: Run) -> dict[Subject, str]:
    """The content digest of every subject."""
    return {subject: content_digest(state) for subject, state in made.states.items()}


# ---- what counts -------------------------------------------------------------------------------


@given(rolled_back_logs())
def test_histories_with_rollbacks_equal_the_oracle_of_prefixes(log: Log) -> None:
    """A touched trace stays as of the rollback for ever, the others count in full."""
    facts, _ = log
    assert run(facts).sums() == expected(facts)


@given(logs(), st.data())
def test_a_rollback_gives_the_state_as_of_its_moment(
    log: tuple[list[Told], list[Subject]], data: st.DataObject
) -> None:
    """Sums, n_samples, last_updated and last_grant_at are those as of that moment."""
    facts, subject, to = log[0], data.draw(st.sampled_from(log[1])), data.draw(near_moments(log[0]))
    after = run([*facts, rollback("back", subject, to, recorded_at(len(facts)))]).sums()
    as_of = batch(one for one in facts if one.recorded <= to).get(subject, Sums())
    assert rolled_back_part(after[subject]) == rolled_back_part(as_of)


@given(logs(), st.data())
def test_what_follows_on_a_touched_trace_moves_no_sums(
    log: tuple[list[Told], list[Subject]], data: st.DataObject
) -> None:
    """After the rollback no feedback, step or exclusion of that trace changes the sums."""
    facts = log[0]
    evidence = [entry for entry in run(facts).ledger if entry.kind in ("evidence", "correction")]
    assume(evidence)
    touched = data.draw(st.sampled_from(evidence))
    known = [one.recorded for one in facts if one.recorded >= touched.recorded]
    at = data.draw(st.sampled_from(known)) + 1
    made = run([one for one in facts if one.recorded < at])
    made.take(rollback("back", touched.subject, touched.recorded - 1, at))
    before = made.sums()[touched.subject]
    for one in facts:
        if one.recorded > at and one.data.get("trace_id") == touched.trace_id:
            made.take(one)
    after = made.sums()[touched.subject]
    assert without_marks(after) == without_marks(before)


@given(rolled_back_logs(), st.data())
def test_evidence_after_a_rollback_counts(log: Log, data: st.DataObject) -> None:
    """A trace that closes after the rollback adds what it adds to any subject."""
    facts, end = log[0], recorded_at(len(log[0]))
    made = run([*facts, rollback("back", NOTES, data.draw(near_moments(facts)), end)])
    before, moment = made.sums()[NOTES], end + RECORDED_GAP
    step = {"step_id": "a", "tool": NOTES[1], "effect": NOTES[2], "status": "ok"}
    close = {"trace_id": "fresh", "outcome": "done", "steps": [step]}
    made.take(operators("trace.closed", "fresh", moment, **close))
    num, den = (MILLION, 0, 0, MILLION, 0), (1, 0, 0, 1, 1)
    assert made.sums()[NOTES] == replace(
        before,
        num=[old + new * g(moment) for old, new in zip(before.num, num, strict=True)],
        den=[old + new * g(moment) for old, new in zip(before.den, den, strict=True)],
        n_samples=before.n_samples + 1,
        last_updated=latest((before.last_updated, moment)),
    )


@given(rolled_back_logs())
def test_no_rollback_and_no_lifting_lowers_last_bad_at(log: Log) -> None:
    """Whatever is rolled back or lifted, last_bad_at of every subject only grows."""
    made, known, falling = Run(), dict[Subject, int](), list[Subject]()
    for one in log[0]:
        made.take(one)
        for subject, state in made.states.items():
            if (state.last_bad_at or 0) < known.get(subject, 0):
                falling.append(subject)
            known[subject] = state.last_bad_at or 0
    assert falling == []


@given(logs(), st.data())
def test_overlapping_rollbacks_add_up(
    log: tuple[list[Told], list[Subject]], data: st.DataObject
) -> None:
    """Two rollbacks whose intervals meet are one, from the earlier moment to the later record."""
    facts, subject = log[0], data.draw(st.sampled_from(log[1]))
    length = data.draw(st.integers(1, len(facts)))
    to = [data.draw(near_moments(facts[:length])) for _ in range(2)]
    early = rollback("early", subject, to[0], facts[length - 1].recorded + 1)
    late = rollback("late", subject, to[1], recorded_at(len(facts)))
    after = run([*facts[:length], early, *facts[length:], late]).sums()
    as_of = batch(one for one in facts if one.recorded <= min(to)).get(subject, Sums())
    assert rolled_back_part(after[subject]) == rolled_back_part(as_of)


# ---- lifting -----------------------------------------------------------------------------------


@given(rolled_back_logs(), st.data())
def test_lifting_gives_the_state_without_the_rollback(log: Log, data: st.DataObject) -> None:
    """A rollback and, any time later, its lifting leave every digest as if neither had been."""
    facts, subject = log
    start = data.draw(st.integers((len(facts) + 1) // 2, len(facts)))
    end = data.draw(st.integers(start, len(facts)))
    to = data.draw(near_moments(facts[:start]))
    back = rollback("more", subject, to, facts[start - 1].recorded + 2)
    lift = lifting("more", subject, facts[end - 1].recorded + 3)
    both = run([*facts[:start], back, *facts[start:end], lift, *facts[end:]])
    without = run(facts)
    without.states.setdefault(LedgerSubject(*subject), State(subject=LedgerSubject(*subject)))
    assert digests(both) == digests(without)


def refused(made: Run, one: Told) -> list[str]:
    """The reasons for which a fact is turned away; it must then leave no mark at all."""
    before = list(made.ledger), copy.deepcopy(made.states)
    outcome = made.take(one)
    assert not outcome.remembered
    assert (made.ledger, made.states) == before
    return [refusal.reason.value for refusal in outcome.refusals]


@settings(max_examples=25)
@given(rolled_back_logs(), st.sampled_from(["never", "another's", "e0"]))
def test_lifting_what_is_no_rollback_of_the_subject_is_unknown(log: Log, name: str) -> None:
    """No other fact can be lifted, and no rollback of another subject: `unknown_rollback`."""
    (facts, subject), end = log, recorded_at(len(log[0]))
    made = run([*facts, rollback("another's", ("nobody", *ACTIONS[0]), end, end)])
    assert refused(made, lifting(name, subject, end + 1)) == ["unknown_rollback"]


@settings(max_examples=25)
@given(rolled_back_logs(), st.data())
def test_lifting_twice_is_unknown(log: Log, data: st.DataObject) -> None:
    """A rollback that was lifted cannot be lifted again: `unknown_rollback`."""
    (facts, subject), end = log, recorded_at(len(log[0]))
    back = rollback("more", subject, data.draw(near_moments(facts)), end)
    made = run([*facts, back, lifting("more", subject, end + 1)])
    assert refused(made, lifting("more", subject, end + 2)) == ["unknown_rollback"]


# ---- the future, and every moment --------------------------------------------------------------


@settings(max_examples=25)
@given(rolled_back_logs(), st.integers(1, 10 * HALF_LIFE))
def test_a_rollback_to_the_future_is_refused(log: Log, ahead: int) -> None:
    """Nobody can roll back to what has not come: `future`."""
    (facts, subject), end = log, recorded_at(len(log[0]))
    assert refused(run(facts), rollback("more", subject, end + ahead, end)) == ["future"]


@settings(max_examples=25)
@given(rolled_back_logs())
def test_a_rollback_to_its_own_moment_takes_nothing_out(log: Log) -> None:
    """The last moment that is not the future is accepted, and leaves the digest."""
    (facts, subject), end = log, recorded_at(len(log[0]))
    made = run(facts)
    before = made.sums().get(subject, Sums())
    made.take(rollback("more", subject, end, end))
    assert made.sums()[subject] == before


@given(rolled_back_logs())
def test_the_online_state_is_the_refold_of_the_ledger(log: Log) -> None:
    """After every fact the table is what the whole ledger comes to, rollbacks and version too."""
    made, differing = Run(), list[Entry]()
    for one in log[0]:
        differing += (
            entry
            for entry in made.take(one).entries
            if made.states[entry.subject] != refold(entry.subject, made.entries(entry.subject))
        )
    assert differing == []


@given(logs(), st.data())
def test_sums_stay_in_range_under_any_rollbacks(
    log: tuple[list[Told], list[Subject]], data: st.DataObject
) -> None:
    """0 <= num <= den * 10**6 and n_samples >= 0, whatever intervals do not count."""
    facts, subject = log[0], LedgerSubject(*data.draw(st.sampled_from(log[1])))
    moments = st.tuples(near_moments(facts), near_moments(facts)).map(sorted)
    rollbacks = [
        Entry(
            kind="rollback",
            subject=subject,
            trace_id=None,
            event_id=f"back {number}",
            source="operators",
            occurred=at,
            recorded=at,
            chain=(at,),
            to=to,
        )
        for number, (to, at) in enumerate(data.draw(st.lists(moments, max_size=3)))
    ]
    check_ranges(refold(subject, run(facts).entries(subject) + rollbacks))
