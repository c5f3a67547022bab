"""What is known of one trace: a compact join of its facts, the same in any order of arrival.

Nothing here decides what counts; that is `contribution`. Nothing writes entries; that is `trace`.
Feedback is kept per target as maxima, minima and flags, so that a thousand approvals cost no more
than one and arrival order leaves no mark.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from trustfold_projections.laws.correlation.outcome import SeenIds
from trustfold_projections.laws.fold import later
from trustfold_schemas.amounts import PPM
from trustfold_schemas.events import SignalsReported, Step, Violation
from trustfold_schemas.ledger import ZEROS, Five
from trustfold_schemas.subject import Subject

GRAVE_LAW_MAX = 2
"""Laws 0 to 2 are grave; only 3 is mild."""


class Target(Struct, gc=False):
    """What feedback and violations say of one step, one subject, or the whole trace.

    `undone_at` is the earliest human undo: whether it sets undo_rate depends on the close.
    """

    denied: bool = False
    granted: bool = False
    undone_at: int | None = None
    bad_at: int | None = None
    grant_at: int | None = None

    @property
    def spoken(self) -> bool:
        """Whether anything here can move a rate."""
        return self.denied or self.granted or self.undone_at is not None

    def bad(self, moment: int) -> None:
        """Something bad happened at this moment; the latest one brakes."""
        self.bad_at = later(self.bad_at, moment)


class Named(NamedTuple):
    """Whom a piece of feedback names; both None means the whole trace."""

    step_ids: tuple[str, ...] | None
    subjects: tuple[Subject, ...] | None

    @property
    def nothing(self) -> bool:
        """Whether it names neither steps nor subjects."""
        return self.step_ids is None and self.subjects is None


Says = Literal["granted", "denied", "undone", "excluded", "included", "nothing"]
"""What feedback comes to; `nothing` is an answer that no human gave, or gave in time."""


class Feedback(Struct, frozen=True, gc=False):
    """One piece of feedback on a trace, with the scopes that its publisher may speak of."""

    says: Says
    time: int
    event_id: str
    position: int
    scopes: tuple[str, ...] | None
    named: Named = Named(None, None)
    in_rate: bool = True


class KnownStep(Struct, gc=False):
    """A step and the fact that recorded it (None: the close listed it)."""

    step: Step
    position: int | None
    counts: bool = False

    @property
    def subject_parts(self) -> tuple[str, str]:
        """(tool, effect); the scope is the trace's."""
        return self.step.tool, self.step.effect


class Close(Struct, frozen=True, gc=False):
    """How a trace closed: by its own event with steps, or by ready-made signals."""

    time: int
    recorded: int
    event_id: str
    source: str
    outcome: str | None = None
    cost_usd: int | None = None
    violations: tuple[Violation, ...] = ()
    step_count: int | None = None
    signals: SignalsReported | None = None
    constitution: int = PPM
    """constitution_clean in ppm: 0 if a law 0 to 2 was broken, a half if only law 3."""


def constitution_of(violations: tuple[Violation, ...]) -> int:
    """constitution_clean of a whole trace, in ppm (SPEC 3)."""
    if not violations:
        return PPM
    return 0 if any(violation.law <= GRAVE_LAW_MAX for violation in violations) else PPM // 2


class Excluded(NamedTuple):
    """The last exclusion or inclusion: by (time, id), and on a tie the exclusion."""

    time: int
    event_id: str
    excluded: bool


class Given(Struct, gc=False):
    """What the ledger already holds from this trace for one subject."""

    amounts: Five = ZEROS
    weights: Five = ZEROS
    n_samples: int = 0
    bad_at: int | None = None
    grant_at: int | None = None
    revision: int = 0
    chain: tuple[int, ...] = ()


class TraceState(Struct, gc=False, kw_only=True):
    """All that is known of one trace, and what the ledger holds of it."""

    trace_id: str
    scope: str | None = None
    seen: SeenIds = msgspec.field(default_factory=dict)
    feedback_count: int = 0
    steps: dict[str, KnownStep] = msgspec.field(default_factory=dict)
    last_step_time: int | None = None
    """The greatest time among the steps recorded singly."""
    close: Close | None = None
    folded: bool = False

    of_all: Target = msgspec.field(default_factory=Target)
    of_step: dict[str, Target] = msgspec.field(default_factory=dict)
    of_subject: dict[Subject, Target] = msgspec.field(default_factory=dict)
    exclusion: Excluded | None = None

    waiting_for_scope: list[Feedback] = msgspec.field(default_factory=list)
    """Feedback that came before the trace's scope was known, from publishers bound to scopes."""
    waiting_for_fold: list[tuple[int, tuple[str, ...]]] = msgspec.field(default_factory=list)
    """Before the fold: each feedback's position and the step ids it names, to report those that
    never come, and the feedback itself where the trace never closes."""

    subjects: dict[Subject, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """After the fold: the distinct subjects of the steps that count, with their step ids."""
    medians: dict[Subject, int | None] = msgspec.field(default_factory=dict)
    """After the fold: the median that measures each subject's cost; it stays with the trace."""
    given: dict[Subject, Given] = msgspec.field(default_factory=dict)

    @property
    def excluded(self) -> bool:
        """Whether the trace's contribution is taken out."""
        return self.exclusion is not None and self.exclusion.excluded

    def subject_of(self, step: Step) -> Subject:
        """The subject of one of this trace's steps; its scope must be known."""
        assert self.scope is not None
        return Subject(self.scope, step.tool, step.effect)

    @property
    def step_ids(self) -> tuple[str, ...]:
        """The ids of all steps that count, after the fold."""
        return tuple(step_id for step_ids in self.subjects.values() for step_id in step_ids)

    def target(self, step_id: str) -> Target:
        """What is said of a step, known or not."""
        return self.of_step.setdefault(step_id, Target())

    def target_subject(self, subject: Subject) -> Target:
        """What is said of a named subject."""
        return self.of_subject.setdefault(subject, Target())
