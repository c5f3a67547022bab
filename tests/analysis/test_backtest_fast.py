"""The fast path of the backtest: the verdicts of the exact path, however it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import log_of
from tests.oracles.histories import Draft, told, wild_histories
from trustfold_projections.analysis.backtest.actions import PastAction
from trustfold_projections.analysis.backtest.columns import action_columns, entry_columns
from trustfold_projections.analysis.backtest.fast import judged, tallied
from trustfold_projections.analysis.backtest.history import History, SubjectHistory, read_history
from trustfold_projections.analysis.backtest.limbs import (
    as_floats,
    as_int,
    limbs_for,
    normalised,
    split,
    split_int,
)
from trustfold_projections.analysis.backtest.reference import judge, verdicts
from trustfold_projections.analysis.backtest.rules import (
    Always,
    Elapsed,
    InARow,
    Never,
    PlainMean,
    Policy,
    Trust,
    thresholds_with,
)
from trustfold_projections.laws.time_weights import HALF_LIFE, ZERO
from trustfold_schemas.instants import DAY
from trustfold_schemas.ledger import Entry, Kind
from trustfold_schemas.subject import Subject

POLICIES: Sequence[Policy] = [
    Trust("default", thresholds_with()),
    Trust("loose", thresholds_with(400_000, 1, 0, 500_000)),
    Trust("tie", thresholds_with(775_000, 2, 1, 750_000)),
    Trust("no brake", thresholds_with(400_000, 1, 0, 500_000), brake=False),
    Never("never"),
    Always("always"),
    InARow("2 in a row", 2),
    PlainMean("mean", thresholds_with(775_000, 1, 0, 500_000)),
]


def compare(history: History, rows: int, parts: int) -> int:
    """Both paths over one history; how many verdicts needed integers."""
    entries = [(i, e) for i, one in enumerate(history.values()) for e in one.entries]
    actions = [(i, a) for i, one in enumerate(history.values()) for a in one.actions]
    made = list(
        judged(
            [entry_columns(some) for some in in_parts(entries, parts)],
            [action_columns(some) for some in in_parts(actions, parts)],
            POLICIES,
            list(history),
            rows,
        )
    )
    fast = [list(row) for part in made for row in zip(*part.allowed, strict=True)]
    exact = [
        allowed
        for subject, one in history.items()
        for _, allowed in verdicts(subject, one, POLICIES)
    ]
    assert fast == exact
    names = sorted({subject.scope for subject in history})
    scope_of = np.array([names.index(subject.scope) for subject in history], np.int64)
    wanted = [tally for tally in judge(history, POLICIES) if tally.actions]
    key = lambda tally: (tally.policy, tally.scope)  # noqa: E731 - a sort key
    assert sorted(tallied(made, POLICIES, names, scope_of), key=key) == sorted(wanted, key=key)
    return sum(part.exact for part in made)


def in_parts(rows: list[Any], size: int) -> list[list[Any]]:
    """Rows in parts of a size, the last one smaller."""
    some = iter(rows)
    return list(iter(lambda: list(islice(some, size)), []))


BADS = st.sampled_from((None, None, None, 0, DAY))
FIVE = st.tuples(*[st.sampled_from((0, 250_000, 500_000, 1_000_000))] * 5)


@st.composite
def ledgers(draw: st.DrawFn) -> History:
    """Ledgers with ties, corrections, brakes and moments eras apart; sums stay in their ranges."""
    made: History = {}
    for number in range(draw(st.integers(1, 4))):
        subject = Subject(draw(st.sampled_from(("", "team"))), f"tool{number}", "effect")
        moment = ZERO + draw(st.integers(0, 3)) * HALF_LIFE
        entries: list[Entry] = []
        for trace in range(draw(st.integers(0, 12))):
            moment += draw(st.sampled_from((0, 1, DAY, DAY, HALF_LIFE, 25 * HALF_LIFE)))
            amounts = draw(FIVE)
            weights: Any = draw(st.tuples(*[st.integers(0, 1)] * 4, st.just(1)))
            amounts = tuple(a * w for a, w in zip(amounts, weights, strict=True))
            bad, late = draw(BADS), draw(st.sampled_from((0, 0, 0, HALF_LIFE)))
            evidence = entry(subject, f"t{trace}", moment, max(ZERO, moment - late))
            for kind, sign in draw(st.sampled_from(((("evidence", 1),), CORRECTED))):
                entries.append(
                    evidence(
                        kind=kind,
                        amounts=tuple(sign * a for a in amounts),
                        weights=tuple(sign * w for w in weights),
                        n_samples=sign,
                        clean=kind == "evidence" and draw(st.booleans()),
                        bad_at=None if bad is None else moment + bad,
                        grant_at=draw(st.sampled_from((None, None, moment, moment + 2 * DAY))),
                    )
                )
        moments = [one.recorded for one in entries] or [ZERO]
        near = st.sampled_from((0, 1, DAY, DAY + 1, 2 * DAY, HALF_LIFE))
        asked = draw(st.lists(st.tuples(st.sampled_from(moments), near), max_size=12))
        actions = [
            action(subject, at + later, draw(st.integers(0, 2)), draw(st.integers(0, 31)))
            for at, later in sorted(asked, key=sum)
        ]
        made[subject] = SubjectHistory(entries, actions)
    return dict(sorted(made.items()))


CORRECTED: tuple[tuple[Kind, int], ...] = (("evidence", 1), ("correction", -1))


def entry(subject: Subject, trace_id: str, recorded: int, occurred: int) -> Any:
    """What is common to the entries of a trace; call it with the rest."""

    def made(**rest: Any) -> Entry:
        return Entry(
            subject=subject,
            trace_id=trace_id,
            event_id="e",
            source="s",
            occurred=occurred,
            recorded=recorded,
            chain=(recorded,),
            **rest,
        )

    return made


def action(subject: Subject, moment: int, band: int, flags: int) -> PastAction:
    """An action with what became of it as bits."""
    asked, denied, failed, undone, violated = (bool(flags >> bit & 1) for bit in range(5))
    return PastAction(
        subject=subject,
        reversibility=("reversible", "reversible_with_cost", "irreversible")[band],
        moment=moment,
        trace_id="t",
        step_id="s",
        asked=asked,
        denied=denied,
        failed=failed,
        undone=undone,
        violated=violated,
    )


@given(ledgers(), st.integers(1, 8), st.integers(1, 9))
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_fast_is_exact_on_random_ledgers(history: History, rows: int, parts: int) -> None:
    """Ties, corrections, brakes and decades between entries: the same verdicts in any slices."""
    compare(history, rows, parts)


@given(wild_histories(), st.integers(1, 4))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_fast_is_exact_on_random_logs(log: list[Draft], rows: int) -> None:
    """The same on whatever correlation makes of wild histories."""
    compare(read_history(log_of(told(log))), rows, 3)


def test_ties_are_decided_by_integers() -> None:
    """A score of exactly the threshold is reached, and one a hair below is not."""
    subject = Subject("", "tool", "effect")
    perfect = entry(subject, "t", ZERO, ZERO)(
        kind="evidence",
        amounts=(1_000_000, 1_000_000, 0, 1_000_000, 0),
        weights=(1, 1, 0, 1, 1),
        n_samples=1,
        clean=True,
    )
    less = entry(subject, "u", ZERO + 1, ZERO)(
        kind="correction", amounts=(-1, 0, 0, 0, 0), weights=(0, 0, 0, 0, 0)
    )
    # In the microseconds after 2020-01-01 the weight of a moment has not begun to grow.
    tie = Trust("tie", thresholds_with(900_000, 0, 0, 1_000_000))
    for entries, wanted in (([perfect], True), ([perfect, less], False)):
        actions = [action(subject, ZERO + 2, 0, 0)]
        history = {subject: SubjectHistory(entries, actions)}
        exact = [allowed for _, allowed in verdicts(subject, history[subject], [tie])]
        [made] = judged(
            [entry_columns([(0, e) for e in entries])],
            [action_columns([(0, actions[0])])],
            [tie],
            [subject],
        )
        assert [list(made.allowed[0])] == exact == [[wanted]]
        assert made.exact == wanted


def test_what_has_no_fast_path_is_refused() -> None:
    """`elapsed/1` is a sequence of float operations, which no prefix sum can give."""
    subject = Subject("", "tool", "effect")
    columns = action_columns([(0, action(subject, ZERO, 0, 0))])
    with pytest.raises(TypeError, match="exact path only"):
        list(judged([], [columns], [Elapsed("elapsed/1", thresholds_with())], [subject]))


@given(
    st.lists(st.tuples(st.integers(-(2**51) + 1, 2**51 - 1), st.integers(0, 90)), min_size=1),
    st.integers(0, 2**140),
)
@settings(max_examples=100, deadline=None)
def test_limbs_add_up_to_the_integers(terms: list[tuple[int, int]], carried: int) -> None:
    """Sums of limbs are the exact sums, whatever the signs and however far apart the eras."""
    products = np.array([product for product, _ in terms], np.int64)
    eras = np.array([era for _, era in terms], np.int64)
    limbs = limbs_for(90)
    wanted = sum(product << era for product, era in terms) + carried
    sums = [
        np.array([int(split(products, eras, n, limbs).sum()) + part], np.int64)
        for n, part in enumerate(split_int(carried, limbs))
    ]
    made = normalised(sums)
    assert as_int(made, 0) == wanted
    if wanted >= 0:
        assert as_floats(made)[0] == pytest.approx(float(wanted), rel=4e-16)
