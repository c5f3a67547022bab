"""The policies that a backtest holds against each other, and what each knows of a subject.

All but `never` and `always` are bound by the rule that no irreversible and no unknown effect is
promoted. `trust` is the product's policy (SPEC 5); the rest is what people use instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from trustfold_projections.analysis.backtest.actions import PastAction
from trustfold_projections.analysis.backtest.elapsed_steps import ElapsedSteps
from trustfold_projections.laws.fold import counts, fold, refold
from trustfold_projections.laws.policy import Policy as PolicyInForce
from trustfold_projections.laws.policy.brake import brake_of
from trustfold_projections.laws.policy.standing import standing_of
from trustfold_projections.laws.policy.thresholds import (
    DEFAULTS,
    evidence_shortfalls,
    meets,
)
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS, WITHOUT_EVIDENCE, freshness_of
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import Threshold
from trustfold_schemas.events import Reversibility
from trustfold_schemas.ledger import UNDO_RATE, Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

Thresholds = Mapping[Reversibility, Threshold]

IN_A_ROW: Final = 5


class Known(Struct, gc=False):
    """What all policies know of one subject after some of its entries.

    `state` is the fold; `plain` its sums without weights of time; `row` how many traces have
    been clean since the last that was not, or since the last brake.
    """

    subject: Subject
    state: State
    entries: list[Entry]
    plain_num: list[int]
    plain_den: list[int]
    row: int
    elapsed: ElapsedSteps

    @classmethod
    def nothing(cls, subject: Subject) -> Known:
        """Before the first entry."""
        return cls(subject, State(subject=subject), [], [0] * 5, [0] * 5, 0, ElapsedSteps())

    def take(self, entry: Entry) -> None:
        """Take in the next entry of the subject's log."""
        self.entries.append(entry)
        if not fold(self.state, entry):
            self._refold()
            return
        if not self.state.rollbacks or counts(entry.chain, self.state.rollbacks):
            self._count(entry)

    def _refold(self) -> None:
        """A rollback, or one lifted: other entries count now than before."""
        self.state = refold(self.subject, self.entries)
        self.plain_num, self.plain_den, self.row = [0] * 5, [0] * 5, 0
        self.elapsed = ElapsedSteps()
        for entry in self.entries:
            rolled = entry.kind in ("rollback", "rollback_lifted")
            if not rolled and counts(entry.chain, self.state.rollbacks):
                self._count(entry)

    def _count(self, entry: Entry) -> None:
        for c in range(5):
            self.plain_num[c] += entry.amounts[c]
            self.plain_den[c] += entry.weights[c]
        if entry.bad_at is not None or (entry.kind == "evidence" and not entry.clean):
            self.row = 0
        elif entry.kind == "evidence":
            self.row += 1
        self.elapsed.take(entry)


class Policy(Protocol):
    """One policy; `name` is how results call it."""

    @property
    def name(self) -> str:
        """Its name, one of a kind in a backtest."""
        ...

    def allows(self, known: Known, action: PastAction) -> bool:
        """Whether it would have let the action pass without a question."""
        ...


class Never(Struct, frozen=True):
    """Asks every time: no question is saved and nothing goes wrong unasked."""

    name: str

    def allows(self, known: Known, action: PastAction) -> bool:  # noqa: ARG002 - as it says
        """No."""
        return False


class Always(Struct, frozen=True):
    """Asks nothing, irreversible or not."""

    name: str

    def allows(self, known: Known, action: PastAction) -> bool:  # noqa: ARG002 - as it says
        """Yes."""
        return True


class InARow(Struct, frozen=True):
    """Allows after `wanted` clean traces in a row; a failure or a brake begins the count anew."""

    name: str
    wanted: int

    def allows(self, known: Known, action: PastAction) -> bool:
        """Whether the subject's run is long enough."""
        return promotable(action) and known.row >= self.wanted


class Trust(Struct, frozen=True):
    """The product's policy: brake, history and the threshold of the action's band.

    Without the `brake` it shows what the brake is good for.
    """

    name: str
    thresholds: Thresholds
    brake: bool = True

    def threshold_for(self, subject: Subject, reversibility: Reversibility) -> Threshold | None:  # noqa: ARG002 - of any subject
        """What must be met in a band that a number can promote."""
        return self.thresholds.get(reversibility)

    def allows(self, known: Known, action: PastAction) -> bool:
        """The verdict in the mode `enforce`, without spot checks, revocations and declarations."""
        return _trusts(self, known, action, brake=self.brake)


class AsSet(Struct, frozen=True):
    """The policy that is set in a log, as it stands at its end: all of SPEC 5 but the spot checks.

    Thresholds by glob, declarations, caps and revocations; an undeclared effect is never promoted.
    """

    name: str
    policy: PolicyInForce

    def threshold_for(self, subject: Subject, reversibility: Reversibility) -> Threshold | None:
        """What must be met; None where a rule of the registry forbids promotion."""
        ruling = self.policy.ruling(subject.effect)
        answer = ruling.answers[reversibility]
        forbidden = (
            ruling.declaration is None
            or ruling.capped_by
            or subject.is_global
            or answer.in_force == "irreversible"
            or self.policy.revoked_by(subject)
        )
        return None if forbidden else answer.threshold

    def allows(self, known: Known, action: PastAction) -> bool:
        """The verdict in the mode `enforce`."""
        return _trusts(self, known, action, brake=True)


def _trusts(policy: Trust | AsSet, known: Known, action: PastAction, *, brake: bool) -> bool:
    if action.reversibility is None or action.reversibility == "irreversible":
        return False
    threshold = policy.threshold_for(action.subject, action.reversibility)
    return threshold is not None and trusted(known.state, threshold, action.moment, brake=brake)


class PlainMean(Struct, frozen=True):
    """The thresholds held against the plain mean of all evidence: no decay, no brake."""

    name: str
    thresholds: Thresholds

    def allows(self, known: Known, action: PastAction) -> bool:
        """Whether mean and number reach the threshold."""
        threshold = threshold_of(self.thresholds, action)
        if threshold is None or not known.state.n_samples:
            return False
        return (
            plain_mean_reaches(known.plain_num, known.plain_den, threshold.min_score)
            and known.plain_den[UNDO_RATE] >= threshold.min_samples
            and known.plain_num[1] >= threshold.min_grants * PPM
            and known.plain_num[1] >= threshold.min_approval_rate * known.plain_den[1]
        )


class Elapsed(Struct, frozen=True):
    """The product's policy with the score of `elapsed/1`, the seed's snippet, in place of ours."""

    name: str
    thresholds: Thresholds

    def allows(self, known: Known, action: PastAction) -> bool:
        """Brake, samples, grants and rate as in `trust`; the score by the other formula."""
        threshold = threshold_of(self.thresholds, action)
        if threshold is None or not known.state.n_samples:
            return False
        state, now = known.state, action.moment
        score = known.elapsed.raw_score() * freshness_of(state.last_updated, now)
        return (
            score >= threshold.min_score / PPM
            and not evidence_shortfalls(standing_of(state), threshold, g(max(now, ZERO)))
            and not _braked(state, now)
        )


def promotable(action: PastAction) -> bool:
    """Whether a number can promote it at all."""
    return action.reversibility in ("reversible", "reversible_with_cost")


def threshold_of(thresholds: Thresholds, action: PastAction) -> Threshold | None:
    """The threshold of an action's band; None where no number promotes."""
    if action.reversibility is None or action.reversibility == "irreversible":
        return None
    return thresholds[action.reversibility]


def trusted(state: State, threshold: Threshold, now: int, *, brake: bool = True) -> bool:
    """Whether a state may be promoted at a moment: exact, by the functions of the policy."""
    return (
        state.n_samples > 0 and meets(state, threshold, now) and not (brake and _braked(state, now))
    )


def _braked(state: State, now: int) -> bool:
    return brake_of(state.last_bad_at, state.last_grant_at, now) is not None


_SHARES: Final = tuple(round(share * 100) for share in RAW_SCORE_WEIGHTS)
_HALVES: Final = tuple(round(value * 2) for value in WITHOUT_EVIDENCE)


def plain_mean_reaches(num: Sequence[int], den: Sequence[int], min_score: int) -> bool:
    """Whether raw_score of plain sums is at least `min_score` (ppm), by integers only."""
    total, below = 0, 1
    for c, share in enumerate(_SHARES):
        n, d = (num[c], den[c] * PPM) if den[c] else (_HALVES[c], 2)
        if c == UNDO_RATE:
            n = d - n
        total, below = total * d + share * n * below, below * d
    return total * PPM >= min_score * 100 * below


def thresholds_with(
    min_score: int | None = None,
    min_samples: int | None = None,
    min_grants: int | None = None,
    min_approval_rate: int | None = None,
) -> Thresholds:
    """The default thresholds, with what is given in their place in every band; shares in ppm."""
    return {
        band: Threshold(
            band,
            default.min_score if min_score is None else min_score,
            default.min_samples if min_samples is None else min_samples,
            default.min_grants if min_grants is None else min_grants,
            default.min_approval_rate if min_approval_rate is None else min_approval_rate,
        )
        for band, default in DEFAULTS.items()
        if band != "irreversible"
    }


def policies(
    trust: Sequence[Trust], in_a_row: int = IN_A_ROW, as_set: PolicyInForce | None = None
) -> list[Policy]:
    """Everything that is held against each other, `trust` first, then what a log has set.

    What goes without the brake, the plain mean and `elapsed/1` have the thresholds of the first.
    """
    thresholds = trust[0].thresholds
    return [
        *trust,
        *([] if as_set is None else [AsSet("as set", as_set)]),
        Trust("no brake", thresholds, brake=False),
        Never("never"),
        Always("always"),
        InARow(f"{in_a_row} in a row", in_a_row),
        PlainMean("plain mean", thresholds),
        Elapsed("elapsed/1", thresholds),
    ]
