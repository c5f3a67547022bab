"""Rollbacks over whole histories: what counts, what stays, what comes back when one is lifted.

What a state must be is computed by the batch oracle over prefixes of the log, in `rolled_back`.
The interval and the chain themselves are tested on single entries in `test_fold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from hypothesis import assume, given
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
from trustfold_schemas.scores import check_ranges, content_digest

NOTES: Subject = ("", *ACTIONS[0])


def some_subject(data: st.DataObject, facts: Sequence[Told]) -> Subject:
    """One of the subjects that a log moves."""
    return data.draw(st.sampled_from(sorted(run(facts).states)))


def digests(made: Run) -> dict[Subject, str]:
    """The content digest of every subject that anything but a rollback ever touched."""
    return {s: content_digest(state) for s, state in made.states.items()}


# ---- what counts -------------------------------------------------------------------------------


@given(rolled_back_logs())
def test_histories_with_rollbacks_equal_the_oracle_of_prefixes(facts: list[Told]) -> None:
    """A touched trace stays as of the rollback for ever, the others count in full."""
    assert run(facts).sums() == expected(facts)


@given(logs(), st.data())
def test_a_rollback_gives_the_state_as_of_its_moment(
    facts: list[Told], data: st.DataObject
) -> None:
    """Sums, n_samples, last_updated and last_grant_at are those as of that moment."""
    subject, to = some_subject(data, facts), data.draw(near_moments(facts))
    after = run([*facts, rollback("back", subject, to, recorded_at(len(facts)))]).sums()
    as_of = batch(one for one in facts if one.recorded <= to).get(subject, Sums())
    assert rolled_back_part(after[subject]) == rolled_back_part(as_of)


@given(logs(), st.data())
def test_what_follows_on_a_touched_trace_moves_no_sums(
    facts: list[Told], data: st.DataObject
) -> None:
    """After the rollback no feedback, step, exclusion or fold of that trace changes the sums."""
    evidence = [entry for entry in run(facts).ledger if entry.kind in ("evidence", "correction")]
    assume(evidence)
    touched = data.draw(st.sampled_from(evidence))
    at = 1 + data.draw(
        st.sampled_from([one.recorded for one in facts if one.recorded >= touched.recorded])
    )
    made = run([one for one in facts if one.recorded < at])
    made.take(rollback("back", touched.subject, touched.recorded - 1, at))
    before = made.sums()[touched.subject]
    for one in facts:
        if one.recorded > at and one.data.get("trace_id") == touched.trace_id:
            made.take(one)
    after = made.sums()[touched.subject]
    assert without_marks(after) == without_marks(before)


@given(rolled_back_logs(), st.data())
def test_evidence_after_a_rollback_counts(facts: list[Told], data: st.DataObject) -> None:
    """A trace that closes after the rollback adds what it adds to any subject."""
    end, to = recorded_at(len(facts)), data.draw(near_moments(facts))
    made = run([*facts, rollback("back", NOTES, to, end)])
    before = made.sums()[NOTES]
    step = {"step_id": "a", "tool": NOTES[1], "effect": NOTES[2], "status": "ok"}
    close = {"trace_id": "fresh", "outcome": "done", "steps": [step]}
    made.take(operators("trace.closed", "fresh", end + RECORDED_GAP, **close))
    weight = g(end + RECORDED_GAP)
    added = [MILLION * weight, 0, 0, MILLION * weight, 0], [weight, 0, 0, weight, weight]
    assert made.sums()[NOTES] == replace(
        before,
        num=[old + new for old, new in zip(before.num, added[0], strict=True)],
        den=[old + new for old, new in zip(before.den, added[1], strict=True)],
        n_samples=before.n_samples + 1,
        last_updated=latest((before.last_updated, end + RECORDED_GAP)),
    )


@given(rolled_back_logs())
def test_no_rollback_and_no_lifting_lowers_last_bad_at(facts: list[Told]) -> None:
    """Whatever is rolled back or lifted, last_bad_at of every subject only grows."""
    made, falling = Run(), []
    for one in facts:
        before = {subject: state.last_bad_at for subject, state in made.states.items()}
        made.take(one)
        for subject, known in before.items():
            if (
                latest((known, made.states[subject].last_bad_at))
                != made.states[subject].last_bad_at
            ):
                falling.append((one, subject))
    assert falling == []


@given(logs(), st.data())
def test_overlapping_rollbacks_add_up(facts: list[Told], data: st.DataObject) -> None:
    """Two rollbacks whose intervals meet are one, from the earlier moment to the later record."""
    subject, length = some_subject(data, facts), data.draw(st.integers(1, len(facts)))
    first = facts[length - 1].recorded + 1
    to = [data.draw(near_moments(facts[:length])) for _ in range(2)]
    log = [
        *facts[:length],
        rollback("early", subject, to[0], first),
        *facts[length:],
        rollback("late", subject, to[1], recorded_at(len(facts))),
    ]
    as_of = batch(one for one in facts if one.recorded <= min(to)).get(subject, Sums())
    assert rolled_back_part(run(log).sums()[subject]) == rolled_back_part(as_of)


# ---- lifting -----------------------------------------------------------------------------------


@given(rolled_back_logs(), st.data())
def test_lifting_gives_the_state_without_the_rollback(
    facts: list[Told], data: st.DataObject
) -> None:
    """A rollback and, any time later, its lifting leave every digest as if neither had been."""
    without = run(facts)
    subject = data.draw(st.sampled_from(sorted(without.states)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(1, len(facts))] * 2)))
    to, at = data.draw(near_moments(facts[:start])), facts[start - 1].recorded + 2
    back, lift = (
        rollback("more", subject, to, at),
        lifting("more", subject, facts[end - 1].recorded + 3),
    )
    both = run([*facts[:start], back, *facts[start:end], lift, *facts[end:]])
    assert digests(both) == digests(without)


def refused(made: Run, one: Told) -> list[str]:
    """The reasons for which a fact is turned away; it must then leave no mark at all."""
    before = msgspec.to_builtins((made.ledger, made.states), str_keys=True)
    outcome = made.take(one)
    assert not outcome.remembered
    assert msgspec.to_builtins((made.ledger, made.states), str_keys=True) == before
    return [refusal.reason.value for refusal in outcome.refusals]


@given(rolled_back_logs(), st.data())
def test_lifting_what_is_not_a_rollback_of_the_subject_is_unknown(
    facts: list[Told], data: st.DataObject
) -> None:
    """No other fact can be lifted, and no rollback of another subject: `unknown_rollback`."""
    made, end = run(facts), recorded_at(len(facts))
    subject = data.draw(st.sampled_from(sorted(made.states)))
    made.take(rollback("another's", ("nobody", *ACTIONS[0]), end, end))
    name = data.draw(st.sampled_from(["never", "another's", "e0"]))
    assert refused(made, lifting(name, subject, end + 1)) == ["unknown_rollback"]


@given(rolled_back_logs(), st.data())
def test_lifting_twice_is_unknown(facts: list[Told], data: st.DataObject) -> None:
    """A rollback that was lifted cannot be lifted again: `unknown_rollback`."""
    made, end = run(facts), recorded_at(len(facts))
    subject, to = data.draw(st.sampled_from(sorted(made.states))), data.draw(near_moments(facts))
    made.take(rollback("more", subject, to, end))
    made.take(lifting("more", subject, end + 1))
    assert refused(made, lifting("more", subject, end + 2)) == ["unknown_rollback"]


# ---- at every moment ---------------------------------------------------------------------------


@given(rolled_back_logs(), st.data(), st.integers(1, 10 * HALF_LIFE))
def test_a_rollback_to_the_future_is_refused(
    facts: list[Told], data: st.DataObject, ahead: int
) -> None:
    """Nobody can roll back to what has not come: `future`."""
    made, end = run(facts), recorded_at(len(facts))
    subject = data.draw(st.sampled_from(sorted(made.states)))
    assert refused(made, rollback("more", subject, end + ahead, end)) == ["future"]


@given(rolled_back_logs(), st.data())
def test_a_rollback_to_its_own_moment_takes_nothing_out(
    facts: list[Told], data: st.DataObject
) -> None:
    """The last moment that is not the future is accepted, and leaves every digest."""
    made, end = run(facts), recorded_at(len(facts))
    before, subject = digests(made), data.draw(st.sampled_from(sorted(made.states)))
    assert made.take(rollback("more", subject, end, end)).verdict == "accepted"
    assert digests(made) == before


@given(rolled_back_logs())
def test_the_online_state_is_the_refold_of_the_ledger(facts: list[Told]) -> None:
    """After every fact the table is what the whole ledger comes to, rollbacks and version too."""
    made, differing = Run(), list[Entry]()
    for one in facts:
        differing += (
            entry
            for entry in made.take(one).entries
            if made.states[entry.subject] != refold(entry.subject, made.entries(entry.subject))
        )
    assert differing == []


@given(logs(), st.data())
def test_sums_stay_in_range_under_any_rollbacks(facts: list[Told], data: st.DataObject) -> None:
    """0 <= num <= den * 10**6 and n_samples >= 0, whatever intervals do not count."""
    made = run(facts)
    subject = data.draw(st.sampled_from(sorted(made.states)))
    moments = st.tuples(near_moments(facts), near_moments(facts)).map(sorted)
    entries = made.entries(subject)
    for number, (to, at) in enumerate(data.draw(st.lists(moments, max_size=3))):
        entries.append(
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
        )
    check_ranges(refold(subject, entries))
