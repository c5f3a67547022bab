"""The table of peeks in memory: it follows the file, says what `decide` would, or is stale."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.embedded.asking import Office
from tests.embedded.documents import NOTES, SHELL, decided, step
from trustfold_schemas.decisions import ReasonCode
from trustfold_schemas.instants import SECOND
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.policy_table import PolicyTable


@pytest.fixture
def office(store: EmbeddedStore, clock: ManualClock) -> Office:
    """A store that promotes writes with two grants, some of them earned."""
    made = Office(store, clock)
    made.rules()
    made.earned()
    return made


@pytest.fixture
def table(office: Office, path: Path) -> Generator[PolicyTable]:
    """The table of that store."""
    made = PolicyTable.open(path, office.clock)
    yield made
    made.close()


def test_it_says_what_decide_would(office: Office, table: PolicyTable) -> None:
    """Every ground of the verdict is the same, but for the moment."""
    peeked = table.peek(NOTES, "reversible")
    assert peeked.verdict == "allow"
    assert peeked == office.store.policy.peek(NOTES, "reversible")
    assert table.peek(SHELL, None) == office.store.policy.peek(SHELL, None)
    assert len(table) == 2


def test_it_follows_what_changed_and_no_more(office: Office, table: PolicyTable) -> None:
    """Traces, brakes and rollbacks of other connections, and the policy."""
    assert table.refresh() == 0
    office.trace("shell", step("a", SHELL))
    assert table.refresh() == 2
    assert table.peek(SHELL, "reversible").n_samples == 1
    office.ingest(decided("x", "denied", time=office.clock.now(), subjects=[NOTES]))
    assert table.refresh() == 1
    assert table.peek(NOTES, "reversible").reason is ReasonCode.BRAKED
    office.store.rollback(SHELL, 0, "oscar", "a broken sensor")
    assert table.refresh() == 1
    assert table.peek(SHELL, "reversible").n_samples == 0
    office.say("trust.revoked")
    assert table.refresh() == 0
    assert table.peek(NOTES, "reversible").reason is ReasonCode.REVOKED
    assert table.policy.version == office.store.policy.in_force().version


def test_a_stale_table_promotes_nothing(office: Office, table: PolicyTable) -> None:
    """After 60 seconds without being caught up, and until it is."""
    office.clock.advance(60 * SECOND)
    assert table.peek(NOTES, "reversible").verdict == "allow"
    office.clock.advance(1)
    stale = table.peek(NOTES, "reversible")
    assert stale.reason is ReasonCode.STALE
    assert "this one was as of 2026-05-29T" in stale.missing
    table.refresh()
    assert table.peek(NOTES, "reversible").verdict == "allow"


def test_a_corrupt_record_is_no_trust(office: Office, path: Path) -> None:
    """It is named when it is loaded, promotes nothing, and leaves the others alone."""
    office.trace("shell", step("a", SHELL))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE scores SET digest = zeroblob(32) WHERE subject_id = "
            "(SELECT subject_id FROM subjects WHERE tool = ?)",
            (NOTES.tool,),
        )
    table = PolicyTable.open(path, office.clock)
    verdict = table.peek(NOTES, "reversible")
    assert (verdict.reason, verdict.digest) == (ReasonCode.CORRUPT, None)
    assert table.peek(SHELL, "reversible").n_samples == 1
    office.store.repair()
    office.trace("again")
    table.refresh()
    assert table.peek(NOTES, "reversible").verdict == "allow"
    table.close()


def test_a_clock_behind_the_log_revives_nothing(office: Office, path: Path) -> None:
    """The moment of a peek is never before what the log has recorded."""
    behind = ManualClock(office.clock.now() - 3600 * SECOND)
    table = PolicyTable.open(path, behind)
    assert table.peek(NOTES, "reversible").at == office.store.status().last_recorded
    table.close()
