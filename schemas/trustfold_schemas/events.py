"""Events: what publishers send, one frozen struct a versioned type, a tagged union by `type`.

Here are the shapes and the limits that one document can be judged by (SPEC 2). Reading bytes is in
`decoding`; the events of the topic `policy` are in `policy_events`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from trustfold_schemas.amounts import MicroUsd, Ppm
from trustfold_schemas.instants import Instant
from trustfold_schemas.subject import (
    NAME_MAX,
    NEURON_PREFIX,
    RUNTIME,
    Effect,
    Scope,
    Subject,
    Tool,
    neuron_subject,
)

STEPS_MAX = 10_000
"""Steps a trace."""
FEEDBACK_MAX = 1_000
"""Feedback events a trace, and names in one feedback event."""
ERROR_MAX = 64

Id = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
NeuronName = Annotated[str, Meta(min_length=1, max_length=NAME_MAX - len(NEURON_PREFIX))]
ErrorCode = Annotated[str, Meta(max_length=ERROR_MAX)]

Reversibility = Literal["reversible", "reversible_with_cost", "irreversible"]
StepStatus = Literal["ok", "error", "not_executed"]
Via = Literal["policy_allow", "human", "trust_promoted", "not_gated"]
Decision = Literal["granted", "denied", "expired"]
DecidedByKind = Literal["human", "rule", "policy"]

StepIds = Annotated[tuple[Id, ...], Meta(min_length=1, max_length=STEPS_MAX)]
NamedSubjects = Annotated[tuple[Subject, ...], Meta(min_length=1, max_length=FEEDBACK_MAX)]


def _refuse_runtime(subjects: tuple[Subject, ...] | None) -> None:
    if subjects and any(subject.is_global for subject in subjects):
        raise ValueError(
            f"Expected subjects of steps, got the tool `{RUNTIME}`, which counts whole traces"
        )


class Step(Struct, frozen=True, gc=False):
    """One tool call of a trace; no raw arguments and no prompts."""

    step_id: Id
    tool: Tool
    effect: Effect
    status: StepStatus
    error: ErrorCode | None = None
    reversibility: Reversibility | None = None
    args_fingerprint: Annotated[str, Meta(max_length=NAME_MAX)] | None = None
    via: Via | None = None
    decision_id: Id | None = None

    def __post_init__(self) -> None:
        if self.tool == RUNTIME:
            raise ValueError(f"Expected a tool of the agent, got `{RUNTIME}`, which is reserved")

    @property
    def executed(self) -> bool:
        """Whether it ran at all; denied and cancelled steps did not."""
        return self.status != "not_executed"


class Violation(Struct, frozen=True, gc=False):
    """A broken law of the constitution: 0 to 2 are grave, 3 is the mildest."""

    law: Annotated[int, Meta(ge=0, le=3)]
    step_id: Id | None = None


class DecidedBy(Struct, frozen=True, gc=False):
    """Who decided or undid; only `human` is human evidence."""

    kind: DecidedByKind
    id: Id


class TraceClosed(Struct, frozen=True, gc=False):
    """Data of `trustfold.trace.closed.v1`: a whole trace, or its end where steps come singly."""

    trace_id: Id
    outcome: Effect
    scope: Scope = ""
    session: Annotated[str, Meta(max_length=NAME_MAX)] | None = None
    agent: Annotated[str, Meta(max_length=NAME_MAX)] | None = None
    cost_usd: MicroUsd | None = None
    steps: Annotated[tuple[Step, ...], Meta(max_length=STEPS_MAX)] = ()
    step_count: Annotated[int, Meta(ge=0, le=STEPS_MAX)] | None = None
    violations: Annotated[tuple[Violation, ...], Meta(max_length=STEPS_MAX)] = ()

    def __post_init__(self) -> None:
        step_ids = [step.step_id for step in self.steps]
        if len(set(step_ids)) < len(step_ids):
            again = next(one for one, times in Counter(step_ids).items() if times > 1)
            raise ValueError(f"Expected distinct step ids in `steps`, got `{again}` twice")
        if self.step_count is not None and self.step_count < len(self.steps):
            raise ValueError(
                f"Expected `step_count` to be at least the {len(self.steps)} steps listed, "
                f"got {self.step_count}"
            )


class StepRecorded(Struct, frozen=True, gc=False):
    """Data of `trustfold.step.recorded.v1`: one step, from runtimes that hold no whole trace."""

    trace_id: Id
    step: Step
    scope: Scope = ""


class SignalsReported(Struct, frozen=True, gc=False):
    """Data of `trustfold.signals.reported.v1`: ready-made evidence for one subject.

    Each signal is a share in ppm; an absent one has weight 0, but `undo_flag` absent is 0.
    """

    trace_id: Id
    subject: Subject
    tool_success: Ppm | None = None
    cost_efficiency: Ppm | None = None
    constitution_clean: Ppm | None = None
    human_approval_delta: Ppm | None = None
    undo_flag: Ppm | None = None

    def __post_init__(self) -> None:
        _refuse_runtime((self.subject,))


class ApprovalDecided(Struct, frozen=True, gc=False):
    """Data of `trustfold.approval.decided.v1`: an answer to a question for approval."""

    trace_id: Id
    decision: Decision
    decided_by: DecidedBy
    step_ids: StepIds | None = None
    subjects: NamedSubjects | None = None
    grants_visible: bool = True

    def __post_init__(self) -> None:
        _refuse_runtime(self.subjects)


class UndoExecuted(Struct, frozen=True, gc=False):
    """Data of `trustfold.undo.executed.v1`: somebody took actions of a trace back."""

    trace_id: Id
    by: DecidedBy
    step_ids: StepIds | None = None
    subjects: NamedSubjects | None = None

    def __post_init__(self) -> None:
        _refuse_runtime(self.subjects)


class TraceExclusion(Struct, frozen=True, gc=False):
    """Data of `trustfold.trace.excluded.v1` and `trustfold.trace.included.v1`."""

    trace_id: Id
    by: Id
    why: str


class SelfPlayCompleted(Struct, frozen=True, gc=False):
    """Data of `trustfold.selfplay.completed.v1`: two neurons played, a critic judged."""

    context: Id
    winner: NeuronName
    loser: NeuronName
    critic: NeuronName
    verdict: str
    critic_cost_usd: MicroUsd
    scope: Scope = ""
    users_accepted_winner: bool | None = None

    def __post_init__(self) -> None:
        if self.winner == self.loser:
            raise ValueError(f"Expected two competitors, got `{self.winner}` as both")
        if self.critic in (self.winner, self.loser):
            raise ValueError(f"Expected a critic that is no competitor, got `{self.critic}`")

    @property
    def subject(self) -> Subject:
        """The subject of the winner."""
        return neuron_subject(self.scope, self.winner)


class NeuronSynthesized(Struct, frozen=True, gc=False):
    """Data of `trustfold.neuron.synthesized.v1`: an approved neuron and its reward in ppm."""

    neuron: NeuronName
    reward: Ppm
    breakdown: dict[str, Any]
    approved_by: Id
    scope: Scope = ""

    @property
    def subject(self) -> Subject:
        """The subject of the neuron."""
        return neuron_subject(self.scope, self.neuron)


class SubjectRolledBack(Struct, frozen=True, gc=False):
    """Data of `trustfold.subject.rolled_back.v1`: entries recorded after `to` do not count."""

    subject: Subject
    to: Instant
    by: Id
    why: str


class RollbackLifted(Struct, frozen=True, gc=False):
    """Data of `trustfold.rollback.lifted.v1`: `rollback_id` is the event id of the rollback."""

    subject: Subject
    rollback_id: Id
    by: Id
    why: str


class CostMedian(Struct, frozen=True, gc=False):
    """Data of `trustfold.cost.median.v1`: the median cost of traces with an effect class."""

    effect: Effect
    median_usd: MicroUsd
    samples: Annotated[int, Meta(ge=0, le=2**53)]
    effective_at: Instant
    scope: Scope = ""


class Event(Struct, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """The CloudEvents 1.0 attributes that every event carries; `time` is an instant.

    `topic` is the input topic without its prefix.
    """

    topic: ClassVar[str]

    specversion: Literal["1.0"]
    id: Id
    source: Id
    time: Instant
    subject: str | None = None
    traceparent: str | None = None


class TraceClosedEvent(Event, frozen=True, kw_only=True, gc=False, tag="trustfold.trace.closed.v1"):
    """A trace closed."""

    topic = "trace-closed"
    data: TraceClosed


class SignalsReportedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.signals.reported.v1"
):
    """Ready-made evidence came."""

    topic = "signals"
    data: SignalsReported


class StepRecordedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.step.recorded.v1"
):
    """One step was recorded."""

    topic = "step"
    data: StepRecorded


class ApprovalDecidedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.approval.decided.v1"
):
    """An approval was decided."""

    topic = "approval"
    data: ApprovalDecided


class UndoExecutedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.undo.executed.v1"
):
    """An undo was executed."""

    topic = "undo"
    data: UndoExecuted


class TraceExcludedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.trace.excluded.v1"
):
    """A trace was excluded."""

    topic = "exclusion"
    data: TraceExclusion


class TraceIncludedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.trace.included.v1"
):
    """A trace was included again."""

    topic = "exclusion"
    data: TraceExclusion


class SelfPlayCompletedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.selfplay.completed.v1"
):
    """A self-play was completed."""

    topic = "self-play"
    data: SelfPlayCompleted


class NeuronSynthesizedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.neuron.synthesized.v1"
):
    """A neuron was synthesized and approved."""

    topic = "synthesis"
    data: NeuronSynthesized


class SubjectRolledBackEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.subject.rolled_back.v1"
):
    """A subject was rolled back."""

    topic = "rollback"
    data: SubjectRolledBack


class RollbackLiftedEvent(
    Event, frozen=True, kw_only=True, gc=False, tag="trustfold.rollback.lifted.v1"
):
    """A rollback was lifted."""

    topic = "rollback"
    data: RollbackLifted


class CostMedianEvent(Event, frozen=True, kw_only=True, gc=False, tag="trustfold.cost.median.v1"):
    """A median of cost was published."""

    topic = "cost-median"
    data: CostMedian


FeedbackEvent = ApprovalDecidedEvent | UndoExecutedEvent | TraceExcludedEvent | TraceIncludedEvent
"""Approvals, undos, exclusions and inclusions."""

TraceEvent = TraceClosedEvent | SignalsReportedEvent | StepRecordedEvent | FeedbackEvent
"""What is keyed by trace."""


def type_of(event: Event | type[Event]) -> str:
    """The versioned type of an event, as it stands in its document."""
    return str(event.__struct_config__.tag)
