"""Decisions on Kafka followed back to the facts: why one was made, and what rests on what.

Everything here reads whole topics; nothing here is for the way of a decision.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from trustfold_projections.laws.correlation import Key, KeyState, correlate, key_of, new_state
from trustfold_projections.laws.policy import Policy
from trustfold_projections.laws.policy.hindsight import (
    Differing,
    Impact,
    TakenBack,
    differing,
    impact,
)
from trustfold_schemas.decisions import Decision
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import LostPolicyError, UnknownNameError
from trustfold_schemas.events import RollbackLiftedEvent, SubjectRolledBackEvent, TraceEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.policy_events import TrustRevokedEvent
from trustfold_schemas.scores import Rollback
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.decisions import TOPIC, decision_from
from trustfold_streams.kafka.facts import entries_without, read_medians
from trustfold_streams.kafka.policy_log import PolicyLogOnKafka
from trustfold_streams.kafka.reading import TopicReader
from trustfold_streams.kafka.records import stamp_from
from trustfold_streams.kafka.scanning import scan
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.policy_hindsight import (
    Stored,
    acted,
    acted_before,
    subjects_of,
    why_of,
)
from trustfold_streams.policy_port import Impacts, Why


async def why(settings: KafkaSettings, decision_id: str) -> Why:
    """A decision, its step and feedback, and its state had again. Raises UnknownNameError."""
    found = [one for one in await read_decisions(settings) if one.decision_id == decision_id]
    if not found:
        raise UnknownNameError(f"no decision is named {decision_id!r}")
    decision, subject = found[0], found[0].action.subject
    entries = await TopicReader(settings).entries(subject)
    stored = entries[: decision.verdict.version]
    facts, derived = await _derived(settings, decision)
    by_name = {entry.entry_id: entry for entry in derived}
    policies = await _policies(settings, {decision.verdict.policy_version})
    return why_of(
        decision,
        facts,
        [Stored(f"ledger entry {entry.entry_id}", entry) for entry in stored],
        [by_name[one.entry_id] for one in stored if one.entry_id in by_name],
        _one_of(policies, decision),
        (),
        lambda entry: entry.entry_id,
    )


async def impact_of(settings: KafkaSettings, name: str) -> Impacts:
    """The promotions that a trace's steps acted by, and those that rested on its evidence.

    `name` is a trace, or an event: feedback means its trace, a rollback its interval, a revocation
    what those whom it names did before, any other event of no trace its own entries. Raises
    UnknownNameError.
    """
    made = await read_decisions(settings)
    trace_id, what = name, f"trace {name}"
    facts = await _facts_of(settings, name)
    asked = [decision for decision in made if decision.action.trace_id == name]
    if not facts and not asked:
        fact = await _fact_named(settings, name)
        event = fact.event
        if isinstance(event, TrustRevokedEvent):
            return await _impact_of_revocation(settings, name, fact, made)
        if isinstance(event, SubjectRolledBackEvent | RollbackLiftedEvent):
            return await _impact_of_rollback(settings, name, event, made)
        if not isinstance(event, TraceEvent):
            entries = await _entries_of_event(settings, name)
            taken = TakenBack(event_id=name)
            rested = [await _rested(settings, subject, made, taken) for subject in entries]
            return _impacts(name, f"event {name}", (), rested)
        trace_id, what = event.data.trace_id, f"event {name} of trace {event.data.trace_id}"
        facts = await _facts_of(settings, trace_id)
        asked = [decision for decision in made if decision.action.trace_id == trace_id]
    taken = TakenBack(trace_id=trace_id)
    rested = [await _rested(settings, subject, made, taken) for subject in subjects_of(facts)]
    return _impacts(name, what, tuple(acted(asked, facts)), rested)


async def impact_of_rollback(settings: KafkaSettings, subject: Subject, to: int) -> list[Impact]:
    """The promotions that rested on what a rollback to a moment, made now, would take back."""
    taken = TakenBack(rollback=Rollback("", to, 2**62))
    return await _rested(settings, subject, await read_decisions(settings), taken)


async def differing_without(
    settings: KafkaSettings, subject: Subject, name: str
) -> list[Differing]:
    """A subject's decisions that would differ had an event or a trace never been."""
    entries = await TopicReader(settings).entries(subject)
    other = await entries_without(settings, subject, entries, name)
    made = await read_decisions(settings)
    own = [decision for decision in made if decision.action.subject == subject]
    policies = await _policies(settings, {one.verdict.policy_version for one in own})
    return differing([(one, _one_of(policies, one)) for one in own], entries, other)


async def read_decisions(settings: KafkaSettings) -> list[Decision]:
    """All decisions, those of a trace in the order of the log."""
    made = [
        decision_from(record) async for record in scan(settings, TOPIC, range(settings.partitions))
    ]
    return [decision for decision in made if decision is not None]


def _impacts(
    name: str, what: str, own: tuple[Decision, ...], rested: Sequence[Sequence[Impact]]
) -> Impacts:
    every = tuple(one for of_subject in rested for one in of_subject)
    return Impacts(name=name, what=what, acted=own, rested=every)


async def _impact_of_rollback(
    settings: KafkaSettings,
    name: str,
    event: SubjectRolledBackEvent | RollbackLiftedEvent,
    made: Sequence[Decision],
) -> Impacts:
    rollback_id = name if isinstance(event, SubjectRolledBackEvent) else event.data.rollback_id
    subject = event.data.subject
    (interval,) = [
        Rollback(rollback_id, entry.to, entry.recorded)
        for entry in await TopicReader(settings).entries(subject)
        if entry.kind == "rollback" and entry.event_id == rollback_id and entry.to is not None
    ]
    rested = await _rested(settings, subject, made, TakenBack(rollback=interval))
    return _impacts(name, f"rollback {rollback_id} of {subject}", (), [rested])


async def _impact_of_revocation(
    settings: KafkaSettings, name: str, fact: Fact, made: Sequence[Decision]
) -> Impacts:
    asked = {decision.action.trace_id for decision in made}
    facts: defaultdict[str, list[Fact]] = defaultdict(list)
    async for _, one in _facts(settings):
        key = key_of(one.event)
        if key.kind == "trace" and key.name in asked:
            facts[key.name].append(one)
    in_order = sorted(made, key=lambda one: (one.recorded, one.decision_id))
    own = acted_before(fact, in_order, lambda trace_id: facts[trace_id])
    return _impacts(name, f"revocation {name}", tuple(own), ())


async def _rested(
    settings: KafkaSettings, subject: Subject, made: Sequence[Decision], taken: TakenBack
) -> list[Impact]:
    own = [decision for decision in made if decision.action.subject == subject]
    if not own:
        return []
    entries = await TopicReader(settings).entries(subject)
    policies = await _policies(settings, {one.verdict.policy_version for one in own})
    return impact([(one, _one_of(policies, one)) for one in own], entries, taken)


async def _entries_of_event(settings: KafkaSettings, event_id: str) -> list[Subject]:
    """The subjects of the entries that an event made."""
    found = {
        entry.subject
        async for _, _, _, entry in TopicReader(settings).ledger()
        if entry.event_id == event_id
    }
    return sorted(found)


# ---- policies and facts --------------------------------------------------------------------------


async def _policies(settings: KafkaSettings, versions: set[int]) -> dict[int, Policy]:
    """The policy at each of these versions."""
    log, made = PolicyLogOnKafka(settings), {0: Policy()}
    async for record in scan(settings, "policy", [0]):
        log.take(record)
        if log.policy.version in versions:
            made[log.policy.version] = log.policy
    return made


def _one_of(policies: dict[int, Policy], decision: Decision) -> Policy:
    policy = policies.get(decision.verdict.policy_version)
    if policy is None:
        raise LostPolicyError(
            f"the decision {decision.decision_id} rests on version "
            f"{decision.verdict.policy_version} of the policy, which its log does not reach"
        )
    return policy


async def _facts(settings: KafkaSettings) -> AsyncIterator[tuple[int, Fact]]:
    """Every fact with its partition; moments are those that correlation gave them."""
    recorded: dict[int, int] = defaultdict(int)
    async for record in scan(settings, "facts", range(settings.partitions)):
        p, body = record.partition, record.value or b""
        recorded[p] = max(recorded[p], record.timestamp * 1_000)
        event = decode_event(body)
        yield p, Fact(record.offset, recorded[p], stamp_from(record.headers), event, body)


async def _facts_of(settings: KafkaSettings, trace_id: str) -> list[Fact]:
    key = Key("trace", trace_id)
    return [fact async for _, fact in _facts(settings) if key_of(fact.event) == key]


async def _fact_named(settings: KafkaSettings, event_id: str) -> Fact:
    """The first fact of a name; those of the policy stand in a log of their own."""
    named = [fact async for _, fact in _facts(settings) if fact.event.id == event_id]
    if not named:
        log = PolicyLogOnKafka(settings)
        said = [log.take(record) async for record in scan(settings, "policy", [0])]
        named = [fact for fact in said if fact is not None and fact.event.id == event_id]
    if not named:
        raise UnknownNameError(f"no event and no trace of the log is named {event_id!r}")
    return named[0]


async def _derived(settings: KafkaSettings, decision: Decision) -> tuple[list[Fact], list[Entry]]:
    """The facts of a decision's trace, and all entries of its subject as the facts give them."""
    own = Key("trace", decision.action.trace_id)
    subject = decision.action.subject
    medians = await read_medians(settings)
    facts: list[Fact] = []
    entries: list[Entry] = []
    states: dict[Key, KeyState] = {}
    async for _, fact in _facts(settings):
        key = key_of(fact.event)
        if key == own:
            facts.append(fact)
        state = states.get(key)
        if state is None:
            state = states[key] = new_state(key)
        # What the stage refused as too old makes entries here that no ledger has: none is used.
        made = correlate(state, fact, medians).entries
        entries += [entry for entry in made if entry.subject == subject]
    return facts, entries
