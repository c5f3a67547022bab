"""Rollbacks over whole histories: what counts, what stays, and what comes back when they are lifted.

What a state must be is computed from the batch oracle over prefixes of the log: a trace touched by
a rollback keeps for a subject the contribution it had as of the rollback's moment, whatever
follows. The interval and the chain themselves are tested on single entries in `test_fold`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws.runs import Run, run
from tests.oracles.batch import (
    ABOUT_A_TRACE,
    HALF_LIFE,
    MILLION,
    Contribution,
    Subject,
    Sums,
    Told,
    about_neurons,
    batch,
    contributions,
    g,
    instant,
    latest,
    millionths,
    total,
    weighed,
)
from tests.oracles.histories import ACTIONS, RECORDED_GAP, recorded_at, rfc3339, wild_histories
from trustfold_projections.laws.fold import refold
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import check_ranges, content_digest

NOTES: Subject = ("", *ACTIONS[0])

# ---- the oracle: what counts, from prefixes of the log -----------------------------------------


class Intervals(NamedTuple):
    """The rollbacks of one subject that are in force: each goes back from `at` to `to`."""

    to_at: tuple[tuple[int, int], ...] = ()

    def back_to(self, moments: Iterable[int]) -> int | None:
        """How far back goes what was recorded at these moments; None: nothing touches it."""
        some = list(moments)
        touching = [to for to, at in self.to_at if any(to < moment <= at for moment in some)]
        return min(touching, default=None)


def in_force(facts: Sequence[Told]) -> dict[Subject, Intervals]:
    """The rollbacks in force after these facts, by subject."""
    found = defaultdict[Subject, dict[str, tuple[int, int]]](dict)
    for one in facts:
        if one.kind in ("subject.rolled_back", "rollback.lifted"):
            scope, tool, effect = one.data["subject"]
            mine = found[scope, tool, effect]
            if one.kind == "rollback.lifted":
                del mine[one.data["rollback_id"]]
            else:
                mine[one.event["id"]] = (instant(one.data["to"]), one.recorded)
    return {subject: Intervals(tuple(mine.values())) for subject, mine in found.items()}


Life = list[tuple[int, Contribution]]
"""What a trace gave a subject after each fact that it could depend on, with the fact's moment."""


def lives(facts: Sequence[Told]) -> Iterator[tuple[Subject, Life]]:
    """The life of every trace and subject."""
    names = {one.data["trace_id"] for one in facts if one.kind in ABOUT_A_TRACE}
    for name in names:
        own = [
            one for one in facts if one.kind == "cost.median" or one.data.get("trace_id") == name
        ]
        after = [contributions(own[: end + 1]) for end in range(len(own))]
        for key in after[-1]:
            gave = [given.get(key, Contribution()) for given in after]
            yield key[1], [(one.recorded, now) for one, now in zip(own, gave, strict=True)]


def touching_moments(life: Life) -> list[int]:
    """The moments at which evidence or a correction was recorded."""
    moments, before = [], Contribution()
    for recorded, now in life:
        is_same = (now.amounts, now.weights, now.n_samples) == (
            before.amounts,
            before.weights,
            before.n_samples,
        )
        if now.occurred is not None and not (is_same and before.occurred is not None):
            moments.append(recorded)
        before = now
    return moments


def kept(life: Life, intervals: Intervals) -> Contribution:
    """What of a life counts: its end or, where it was touched, what it was as of the rollback."""
    moments = touching_moments(life)
    back = intervals.back_to(moments)
    past = [given for recorded, given in life if back is None or recorded <= back]
    grants, known = list[int | None](), None
    for recorded, given in life:
        if given.grant_at != known:
            known = given.grant_at
            # Beside evidence or a correction a grant shares its chain; else it stands alone.
            chain = [m for m in moments if m <= recorded] if recorded in moments else [recorded]
            grants.append(known if intervals.back_to(chain) is None else None)
    bad_at = life[-1][1].bad_at  # what is bad counts for ever
    return replace(past[-1] if past else Contribution(), bad_at=bad_at, grant_at=latest(grants))


def expected(facts: Sequence[Told]) -> dict[Subject, Sums]:
    """The final state of every subject of a history with rollbacks and liftings."""
    rollbacks = in_force(facts)
    parts = defaultdict[Subject, list[Contribution]](list, {subject: [] for subject in rollbacks})
    for subject, life in lives(facts):
        parts[subject].append(kept(life, rollbacks.get(subject, Intervals())))
    for one, scope in about_neurons(facts, "neuron.synthesized", "neuron"):
        subject, r = (
            (scope, f"neuron:{one.data['neuron']}", "invoke"),
            millionths(one.data["reward"]),
        )
        if rollbacks.get(subject, Intervals()).back_to([one.recorded]) is None:
            parts[subject].append(weighed((r, r, r, r, MILLION - r), one.moment, clean=True))
        else:
            parts[subject].append(Contribution())
    states = defaultdict(Sums, {subject: total(some) for subject, some in parts.items()})
    for one, scope in about_neurons(facts, "selfplay.completed", "context"):
        subject = (scope, f"neuron:{one.data['winner']}", "invoke")
        state = states[subject]
        if rollbacks.get(subject, Intervals()).back_to([one.recorded]) is None:
            is_accepted = one.data.get("users_accepted_winner") is not False
            state.self_play_num += MILLION * g(one.moment) if is_accepted else 0
            state.self_play_den += g(one.moment)
    return dict(states)


def without_marks(sums: Sums) -> Sums:
    """What evidence alone moves: neither brakes nor grants."""
    return replace(sums, last_bad_at=None, last_grant_at=None)


def rolled_back_part(sums: Sums) -> Sums:
    """All that a rollback takes back: `last_bad_at` is not among it."""
    return replace(sums, last_bad_at=None)


# ---- histories with rollbacks ------------------------------------------------------------------


def operators(kind: str, event_id: str, recorded: int, **data: Any) -> Told:
    """What an operator says, at the moment when it is recorded."""
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": "operators",
        "type": f"trustfold.{kind}.v1",
        "time": rfc3339(recorded),
        "data": data,
    }
    return Told(recorded, "operator", None, None, event)


def rollback(event_id: str, subject: Subject, to: int, recorded: int) -> Told:
    """A `subject.rolled_back`."""
    said = {"subject": list(subject), "to": rfc3339(to), "by": "ann", "why": "abuse"}
    return operators("subject.rolled_back", event_id, recorded, **said)


def lifting(rollback_id: str, subject: Subject, recorded: int) -> Told:
    """A `rollback.lifted`."""
    said = {"subject": list(subject), "rollback_id": rollback_id, "by": "ann", "why": "no abuse"}
    return operators("rollback.lifted", f"lift {rollback_id} {recorded}", recorded, **said)


@st.composite
def near_moments(draw: st.DrawFn, facts: Sequence[Told]) -> int:
    """The recorded moment of an earlier fact, or one right beside it."""
    return draw(st.sampled_from(facts)).recorded + draw(st.sampled_from((-1, 0, 0, 1)))


@st.composite
def logs(draw: st.DrawFn) -> list[Told]:
    """A wild history as a log of facts; it moves at least one subject."""
    history = draw(wild_histories())
    facts = [Told(recorded_at(n), *draft) for n, draft in enumerate(history)]
    assume(run(facts).states)
    return facts


@st.composite
def rolled_back_logs(draw: st.DrawFn) -> list[Told]:
    """A wild history with rollbacks of its subjects, and liftings, anywhere in between."""
    wild = draw(logs())
    subjects = sorted(run(wild).states)
    facts, open_ones = list[Told](), list[tuple[str, Subject]]()
    for one in [*wild, None]:
        while facts and draw(st.integers(0, 3)) == 0:
            recorded = recorded_at(len(facts))
            if open_ones and draw(st.integers(0, 2)) == 0:
                rollback_id, subject = open_ones.pop(draw(st.integers(0, len(open_ones) - 1)))
                facts.append(lifting(rollback_id, subject, recorded))
            else:
                rollback_id, subject = f"back {len(facts)}", draw(st.sampled_from(subjects))
                open_ones.append((rollback_id, subject))
                facts.append(rollback(rollback_id, subject, draw(near_moments(facts)), recorded))
        if one is not None:
            facts.append(one._replace(recorded=recorded_at(len(facts))))
    return facts


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
    """Sums, n_samples, last_updated and last_grant_at are those of the facts recorded until then."""
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
    made, differing = Run(), []
    for one in facts:
        for entry in made.take(one).entries:
            if made.states[entry.subject] != refold(entry.subject, made.entries(entry.subject)):
                differing.append(entry)
    assert differing == []


@given(logs(), st.data())
def test_sums_stay_in_range_under_any_rollbacks(facts: list[Told], data: st.DataObject) -> None:
    """0 <= num <= den * 10**6 and n_samples >= 0, whatever intervals a subject is rolled back by."""
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
