"""Revocations: whom nothing promotes any more, also subjects that do not exist yet (SPEC 5)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from trustfold_projections.laws.policy.globs import GlobIndex
from trustfold_projections.laws.policy.rulings import REMEMBERED_MAX, SaidBy
from trustfold_schemas.subject import Subject


class Revocation(Struct, frozen=True, gc=False):
    """A revocation in force: the globs of subjects that are never promoted."""

    revocation_id: str
    source: str
    scope: str
    tool: str
    effect: str
    said: SaidBy


class Actors:
    """Who is named by revocations: their numbers by scope and tool, without trying every one."""

    def __init__(self, revocations: Sequence[Revocation]) -> None:
        self._scopes = GlobIndex((one.scope, i) for i, one in enumerate(revocations))
        self._tools = GlobIndex((one.tool, i) for i, one in enumerate(revocations))
        self._remembered: dict[tuple[str, str], frozenset[int]] = {}

    def named(self, subject: Subject) -> frozenset[int]:
        """The numbers of the revocations whose globs of scope and tool both match."""
        actor = subject[:2]
        known = self._remembered.get(actor)
        if known is None:
            scopes = self._scopes.matching(subject.scope)
            known = frozenset(scopes).intersection(self._tools.matching(subject.tool))
            if len(self._remembered) < REMEMBERED_MAX:
                self._remembered[actor] = known
        return known
