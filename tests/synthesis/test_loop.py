"""A synthesis tells each draft what was wrong with the last, and ends by a person or a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.oracles.histories import RECORDED_FROM
from trustfold_projections.laws.synthesis import Checked, Cost, Coverage, Judged, Measured
from trustfold_projections.laws.synthesis_words import Dossier
from trustfold_schemas.amounts import MicroUsd, Ppm
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.subject import neuron_subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.self_play import Purse
from trustfold_streams.synthesis import Answer, Draft, Limits, Synthesis, Synthesizer

TASK = "Track what the household spends."
CENT = 10_000


def measured(green: int = 5, judge: int = 600_000, bonus: int = 200_000) -> Measured:
    """What the bench says of a draft; 5 of 5 green with these numbers is R = 0.72."""
    return Measured(
        neuron="budget",
        tests=tuple(Checked(f"test_{number}", number <= green) for number in range(1, 6)),
        judge=Judged(Ppm(judge), "law.1 borderline"),
        cost=Cost(MicroUsd(1), MicroUsd(1)),
        coverage=Coverage(Ppm(bonus)),
    )


class World:
    """A generator, a bench that says what it was told to, and a person with prepared answers."""

    def __init__(self, found: Sequence[Measured | Exception], answers: Sequence[Answer]) -> None:
        self.found = list(found)
        self.answers = list(answers)
        self.feedback: list[str | None] = []
        self.dossiers: list[Dossier] = []
        self.published: list[bytes] = []
        self.purse = Purse(100 * CENT)
        self.drafts_fail = False
        self.hangs = False

    def estimate(self, task: str) -> int:
        """Two cents a draft at most."""
        assert task == TASK
        return 2 * CENT

    async def draft(self, task: str, feedback: str | None, attempt: int) -> Draft:
        """A draft for one cent."""
        assert task == TASK
        assert attempt == len(self.feedback) + 1
        self.feedback.append(feedback)
        if self.hangs:
            await asyncio.Event().wait()
        if self.drafts_fail:
            raise ConnectionError("the model is gone")
        return Draft("budget", f"draft {attempt}", CENT)

    async def measure(self, draft: Draft) -> Measured:
        """The next of what was prepared."""
        assert draft.content == f"draft {len(self.feedback)}"
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def ask(self, dossier: Dossier, draft: Draft) -> Answer:
        """The next prepared answer."""
        assert draft.neuron == dossier.neuron
        self.dossiers.append(dossier)
        return self.answers.pop(0)

    async def publish(self, document: bytes) -> None:
        """Remember an event."""
        self.published.append(document)

    def run(self, limits: Limits | None = None) -> Synthesis:
        """Run a synthesis."""
        synthesizer = Synthesizer(
            generator=self,
            bench=self,
            gate=self,
            budget=self.purse,
            publish=self.publish,
            clock=ManualClock(RECORDED_FROM),
            limits=limits,
        )
        return asyncio.run(synthesizer.run(TASK))


YES = Answer("approve", "roberto")


def test_the_birth_of_a_neurons_score(tmp_path: Path) -> None:
    """The seed's row: approved with R = 0.72, the score is 0.72 with one sample."""
    world = World([measured()], [YES])
    made = world.run()
    assert made.ended == "approved"
    with EmbeddedStore.open(tmp_path / "trust.db", clock=ManualClock(RECORDED_FROM)) as store:
        store.publish(world.published[0])
        score = store.get(neuron_subject("", "budget"))
        assert score is not None
        assert score.n_samples == 1
        assert score.score == pytest.approx(0.72, abs=1e-6)
        again = World([measured()], [YES])
        again.run()
        with pytest.raises(EventRefused, match="was seeded by"):
            store.publish(again.published[0])


def test_a_draft_below_the_gate_is_told_what_was_red(tmp_path: Path) -> None:
    """No person is asked about it; the next draft hears of red tests and the judge."""
    world = World([measured(green=2), measured()], [YES])
    made = world.run()
    assert (made.ended, len(made.attempts), len(world.dossiers)) == ("approved", 2, 1)
    assert world.feedback[0] is None
    said = world.feedback[1]
    assert said is not None
    assert "test_3, test_4, test_5" in said
    assert "law.1 borderline" in said
    assert world.dossiers[0].attempt == 2


@pytest.mark.parametrize("perfect", [measured(), measured(judge=10**6, bonus=10**6)])
def test_no_reward_approves_anything(perfect: Measured) -> None:
    """The best R there is publishes nothing while a person denies."""
    world = World([perfect], [Answer("deny", "roberto", "not in my house")])
    made = world.run()
    assert (made.ended, made.event_id, world.published) == ("denied", None, [])
    assert made.answer is not None
    assert made.answer.by == "roberto"


def test_a_revision_hears_the_person() -> None:
    """What the person said stands in the feedback of the next draft."""
    world = World([measured(), measured()], [Answer("revise", "roberto", "shorter, please"), YES])
    assert world.run().ended == "approved"
    said = world.feedback[1]
    assert said is not None
    assert said.endswith("roberto said: shorter, please")


def test_drafts_are_bounded() -> None:
    """After so many drafts it gives up, and shows what each one came to."""
    world = World([measured(green=0)] * 3, [])
    made = world.run(Limits(attempts=3))
    assert (made.ended, len(made.attempts), made.spent) == ("attempts", 3, 3 * CENT)
    assert all(one.breakdown is not None and not one.breakdown.passes for one in made.attempts)


def test_money_is_bounded() -> None:
    """No draft is begun that the money might not be enough for."""
    world = World([measured(green=0)] * 5, [])
    world.purse = Purse(3 * CENT)
    made = world.run()
    assert (made.ended, made.spent, world.purse.remaining) == ("budget", 2 * CENT, CENT)


def test_a_draft_that_breaks_the_bench_is_an_attempt() -> None:
    """The next draft hears that the one before could not be tried, and why."""
    world = World([RuntimeError("does not parse"), measured()], [YES])
    assert world.run().ended == "approved"
    assert world.feedback[1] == (
        "The draft before could not be tried: RuntimeError: does not parse"
    )


def test_a_generator_that_fails_or_hangs_is_paid_for() -> None:
    """What nobody says the cost of costs what was estimated; time is bounded."""
    failing = World([], [])
    failing.drafts_fail = True
    made = failing.run(Limits(attempts=2))
    assert (made.ended, made.spent, failing.purse.remaining) == ("attempts", 4 * CENT, 96 * CENT)
    hanging = World([], [])
    hanging.hangs = True
    made = hanging.run(Limits(attempts=1, draft_seconds=0.01))
    assert (made.ended, made.spent) == ("attempts", 2 * CENT)
    assert made.attempts[0].feedback.endswith("it took too long")
