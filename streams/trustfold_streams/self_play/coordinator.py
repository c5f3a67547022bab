"""Runs one self-play: who plays, what it may cost, a blind judgement in both orders, one event.

The critic is a stranger: it may fail, hang or answer nonsense. Then nothing is published, and what
it cost is paid. Every wait is bounded.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from trustfold_projections.laws.self_play import Contest, contest, irreversible
from trustfold_schemas.actions import Author
from trustfold_schemas.documents import decimal_of
from trustfold_schemas.events import SelfPlayCompletedEvent
from trustfold_schemas.subject import NAME_MAX
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.self_play.errors import CriticError, SelfPlaySkipped
from trustfold_streams.self_play.ports import (
    Budget,
    Critic,
    Effects,
    Judgement,
    Neurons,
    Preferred,
    Publish,
    Weights,
)

log = logging.getLogger("trustfold.self_play")

SOURCE = "trustfold/self-play"
VERDICT_MAX = 2_000
"""Characters of a critic's words that are kept."""
NOBODY = "someone"
"""What stands in an answer where it names a competitor."""

_OTHER: Final[dict[Preferred, Preferred]] = {"first": "second", "second": "first"}

T = TypeVar("T")


class Limits(Struct, frozen=True):
    """How long a self-play waits for each answer, judgement and look-up, in seconds."""

    answer_seconds: float = 60.0
    critic_seconds: float = 60.0
    lookup_seconds: float = 10.0


class SelfPlayResult(Struct, frozen=True, kw_only=True):
    """Who won, in the seed's words, and what the event says beside.

    `critic_cost_micro_usd` is exact; `orders` is in how many orders the critic saw the answers.
    """

    winner: str
    loser: str
    critic_verdict: str
    critic_cost_micro_usd: int
    users_accepted_winner: bool | None
    context: str
    critic: str
    orders: int
    event_id: str

    @property
    def critic_cost_usd(self) -> float:
        """What the critic cost."""
        return self.critic_cost_micro_usd / 1_000_000


def context_of(trace: Mapping[str, Any]) -> str:
    """The context that a trace names as `context`. Raises ValueError without one."""
    context = trace.get("context")
    if not isinstance(context, str) or not 0 < len(context) <= NAME_MAX:
        raise ValueError(
            f"Expected trace['context'], 1 to {NAME_MAX} characters, got {context!r:.80}"
        )
    return context


class SelfPlayCoordinator:
    """Decides whether two neurons play, lets them, and publishes who won.

    `skipped` is told of every self-play that did not take place. Several may run at once: the
    budget is what keeps them apart.
    """

    def __init__(
        self,
        *,
        neurons: Neurons,
        critic: Critic,
        budget: Budget,
        effects: Effects,
        weights: Weights,
        publish: Publish,
        clock: Clock | None = None,
        limits: Limits | None = None,
        context_of: Callable[[Mapping[str, Any]], str] = context_of,
        skipped: Callable[[SelfPlaySkipped], None] = lambda _: None,
    ) -> None:
        self._neurons = neurons
        self._critic = critic
        self._budget = budget
        self._effects = effects
        self._weights = weights
        self._publish = publish
        self._clock = clock or SystemClock()
        self._limits = limits or Limits()
        self._context_of = context_of
        self._skipped = skipped

    async def maybe_run(
        self,
        query: str,
        candidates: Sequence[str],
        trace: Mapping[str, Any],
        *,
        accepted: str | None = None,
    ) -> SelfPlayResult | None:
        """Run a self-play if it is worth one; None if not (`skipped` is told why).

        `trace` names its `context` and optionally its `scope`; `accepted` is the neuron whose
        answer the user took, if there was feedback.
        """
        try:
            return await self.run(query, candidates, trace, accepted=accepted)
        except SelfPlaySkipped as skip:
            log.info("self-play skipped: %s", skip)
            self._skipped(skip)
            return None

    async def run(
        self,
        query: str,
        candidates: Sequence[str],
        trace: Mapping[str, Any],
        *,
        accepted: str | None = None,
    ) -> SelfPlayResult:
        """Run a self-play. Raises SelfPlaySkipped where none takes place."""
        context, scope = self._context_of(trace), str(trace.get("scope") or "")
        pair = await self._worth_it(candidates, context, scope)
        reserved, estimate, orders = self._reserve(query)
        spent = 0
        try:
            answers = await self._answers(query, pair)
            judgements: list[Judgement] = []
            for swapped in _orders(pair, query, orders):
                if judgements and spent + estimate > reserved:
                    break  # the first one cost more than it was said to
                spent += estimate  # what is paid if nobody ever says what it cost
                said, cost = await self._judged(query, answers, swapped=swapped)
                spent += (estimate if cost is None else cost) - estimate
                if said is None:
                    raise SelfPlaySkipped("critic_failed", "it gave no usable judgement", spent)
                judgements.append(said)
        finally:
            self._budget.settle(reserved, spent)
        return await self._result(pair, judgements, spent, context, scope, accepted)

    # ---- before --------------------------------------------------------------------------------

    async def _worth_it(self, candidates: Sequence[str], context: str, scope: str) -> Contest:
        try:
            known = await _within(
                self._limits.lookup_seconds, self._weights.neighbors(context, scope)
            )
        except TimeoutError:
            raise SelfPlaySkipped("no_contest", "nobody said the weights in time") from None
        weights = {one.neuron: one.weight for one in known}
        pair = contest(candidates, weights, self._critic.name)
        if pair is None:
            raise SelfPlaySkipped(
                "no_contest", f"no two of {len(candidates)} candidates are close in {context!r}"
            )
        for neuron in sorted(set(candidates)):
            await self._refuse_irreversible(neuron)
        return pair

    async def _refuse_irreversible(self, neuron: str) -> None:
        try:
            touched = await _within(self._limits.lookup_seconds, self._effects.touched(neuron))
        except TimeoutError:
            raise SelfPlaySkipped(
                "irreversible", f"nobody said in time what {neuron} touches"
            ) from None
        found = irreversible({neuron: touched})
        if found is not None:
            raise SelfPlaySkipped(
                "irreversible", f"{neuron} touches {found[1]}: {found[2] or 'unknown'}"
            )

    def _reserve(self, query: str) -> tuple[int, int, int]:
        """What is set apart, what a judgement may cost, and for how many orders that is enough."""
        try:
            estimate: object = self._critic.estimate(query)
        except Exception as error:
            raise SelfPlaySkipped("critic_failed", f"no estimate: {_what(error)}") from error
        if type(estimate) is not int or estimate < 0:
            raise SelfPlaySkipped("critic_failed", f"its estimate is nonsense: {estimate!r:.40}")
        for orders in (2, 1):
            if self._budget.reserve(orders * estimate):
                return orders * estimate, estimate, orders
        raise SelfPlaySkipped("budget", f"a judgement may cost {decimal_of(estimate)} USD")

    # ---- playing -------------------------------------------------------------------------------

    async def _answers(self, query: str, pair: Contest) -> tuple[str, str]:
        names = (pair.heavier.neuron, pair.lighter.neuron)
        tasks = [asyncio.ensure_future(self._answer(name, query)) for name in names]
        try:
            found = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        answers: list[str] = []
        for name, one in zip(names, found, strict=True):
            if not isinstance(one, str) or not one.strip():
                raise SelfPlaySkipped("no_contest", f"{name} gave no answer: {_what(one)}")
            answers.append(_nameless(one, names))
        return answers[0], answers[1]

    async def _answer(self, neuron: str, query: str) -> str:
        return await _within(self._limits.answer_seconds, self._neurons.answer(neuron, query))

    async def _judged(
        self, query: str, answers: tuple[str, str], *, swapped: bool
    ) -> tuple[Judgement | None, int | None]:
        """One judgement, its `first` being the heavier neuron's answer, and what it cost.

        None for a judgement that is none, and for a cost that nobody knows.
        """
        first, second = reversed(answers) if swapped else answers
        try:
            said: object = await _within(
                self._limits.critic_seconds, self._critic.judge(query, first, second)
            )
        except CriticError as error:
            log.warning("the critic %s failed: %s", self._critic.name, error)
            return None, max(0, error.cost)
        except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
            log.warning("the critic %s failed: %s", self._critic.name, _what(error))
            return None, None
        read, cost = _read(said)
        if read is None:
            log.warning("the critic %s answered nonsense", self._critic.name)
        elif swapped:
            read = Judgement(_OTHER[read.preferred], read.why, read.cost)
        return read, cost

    # ---- after ---------------------------------------------------------------------------------

    async def _result(
        self,
        pair: Contest,
        judgements: Sequence[Judgement],
        spent: int,
        context: str,
        scope: str,
        accepted: str | None,
    ) -> SelfPlayResult:
        if len({one.preferred for one in judgements}) > 1:
            raise SelfPlaySkipped(
                "critic_failed", "it preferred the answer that stood in one place, twice", spent
            )
        names = (pair.heavier.neuron, pair.lighter.neuron)
        winner, loser = names if judgements[0].preferred == "first" else names[::-1]
        result = SelfPlayResult(
            winner=winner,
            loser=loser,
            critic_verdict=_writable(judgements[0].why[:VERDICT_MAX]),
            critic_cost_micro_usd=spent,
            users_accepted_winner=None if accepted is None else accepted == winner,
            context=context,
            critic=self._critic.name,
            orders=len(judgements),
            event_id=str(uuid.uuid4()),
        )
        await self._publish(document_of(result, scope, self._clock.now()))
        return result


def document_of(result: SelfPlayResult, scope: str, time: int) -> bytes:
    """The event of a self-play that was completed."""
    data = {
        "scope": scope,
        "context": result.context,
        "winner": result.winner,
        "loser": result.loser,
        "critic": result.critic,
        "verdict": result.critic_verdict,
        "critic_cost_usd": decimal_of(result.critic_cost_micro_usd),
        "users_accepted_winner": result.users_accepted_winner,
    }
    return Author(SOURCE, result.event_id, time).write(SelfPlayCompletedEvent, data)


def _orders(pair: Contest, query: str, orders: int) -> list[bool]:
    """In which orders the answers are shown; which one comes first is as good as drawn by lot."""
    names = f"{pair.heavier.neuron}\n{pair.lighter.neuron}\n{query}"
    swapped = bool(hashlib.sha256(names.encode("utf-8", "surrogatepass")).digest()[0] & 1)
    return [swapped, not swapped][:orders]


async def _within(seconds: float, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work


def _nameless(answer: str, names: Sequence[str]) -> str:
    """An answer without the competitors' names, so that the critic cannot know them by these."""
    for name in names:
        answer = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", NOBODY, answer, flags=re.IGNORECASE)
    return answer


def _read(said: object) -> tuple[Judgement | None, int | None]:
    """A critic's answer, if it is one, and its cost, if that is one."""
    told = {name: getattr(said, name, None) for name in Judgement.__struct_fields__}
    try:
        read = msgspec.convert(told, Judgement)
    except msgspec.ValidationError:
        cost = told["cost"]
        return None, cost if type(cost) is int and cost >= 0 else None
    return read, read.cost


def _writable(text: str) -> str:
    """A text without the lone surrogates that no document may hold."""
    return text.encode("utf-8", "replace").decode()


def _what(one: object) -> str:
    """A failure or an odd answer in a few words; nothing of what it says but its kind."""
    if isinstance(one, TimeoutError):
        return "it took too long"
    return type(one).__name__
