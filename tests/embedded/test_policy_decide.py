"""Decisions in a file: recorded before they are given, the same answer to the same question."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.embedded.asking import Office
from tests.embedded.documents import NOTES, SHELL, decided
from trustfold_schemas.decisions import Action, ReasonCode
from trustfold_schemas.errors import NotPermittedError
from trustfold_schemas.facts import Role, Stamp
from trustfold_schemas.instants import DAY, HOUR, SECOND
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore


@pytest.fixture
def office(store: EmbeddedStore, clock: ManualClock) -> Office:
    """A store that promotes writes with three grants."""
    made = Office(store, clock)
    made.rules()
    return made


def test_a_subject_that_earned_it_is_allowed(office: Office) -> None:
    """Enough grants, a declared effect, the mode enforce: it may act without asking."""
    assert office.ask("s0").verdict.reasons[0] is ReasonCode.NO_HISTORY
    office.earned()
    decision = office.ask()
    assert (decision.verdict.verdict, decision.verdict.via) == ("allow", "trust_promoted")
    assert len(bytes.fromhex(decision.decision_id)) == 16


def test_a_decision_is_in_the_file_before_it_is_given(office: Office, path: Path) -> None:
    """Another connection reads it, whole, as soon as the call has returned."""
    office.earned()
    decision = office.ask()
    with EmbeddedStore.open(path, "read", clock=office.clock) as other:
        assert other.policy.decisions(NOTES) == [decision]


def test_the_same_question_gets_the_recorded_decision(office: Office) -> None:
    """Same trace, step, subject and fingerprint within a day; anything else is another question."""
    office.earned()
    first = office.ask()
    assert office.ask() == first
    for other in (
        office.ask(step_id="s2"),
        office.ask(trace_id="later"),
        office.ask(fingerprint="f2"),
        office.ask(fingerprint=None),
        office.ask(subject=SHELL),
    ):
        assert other.decision_id != first.decision_id
    office.clock.advance(DAY)
    assert office.ask().decision_id != first.decision_id


def test_a_refusal_stands_for_a_day_whatever_is_claimed_later(office: Office) -> None:
    """The answer that a person must be asked is not taken back by asking again."""
    first = office.ask(said="irreversible")
    office.earned()
    assert office.ask(said="reversible") == first


@pytest.mark.parametrize("what", ["revoked", "braked", "stricter", "shadow"])
def test_an_allow_is_given_again_only_while_it_would_be_one(office: Office, what: str) -> None:
    """What happened since counts: the second answer is a new decision, and asks."""
    office.earned()
    first = office.ask()
    if what == "revoked":
        office.say("trust.revoked")
    elif what == "braked":
        office.ingest(decided("x", "denied", time=office.clock.now(), subjects=[NOTES]))
    elif what == "shadow":
        office.say("policy.mode", mode="shadow")
    again = office.ask(said="irreversible" if what == "stricter" else "reversible")
    assert first.verdict.verdict == "allow"
    assert again.verdict.verdict == "approve_required"
    assert again.decision_id != first.decision_id
    assert office.ask() == again


def test_only_runtimes_decide(office: Office, path: Path, clock: ManualClock) -> None:
    """Other roles may peek; a runtime asks only about its own scopes."""
    action = Action(NOTES, "reversible", "t", "s")
    roles: tuple[Role, ...] = ("human", "operator")
    for role in roles:
        with (
            EmbeddedStore.open(path, stamp=Stamp(role), clock=clock) as store,
            pytest.raises(NotPermittedError, match=f"from the role {role}"),
        ):
            store.policy.decide(action)
    with EmbeddedStore.open(path, stamp=Stamp("runtime", "r", ("team",)), clock=clock) as store:
        with pytest.raises(NotPermittedError, match="Expected a scope"):
            store.policy.decide(action)
        team = Subject("team", *NOTES[1:])
        made = store.policy.decide(Action(team, "reversible", "t", "s"))
    assert made.verdict.reason is ReasonCode.NO_HISTORY
    with EmbeddedStore.open(path, "read", clock=clock) as store:
        assert store.policy.peek(NOTES, "reversible").reason is ReasonCode.NO_HISTORY


def test_a_peek_records_nothing_and_says_the_same(office: Office) -> None:
    """It is what `decide` would answer, spot checks apart."""
    office.earned()
    peeked = office.store.policy.peek(NOTES, "reversible")
    assert office.store.policy.decisions(NOTES) == []
    decided_now = office.ask()
    assert (peeked.verdict, peeked.digest) == ("allow", decided_now.verdict.digest)


def test_a_spot_check_is_owed_until_a_person_grants(office: Office) -> None:
    """Another step, fingerprint or claim in the same trace does not get round it."""
    office.earned()
    office.say("policy.mode", mode="enforce", spot_check_one_in=1)
    checked = office.ask()
    assert checked.verdict.reason is ReasonCode.SPOT_CHECK
    office.say("policy.mode", mode="enforce", spot_check_one_in=0)
    owed = office.ask(step_id="s2", fingerprint="f2")
    assert (owed.verdict.reason, owed.owed_to) == (ReasonCode.SPOT_CHECK, checked.decision_id)
    assert office.ask(trace_id="other").verdict.verdict == "allow"
    office.ingest(decided("now", time=office.clock.now(), subjects=[NOTES]))
    assert office.ask(step_id="s3").verdict.verdict == "allow"


def test_a_corrupt_record_is_no_trust(office: Office, path: Path) -> None:
    """A score that was changed in the file promotes nobody, and is named."""
    office.earned()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE scores SET content = replace(content, '\"5\"', '\"6\"')")
    decision = office.ask()
    assert decision.verdict.reason is ReasonCode.CORRUPT
    assert decision.verdict.digest is None


def test_a_clock_set_back_revives_no_dead_evidence(office: Office) -> None:
    """A decision is never made at a moment before what the log has recorded."""
    office.earned()
    office.clock.advance(400 * DAY)
    office.threshold("fs_write:*", "reversible", min_samples=3)
    assert ReasonCode.TOO_FEW_SAMPLES in office.ask("s1").verdict.reasons
    office.clock.advance(-400 * DAY)
    assert ReasonCode.TOO_FEW_SAMPLES in office.ask("s2").verdict.reasons


def test_decisions_of_another_process_count(office: Office, path: Path) -> None:
    """Two stores on one file give one answer, and see what the other one has set."""
    office.earned()
    first = office.ask()
    with EmbeddedStore.open(path, clock=office.clock) as other:
        assert other.policy.decide(first.action) == first
        other.policy.in_force()
        office.say("trust.revoked")
        assert other.policy.decide(first.action).verdict.reason is ReasonCode.REVOKED


def test_decisions_stay(office: Office, path: Path) -> None:
    """The table refuses what would change or delete one."""
    office.ask()
    with sqlite3.connect(path) as connection:
        for statement in ("UPDATE decisions SET verdict = 'allow'", "DELETE FROM decisions"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def test_moments_grow_with_the_log(office: Office) -> None:
    """A decision is never recorded before the one before it."""
    first = office.ask("s1")
    office.clock.advance(-HOUR)
    second = office.ask("s2")
    assert (second.position, second.recorded >= first.recorded) == (2, True)
    assert second.recorded < first.recorded + SECOND
