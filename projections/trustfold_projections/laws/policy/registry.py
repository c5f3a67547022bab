"""The policy in force: what the log `policy` has set, folded in log order (SPEC 5).

A `Policy` is a value that decisions rest on; a `PolicyLog` takes facts and makes the next one.
Versions are compared and swapped here, as correlation does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from trustfold_projections.laws.correlation import Key, Outcome, correlate, key_of, new_state
from trustfold_projections.laws.correlation.singles import PolicyState
from trustfold_projections.laws.medians import MedianTable
from trustfold_projections.laws.policy.globs import GlobIndex
from trustfold_projections.laws.policy.revocations import Actors, Revocation
from trustfold_projections.laws.policy.rulings import (
    REMEMBERED_MAX,
    Answer,
    Declaration,
    OfGlob,
    Ruling,
    SaidBy,
    ruling_of,
)
from trustfold_schemas.decisions import ModeName, Threshold
from trustfold_schemas.errors import ThresholdNotFoundError
from trustfold_schemas.events import Reversibility
from trustfold_schemas.facts import Fact
from trustfold_schemas.policy_events import (
    EffectDeclaredEvent,
    EffectRemovedEvent,
    PolicyData,
    PolicyEvent,
    PolicyModeEvent,
    ThresholdRemovedEvent,
    ThresholdSetEvent,
    TrustReinstatedEvent,
    TrustRevokedEvent,
)
from trustfold_schemas.subject import Subject

SPOT_CHECK_ONE_IN: Final = 20
"""One promotion in so many is asked all the same, unless the mode says otherwise."""


class SetThreshold(Struct, frozen=True, gc=False):
    """A threshold in force, set for a glob and a band."""

    threshold: Threshold
    said: SaidBy


class Mode(Struct, frozen=True, gc=False):
    """The mode in force; version 0 is that of a policy that nobody has set."""

    mode: ModeName = "shadow"
    spot_check_one_in: int = SPOT_CHECK_ONE_IN
    version: int = 0
    said: SaidBy | None = None


class Policy:
    """The policy as it stands after so many facts of its log; never changed, only replaced.

    It is the seed's TrustThresholdRegistry.
    """

    def __init__(
        self,
        version: int = 0,
        *,
        thresholds: Mapping[tuple[str, Reversibility], SetThreshold] | None = None,
        declarations: Mapping[str, Declaration] | None = None,
        revocations: Iterable[Revocation] = (),
        mode: Mode | None = None,
        versions: Mapping[Key, int] | None = None,
    ) -> None:
        self.version = version
        self._versions = dict(versions or {})
        self.thresholds = dict(thresholds or {})
        self.declarations = dict(declarations or {})
        self.revocations = tuple(revocations)
        self.mode = mode or Mode()
        self._actors = Actors(self.revocations)
        of_globs: dict[str, OfGlob] = {}
        for glob, declaration in self.declarations.items():
            of_globs.setdefault(glob, OfGlob()).declaration = declaration
        for (glob, _), one in self.thresholds.items():
            of_globs.setdefault(glob, OfGlob()).thresholds.append(one.threshold)
        for number, revocation in enumerate(self.revocations):
            of_globs.setdefault(revocation.effect, OfGlob()).revocations.append(number)
        self._of_globs = list(of_globs.values())
        self._index = GlobIndex((glob, i) for i, glob in enumerate(of_globs))
        self._rulings: dict[tuple[int, ...], Ruling] = {}
        self._of_effects: dict[str, Ruling] = {}

    def ruling(self, effect: str) -> Ruling:
        """What rules an effect; remembered, since a policy never changes."""
        known = self._of_effects.get(effect)
        if known is None:
            known = self._ruling(self._index.matching(effect))
            if len(self._of_effects) < REMEMBERED_MAX:
                self._of_effects[effect] = known
        return known

    def _ruling(self, matching: tuple[int, ...]) -> Ruling:
        """One ruling serves all effects that the same globs match."""
        known = self._rulings.get(matching)
        if known is None:
            known = ruling_of([self._of_globs[number] for number in matching])
            if len(self._rulings) < REMEMBERED_MAX:
                self._rulings[matching] = known
        return known

    def in_force(self, effect: str, reversibility: Reversibility) -> Reversibility:
        """The stricter of the registry's reversibility and a caller's.

        Raises ThresholdNotFoundError for an effect that no declaration matches.
        """
        in_force = self._declared_answer(effect, reversibility).in_force
        assert in_force is not None
        return in_force

    def for_effect(self, effect_class: str, reversibility: Reversibility) -> Threshold:
        """The threshold that an action must meet; that of irreversible ones has min_score 1.0.

        Where the caller says more than the registry, the thresholds of both bands must be met:
        a caller's word never makes it easier. Raises ThresholdNotFoundError for an effect that
        no declaration matches.
        """
        threshold = self._declared_answer(effect_class, reversibility).threshold
        assert threshold is not None
        return threshold

    def _declared_answer(self, effect: str, reversibility: Reversibility) -> Answer:
        ruling = self.ruling(effect)
        if ruling.declaration is None:
            raise ThresholdNotFoundError(
                f"no declaration matches the effect {effect!r}; "
                f"`trustfold effect declare {effect!r} --reversibility R --why W` makes one"
            )
        return ruling.answers[reversibility]

    def threshold_version(self, effect: str, band: Reversibility) -> int:
        """The version of a threshold, removals counted; 0 if there never was one."""
        return self._versions.get(Key("policy", f"threshold {band} {effect}"), 0)

    def effect_version(self, effect: str) -> int:
        """The version of a declaration, removals counted; 0 if there never was one."""
        return self._versions.get(Key("policy", f"effect {effect}"), 0)

    def revoked_by(self, subject: Subject) -> list[Revocation]:
        """The revocations in force that name a subject, in the order of the log."""
        return self.revoked(self.ruling(subject.effect), subject)

    def revoked(self, ruling: Ruling, subject: Subject) -> list[Revocation]:
        """The same, where the ruling of the subject's effect is known already."""
        if not ruling.revocations:
            return []
        named = ruling.revocations & self._actors.named(subject)
        if not named:
            return []
        return [self.revocations[number] for number in sorted(named)]


class PolicyLog:
    """The log `policy` folded so far: what is in force, and what decides over the next fact."""

    def __init__(self) -> None:
        self._states: dict[Key, PolicyState] = {}
        self._thresholds: dict[tuple[str, Reversibility], SetThreshold] = {}
        self._declarations: dict[str, Declaration] = {}
        self._revocations: dict[tuple[str, str], Revocation] = {}
        self._mode = Mode()
        self.version = 0
        self._policy: Policy | None = None
        self.last_recorded = 0

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        if self._policy is None:
            self._policy = Policy(
                self.version,
                thresholds=self._thresholds,
                declarations=self._declarations,
                revocations=self._revocations.values(),
                mode=self._mode,
                versions={key: state.version for key, state in self._states.items()},
            )
        return self._policy

    def take(self, fact: Fact) -> Outcome:
        """Take one fact of the log; a duplicate or a stale version changes nothing."""
        event = fact.event
        assert isinstance(event, PolicyEvent)
        key = key_of(event)
        state = self._states.get(key)
        if state is None:
            fresh = new_state(key)
            assert isinstance(fresh, PolicyState)
            state = self._states[key] = fresh
        outcome = correlate(state, fact, MedianTable())
        self.last_recorded = max(self.last_recorded, fact.recorded)
        if outcome.remembered:
            self.version += 1
            self._policy = None
            self._apply(event, fact, state.version)
        return outcome

    def _apply(self, event: PolicyEvent, fact: Fact, version: int) -> None:
        if isinstance(event, ThresholdSetEvent):
            data = event.data
            self._thresholds[data.effect, data.risk_band] = SetThreshold(
                Threshold(
                    data.risk_band,
                    int(data.min_score),
                    data.min_samples,
                    data.min_grants,
                    int(data.min_approval_rate),
                    data.cap_autonomy,
                    data.effect,
                    version,
                ),
                _said(event.data, fact),
            )
        elif isinstance(event, ThresholdRemovedEvent):
            self._thresholds.pop((event.data.effect, event.data.risk_band), None)
        elif isinstance(event, EffectDeclaredEvent):
            self._declarations[event.data.effect] = Declaration(
                event.data.effect, event.data.reversibility, version, _said(event.data, fact)
            )
        elif isinstance(event, EffectRemovedEvent):
            self._declarations.pop(event.data.effect, None)
        elif isinstance(event, TrustRevokedEvent):
            globs = (event.data.scope, event.data.tool, event.data.effect)
            self._revocations[event.source, event.id] = Revocation(
                event.id, event.source, *globs, _said(event.data, fact)
            )
        elif isinstance(event, TrustReinstatedEvent):
            for name in [n for n in self._revocations if n[1] == event.data.revocation_id]:
                del self._revocations[name]
        else:
            assert isinstance(event, PolicyModeEvent)
            one_in = event.data.spot_check_one_in
            self._mode = Mode(
                event.data.mode,
                self._mode.spot_check_one_in if one_in is None else one_in,
                version,
                _said(event.data, fact),
            )


def policy_of(facts: Iterable[Fact], most: int | None = None) -> Policy:
    """The policy after the facts of its log, or after the first `most` that were accepted."""
    log = PolicyLog()
    for fact in facts:
        if most is not None and log.version >= most:
            break
        log.take(fact)
    return log.policy


def _said(data: PolicyData, fact: Fact) -> SaidBy:
    return SaidBy(fact.stamp.identity or data.by, data.why, fact.recorded)
