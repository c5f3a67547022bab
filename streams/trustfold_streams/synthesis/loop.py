"""Draft, measure, tell what was wrong, and again: until a person is asked or the bound is reached.

The feedback is prose, and a person decides: the loop is rejection sampling, and R approves nothing.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Literal

from msgspec import Struct

from trustfold_projections.laws.synthesis import Breakdown, Measured, reward_of
from trustfold_projections.laws.synthesis_words import Dossier, dossier, prose
from trustfold_schemas.actions import Author
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.self_play.ports import Budget, Publish
from trustfold_streams.synthesis.birth import birth_document
from trustfold_streams.synthesis.ports import Answer, Bench, Draft, Gate, Generator

log = logging.getLogger("trustfold.synthesis")

SOURCE = "trustfold/synthesis"

Ended = Literal["approved", "denied", "attempts", "budget"]
"""How a synthesis ended: by a person's answer, or by a bound."""


class Limits(Struct, frozen=True):
    """How many drafts are made, and how long one of them and its measurement may take."""

    attempts: int = 5
    draft_seconds: float = 300.0
    measure_seconds: float = 900.0


class Attempt(Struct, frozen=True, kw_only=True):
    """One draft: its reward if it could be measured, and what was said of it."""

    breakdown: Breakdown | None
    feedback: str


class Synthesis(Struct, frozen=True, kw_only=True):
    """What came of a synthesis. `spent` is what the drafts cost, in micro-USD.

    `dossier` and `answer` are the last a person saw and said; `event_id` is the birth's.
    """

    ended: Ended
    attempts: tuple[Attempt, ...]
    spent: int
    dossier: Dossier | None = None
    answer: Answer | None = None
    event_id: str | None = None


class _Course:
    """What is known while a synthesis runs."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.spent = 0
        self.dossier: Dossier | None = None
        self.answer: Answer | None = None

    @property
    def feedback(self) -> str | None:
        return self.attempts[-1].feedback if self.attempts else None

    def end(self, ended: Ended, event_id: str | None = None) -> Synthesis:
        return Synthesis(
            ended=ended,
            attempts=tuple(self.attempts),
            spent=self.spent,
            dossier=self.dossier,
            answer=self.answer,
            event_id=event_id,
        )


class Synthesizer:
    """Runs syntheses; each is bounded in drafts, time and money."""

    def __init__(
        self,
        *,
        generator: Generator,
        bench: Bench,
        gate: Gate,
        budget: Budget,
        publish: Publish,
        clock: Clock | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._generator = generator
        self._bench = bench
        self._gate = gate
        self._budget = budget
        self._publish = publish
        self._clock = clock or SystemClock()
        self._limits = limits or Limits()

    async def run(self, task: str) -> Synthesis:
        """Draft until a person approves or denies, or a bound is reached."""
        course = _Course()
        while len(course.attempts) < self._limits.attempts:
            estimate = self._generator.estimate(task)
            if not self._budget.reserve(estimate):
                return course.end("budget")
            spent = estimate  # what is paid if nobody ever says what it cost
            try:
                draft = await self._drafted(task, course)
                if draft is not None:
                    spent = max(0, draft.cost)
            finally:
                self._budget.settle(estimate, spent)
                course.spent += spent
            if draft is None:
                continue
            measured = await self._measured(draft, course)
            if measured is None:
                continue
            ended = await self._shown(draft, measured, course)
            if ended is not None:
                return ended
        return course.end("attempts")

    async def _drafted(self, task: str, course: _Course) -> Draft | None:
        try:
            async with asyncio.timeout(self._limits.draft_seconds):
                return await self._generator.draft(task, course.feedback, len(course.attempts) + 1)
        except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
            self._failed("could not be made", error, course)
            return None

    async def _measured(self, draft: Draft, course: _Course) -> Measured | None:
        try:
            async with asyncio.timeout(self._limits.measure_seconds):
                return await self._bench.measure(draft)
        except Exception as error:  # noqa: BLE001 - a draft may break whatever tries it
            self._failed("could not be tried", error, course)
            return None

    def _failed(self, what: str, error: Exception, course: _Course) -> None:
        why = "it took too long" if isinstance(error, TimeoutError) else str(error)
        log.warning("draft %d %s: %s", len(course.attempts) + 1, what, why)
        said = f"The draft before {what}: {type(error).__name__}: {why}"
        course.attempts.append(Attempt(breakdown=None, feedback=said))

    async def _shown(self, draft: Draft, measured: Measured, course: _Course) -> Synthesis | None:
        """Ask the person about a draft that passes; None if another one is to be made."""
        found = reward_of(measured)
        said = prose(measured, found)
        if not found.passes:
            course.attempts.append(Attempt(breakdown=found, feedback=said))
            return None
        course.dossier = dossier(measured, len(course.attempts) + 1)
        answer = course.answer = await self._gate.ask(course.dossier, draft)
        if answer.words:
            said = f"{said}\n{answer.by} said: {answer.words}"
        course.attempts.append(Attempt(breakdown=found, feedback=said))
        if answer.decision == "revise":
            return None
        if answer.decision == "deny":
            return course.end("denied")
        author = Author(SOURCE, str(uuid.uuid4()), self._clock.now())
        await self._publish(birth_document(author, measured, answer.by))
        return course.end("approved", author.event_id)
