"""The reflection filter: which proposals of memory are shown, by the trust in where they come from.

A proposal counts as its least trusted subject: below 0.5 it is dropped, the rest is ranked (SPEC
5). It compares raw_score, since what happened long ago is no less true. A subject without history,
or with a corrupt record, is no ground for a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from trustfold_schemas.events import FEEDBACK_MAX, Id
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject

LEAST: Final = 0.5
"""The raw_score from which on a proposal is shown."""

DroppedFor = Literal["below", "no_history", "corrupt"]


class Proposal(Struct, frozen=True, gc=False):
    """A memory that is proposed, and the subjects whose episodes it derives from."""

    id: Id
    subjects: Annotated[tuple[Subject, ...], Meta(min_length=1, max_length=FEEDBACK_MAX)]


class Kept(Struct, frozen=True, gc=False):
    """A proposal to show, with the raw_score of its least trusted subject."""

    proposal: Proposal
    raw_score: float
    subject: Subject


class Dropped(Struct, frozen=True, gc=False):
    """A proposal not to show, the subject for which, and that one's raw_score if it has one."""

    proposal: Proposal
    reason: DroppedFor
    subject: Subject
    raw_score: float | None


class Reflection(Struct, frozen=True):
    """What is shown, the most trusted first, and what is not, in its order of arrival."""

    kept: tuple[Kept, ...]
    dropped: tuple[Dropped, ...]


Look = Callable[[Subject], TrustScore | Literal["corrupt"] | None]
"""A subject's score, None while it has no samples."""


def reflect(proposals: Iterable[Proposal], look: Look) -> Reflection:
    """Rank proposals and drop those that stand on too little trust. Equal ones keep their order."""
    kept: list[Kept] = []
    dropped: list[Dropped] = []
    for proposal in proposals:
        found = _weigh(proposal, look)
        if isinstance(found, Kept):
            kept.append(found)
        else:
            dropped.append(found)
    return Reflection(tuple(sorted(kept, key=lambda one: -one.raw_score)), tuple(dropped))


def _weigh(proposal: Proposal, look: Look) -> Kept | Dropped:
    known: list[tuple[float, Subject]] = []
    for subject in proposal.subjects:
        score = look(subject)
        if score == "corrupt":
            return Dropped(proposal, "corrupt", subject, None)
        if score is None:
            return Dropped(proposal, "no_history", subject, None)
        known.append((score.raw_score, subject))
    raw_score, subject = min(known)
    if raw_score < LEAST:
        return Dropped(proposal, "below", subject, raw_score)
    return Kept(proposal, raw_score, subject)
