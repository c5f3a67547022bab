"""The events of the topic `policy`: thresholds, declarations, revocations, the mode (SPEC 5).

Each says who and why, and a set or a removal may name the version it replaces.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from trustfold_schemas.amounts import Ppm
from trustfold_schemas.events import Event, Id, Reversibility
from trustfold_schemas.subject import EFFECT_MAX, NAME_MAX

EffectGlob = Annotated[str, Meta(min_length=1, max_length=EFFECT_MAX)]
NameGlob = Annotated[str, Meta(max_length=NAME_MAX)]
Version = Annotated[int, Meta(ge=0, le=2**53)]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class ThresholdSet(Struct, frozen=True, gc=False):
    """Data of `trustfold.threshold.set.v1`: what a subject must reach to be promoted."""

    effect: EffectGlob
    risk_band: Reversibility
    min_score: Ppm
    min_samples: Count
    min_grants: Count
    min_approval_rate: Ppm
    by: Id
    why: str
    cap_autonomy: Literal["approve_required"] | None = None
    expected_version: Version | None = None


class ThresholdRemoved(Struct, frozen=True, gc=False):
    """Data of `trustfold.threshold.removed.v1`."""

    effect: EffectGlob
    risk_band: Reversibility
    by: Id
    why: str
    expected_version: Version | None = None


class EffectDeclared(Struct, frozen=True, gc=False):
    """Data of `trustfold.effect.declared.v1`: how far an effect can be taken back."""

    effect: EffectGlob
    reversibility: Reversibility
    by: Id
    why: str
    expected_version: Version | None = None


class EffectRemoved(Struct, frozen=True, gc=False):
    """Data of `trustfold.effect.removed.v1`."""

    effect: EffectGlob
    by: Id
    why: str
    expected_version: Version | None = None


class TrustRevoked(Struct, frozen=True, gc=False):
    """Data of `trustfold.trust.revoked.v1`: globs of the subjects that are never promoted."""

    by: Id
    why: str
    scope: NameGlob = "*"
    tool: Annotated[str, Meta(min_length=1, max_length=NAME_MAX)] = "*"
    effect: EffectGlob = "*"


class TrustReinstated(Struct, frozen=True, gc=False):
    """Data of `trustfold.trust.reinstated.v1`: `revocation_id` is the revocation's event id."""

    revocation_id: Id
    by: Id
    why: str


class PolicyMode(Struct, frozen=True, gc=False):
    """Data of `trustfold.policy.mode.v1`: shadow or enforce; one promotion in N is asked again.

    Without a number the spot checks stay as they were.
    """

    mode: Literal["shadow", "enforce"]
    by: Id
    why: str
    spot_check_one_in: Count | None = None
    expected_version: Version | None = None


PolicyData = (
    ThresholdSet
    | ThresholdRemoved
    | EffectDeclared
    | EffectRemoved
    | TrustRevoked
    | TrustReinstated
    | PolicyMode
)
"""The data of an event of the topic `policy`; all say who and why."""


class PolicyEvent(Event, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """An event of the topic `policy`."""

    topic = "policy"


class ThresholdSetEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.threshold.set.v1"
):
    """A threshold was set."""

    data: ThresholdSet


class ThresholdRemovedEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.threshold.removed.v1"
):
    """A threshold was removed."""

    data: ThresholdRemoved


class EffectDeclaredEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.effect.declared.v1"
):
    """An effect was declared."""

    data: EffectDeclared


class EffectRemovedEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.effect.removed.v1"
):
    """An effect's declaration was removed."""

    data: EffectRemoved


class TrustRevokedEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.trust.revoked.v1"
):
    """Trust was revoked."""

    data: TrustRevoked


class TrustReinstatedEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.trust.reinstated.v1"
):
    """Trust was reinstated."""

    data: TrustReinstated


class PolicyModeEvent(
    PolicyEvent, frozen=True, kw_only=True, gc=False, tag="trustfold.policy.mode.v1"
):
    """The mode was set."""

    data: PolicyMode
