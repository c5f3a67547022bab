"""`trustfold self-play`: whether two neurons should play, and who won, in JSON for any runtime."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated

import click
from msgspec import Meta, Struct, field

from trustfold_projections.laws.policy import Policy
from trustfold_projections.laws.self_play import (
    INITIAL,
    SkippedVia,
    Synapse,
    contest,
    irreversible,
    neighbors,
    orders_within,
)
from trustfold_schemas.amounts import MicroUsd
from trustfold_schemas.documents import decimal_of
from trustfold_schemas.events import Id, NeuronName, Reversibility, SelfPlayCompleted
from trustfold_schemas.instants import Instant
from trustfold_schemas.subject import Effect, Scope
from trustfold_streams.cli.documents import decoder, publish, read_lines
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import print_json, say
from trustfold_streams.cli.synapse import read_states
from trustfold_streams.self_play.coordinator import SelfPlayResult, document_of
from trustfold_streams.self_play.declared import declared

Touched = Mapping[str, Mapping[str, Reversibility | None]]


class Candidate(Struct, frozen=True, forbid_unknown_fields=True):
    """A neuron that could answer, and the effect classes that it touches."""

    neuron: NeuronName
    effects: tuple[Effect, ...] = ()


class Question(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `plan` is asked: who could answer, who would judge, and the money that is left."""

    context: Id
    candidates: Annotated[tuple[Candidate, ...], Meta(max_length=1_000)]
    critic: NeuronName
    critic_cost_usd: MicroUsd
    budget_usd: MicroUsd
    scope: Scope = ""


class Plan(Struct, frozen=True, kw_only=True):
    """What `plan` answers. `use` is the candidate of the greatest weight, whoever plays."""

    play: bool
    use: str | None
    weights: dict[str, int]
    via: SkippedVia | None = None
    detail: str | None = None
    competitors: list[str] = field(default_factory=list)
    orders: int = 0


class Played(Struct, frozen=True, kw_only=True):
    """What `record` takes: the data of `selfplay.completed`, and id and time of its event."""

    context: Id
    winner: NeuronName
    loser: NeuronName
    critic: NeuronName
    verdict: str
    critic_cost_usd: MicroUsd
    scope: Scope = ""
    users_accepted_winner: bool | None = None
    id: Id | None = None
    time: Instant | None = None

    def __post_init__(self) -> None:
        SelfPlayCompleted(  # refuses a critic that competes
            self.context,
            self.winner,
            self.loser,
            self.critic,
            self.verdict,
            self.critic_cost_usd,
            self.scope,
            self.users_accepted_winner,
        )


@click.group("self-play")
def self_play() -> None:
    """Let neurons play against each other: ask whether to (`plan`), and tell who won (`record`).

    The runtime asks the neurons and the critic; the critic sees the answers without names, in as
    many orders as the plan says.
    """


@self_play.command("plan")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Exit 1 if nobody is to play.")
@store_option
@json_option
@click.pass_obj
def plan(settings: Settings, files: tuple[str, ...], check: bool, as_json: bool) -> int:
    """Say whether two neurons should play, and which.

    FILE has one question a line (`-` is standard input):

    \b
    {"context": "budget", "scope": "", "critic": "judge",
     "critic_cost_usd": 0.01, "budget_usd": 1,
     "candidates": [{"neuron": "alpha", "effects": ["fs_read:./*"]}, {"neuron": "beta"}]}

    Nobody plays with via no_contest (no two of them are close), irreversible (one touches an
    effect that is not declared reversible) or budget.
    """  # noqa: D301 - click's own mark for lines that stay as they are
    questions = list(read_lines(files, decoder(Question)))
    policy, states = _known(settings)
    answers: list[Plan] = []
    for question in questions:
        touched = {one.neuron: declared(policy, one.effects) for one in question.candidates}
        answers.append(_plan(question, states.get(question.context, Synapse()), touched))
    for answer in answers:
        if as_json:
            print_json(answer)
        elif answer.play:
            first, second = answer.competitors
            say(f"play: {first} against {second}, judged in {answer.orders} orders")
        else:
            say(f"skip, via {answer.via}: {answer.detail}; use {answer.use or 'nobody'}")
    return int(check and not all(answer.play for answer in answers))


@self_play.command("record")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@store_option
@json_option
@click.pass_obj
def record(settings: Settings, files: tuple[str, ...], as_json: bool) -> int:
    """Publish who won, one self-play a line: it moves the synapse and the winner's score.

    \b
    {"context": "budget", "winner": "beta", "loser": "alpha", "critic": "judge",
     "verdict": "shorter", "critic_cost_usd": 0.01, "users_accepted_winner": true,
     "id": "s1", "time": "2026-04-22T12:00:00Z"}

    The last three may be left out: without an id each line is new, without a time it is now. The
    same line with both again is a duplicate.
    """  # noqa: D301 - click's own mark for lines that stay as they are
    told = list(read_lines(files, decoder(Played)))
    with settings.open("create") as store:
        for one in told:
            result = SelfPlayResult(
                winner=one.winner,
                loser=one.loser,
                critic_verdict=one.verdict,
                critic_cost_micro_usd=one.critic_cost_usd,
                users_accepted_winner=one.users_accepted_winner,
                context=one.context,
                critic=one.critic,
                orders=1,
                event_id=one.id or str(uuid.uuid4()),
            )
            time = store.clock.now() if one.time is None else one.time
            publish(store, document_of(result, one.scope, time), settings.stamp)
            if as_json:
                print_json({"event_id": result.event_id, "winner": one.winner})
            else:
                say(f"{one.winner} won against {one.loser}: event {result.event_id}")
    return 0


def _known(settings: Settings) -> tuple[Policy, Mapping[str, Synapse]]:
    """The policy and the weights of a store; none where there is no file yet."""
    if not settings.on_kafka and not settings.on_archive and not settings.path.exists():
        return Policy(), {}
    with settings.open_policy("read") as policy:
        return policy.in_force(), read_states(settings)


def _plan(question: Question, state: Synapse, touched: Touched) -> Plan:
    played = dict(neighbors(state, question.scope))
    names = [one.neuron for one in question.candidates]
    weights = {name: played.get(name, INITIAL) for name in names if name != question.critic}
    use = min(weights, key=lambda name: (-weights[name], name), default=None)

    def skip(via: SkippedVia, detail: str) -> Plan:
        return Plan(play=False, use=use, weights=weights, via=via, detail=detail)

    pair = contest(names, played, question.critic)
    if pair is None:
        return skip("no_contest", f"no two of {len(names)} candidates are close")
    if (found := irreversible(touched)) is not None:
        return skip("irreversible", f"{found[0]} touches {found[1]}: {found[2] or 'unknown'}")
    orders = orders_within(question.critic_cost_usd, question.budget_usd)
    if not orders:
        cost = decimal_of(question.critic_cost_usd)
        return skip("budget", f"a judgement may cost {cost} USD")
    return Plan(
        play=True,
        use=use,
        weights=weights,
        competitors=[pair.heavier.neuron, pair.lighter.neuron],
        orders=orders,
    )
