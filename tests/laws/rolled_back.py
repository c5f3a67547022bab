"""Histories with rollbacks, and what they come to by the batch oracle over prefixes of the log.

A trace touched by a rollback keeps for a subject the contribution it had as of the rollback's
moment, whatever follows. The oracle here knows neither entries nor the fold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from tests.laws.runs import run
from tests.oracles.batch import (
    ABOUT_A_TRACE,
    MILLION,
    Contribution,
    Subject,
    Sums,
    Told,
    about_neurons,
    contributions,
    g,
    instant,
    latest,
    millionths,
    total,
    weighed,
)
from tests.oracles.histories import recorded_at, rfc3339, wild_histories

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
    past = [gave for recorded, gave in life if back is None or recorded <= back]
    grants, known = list[int | None](), None
    for recorded, gave in life:
        if gave.grant_at != known:
            known = gave.grant_at
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
    early = [*facts[: len(facts) // 2], *facts]  # what goes far back touches more
    moments = [one.recorded + beside for one in early for beside in (0, -1, 1)]
    return draw(st.sampled_from(moments))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Told], list[Subject]]:
    """A wild history as a log of facts, and the subjects it moves: one at least."""
    history = draw(wild_histories())
    facts = [Told(recorded_at(n), *draft) for n, draft in enumerate(history)]
    subjects = sorted(run(facts).states)
    assume(subjects)
    return facts, list[Subject](subjects)


@st.composite
def rolled_back_logs(draw: st.DrawFn) -> tuple[list[Told], Subject]:
    """A wild history with rollbacks and liftings anywhere in between, and one of its subjects."""
    wild, subjects = draw(logs())
    facts, open_ones = list[Told](), list[tuple[str, Subject]]()
    for one in [*wild, None]:
        for _ in range(draw(st.sampled_from((0, 0, 0, 0, 1, 1))) if facts else 0):
            recorded = recorded_at(len(facts))
            if open_ones and draw(st.integers(0, 2)) == 2:
                rollback_id, subject = open_ones.pop(draw(st.integers(0, len(open_ones) - 1)))
                facts.append(lifting(rollback_id, subject, recorded))
            else:
                rollback_id, subject = f"back {len(facts)}", draw(st.sampled_from(subjects))
                open_ones.append((rollback_id, subject))
                facts.append(rollback(rollback_id, subject, draw(near_moments(facts)), recorded))
        if one is not None:
            facts.append(one._replace(recorded=recorded_at(len(facts))))
    return facts, draw(st.sampled_from(subjects))
