"""The log `decisions`: verdicts as records, and which one answers a question.

A decision is keyed by its trace, so that all that may answer a question stand in one partition;
which of them holds follows from their order there, however many wrote them at once.
"""

from __future__ import annotations

from collections import deque

import msgspec
from msgspec.structs import replace

from trustfold_projections.laws.policy.hindsight import ASKED_AGAIN_WITHIN
from trustfold_schemas.decisions import Action, Decision, ReasonCode
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.records import Output, partition_of
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

TOPIC = "decisions"
CONTENT_TYPE = ("content-type", b"application/json")

_DECISION = msgspec.json.Decoder(Decision)

Question = tuple[str, str, Subject, str | None]


def decision_output(settings: KafkaSettings, decision: Decision) -> Output:
    """A decision as a record: its JSON, keyed by its trace."""
    trace_id = decision.action.trace_id
    return Output(
        settings.topic(TOPIC),
        partition_of(trace_id, settings.partitions),
        trace_id.encode(),
        msgspec.json.encode(decision),
        [CONTENT_TYPE],
    )


def decision_from(record: Record) -> Decision | None:
    """A record as a decision whose position is its offset; None for what is no decision."""
    try:
        decision = _DECISION.decode(record.value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return replace(decision, position=record.offset)


class Asked:
    """The decisions of the last day that hold, folded in the order of each partition."""

    def __init__(self) -> None:
        self._holding: dict[Question, Decision] = {}
        self._spot_checks: dict[tuple[str, Subject], Decision] = {}
        self._ages: deque[tuple[int, Question]] = deque()

    def __len__(self) -> int:
        """How many questions it knows."""
        return len(self._holding)

    def take(self, decision: Decision) -> bool:
        """Take the next decision of a partition; whether it holds.

        Within a day of one that holds, only a stricter one takes its place: who asked at the same
        time as somebody else, and was told something else, was not given that answer.
        """
        action = decision.action
        question = _question(action)
        before = self.before(action, decision.recorded)
        if before is not None and (
            before.verdict.verdict != "allow" or decision.verdict.verdict == "allow"
        ):
            return False
        self._holding[question] = decision
        self._ages.append((decision.recorded, question))
        if decision.verdict.reason is ReasonCode.SPOT_CHECK:
            self._spot_checks[action.trace_id, action.subject] = decision
        return True

    def before(self, action: Action, now: int) -> Decision | None:
        """The decision that holds on the same question, of the last day."""
        return _within(self._holding.get(_question(action)), now)

    def spot_check_owed(self, action: Action, last_grant_at: int | None, now: int) -> str | None:
        """The spot check of the action's trace and subject that no grant has answered."""
        owed = _within(self._spot_checks.get((action.trace_id, action.subject)), now)
        if owed is None or (last_grant_at is not None and last_grant_at > owed.recorded):
            return None
        return owed.decision_id

    def forget(self, now: int) -> None:
        """Let go of what is older than a day."""
        while self._ages and self._ages[0][0] <= now - ASKED_AGAIN_WITHIN:
            _, question = self._ages.popleft()
            held = self._holding.get(question)
            if held is not None and _within(held, now) is None:
                del self._holding[question]
                self._spot_checks.pop((question[0], question[2]), None)


def _question(action: Action) -> Question:
    return (action.trace_id, action.step_id, action.subject, action.args_fingerprint)


def _within(decision: Decision | None, now: int) -> Decision | None:
    if decision is None or decision.recorded <= now - ASKED_AGAIN_WITHIN:
        return None
    return decision
