"""The table `thresholds`: what the log `policy` has set, as it is now.

A cache like `scores`: whatever it says can be told from the facts again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from trustfold_projections.laws.correlation import Key, correlate, key_of, new_state
from trustfold_projections.laws.correlation.singles import PolicyState
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.facts import Fact
from trustfold_schemas.policy_events import PolicyEvent, ThresholdRemovedEvent, ThresholdSetEvent
from trustfold_streams.embedded import rows

COLUMNS = (
    "effect, risk_band, min_score_ppm, min_samples, min_grants, min_approval_rate_ppm, "
    "cap_autonomy, version, recorded"
)


def apply(connection: sqlite3.Connection, fact: Fact, version: int) -> None:
    """Write what an accepted fact of `policy` changes; others change nothing here."""
    event = fact.event
    if isinstance(event, ThresholdSetEvent):
        connection.execute(
            f"INSERT OR REPLACE INTO thresholds ({COLUMNS}) VALUES ({', '.join('?' * 9)})",
            threshold_row(event, fact.recorded, version),
        )
    elif isinstance(event, ThresholdRemovedEvent):
        connection.execute(
            "DELETE FROM thresholds WHERE effect = ? AND risk_band = ?",
            (event.data.effect, event.data.risk_band),
        )


def threshold_row(event: ThresholdSetEvent, recorded: int, version: int) -> rows.Row:
    """A threshold as COLUMNS."""
    data = event.data
    return (
        data.effect,
        data.risk_band,
        int(data.min_score),
        data.min_samples,
        data.min_grants,
        int(data.min_approval_rate),
        data.cap_autonomy,
        version,
        recorded,
    )


def stored(connection: sqlite3.Connection) -> dict[tuple[str, str], rows.Row]:
    """The table as it stands, by (effect, risk_band)."""
    return {
        (row[0], row[1]): row for row in connection.execute(f"SELECT {COLUMNS} FROM thresholds")
    }


def derived(facts: Iterable[Fact]) -> dict[tuple[str, str], rows.Row]:
    """The table as the facts of `policy` give it, in log order."""
    states: dict[Key, PolicyState] = {}
    made: dict[tuple[str, str], rows.Row] = {}
    for fact in facts:
        if not isinstance(fact.event, PolicyEvent):
            continue
        key = key_of(fact.event)
        if key not in states:
            fresh = new_state(key)
            assert isinstance(fresh, PolicyState)
            states[key] = fresh
        outcome = correlate(states[key], fact, MedianTable())
        event = fact.event
        if outcome.remembered and isinstance(event, ThresholdSetEvent):
            row = threshold_row(event, fact.recorded, states[key].version)
            made[(event.data.effect, event.data.risk_band)] = row
        elif outcome.remembered and isinstance(event, ThresholdRemovedEvent):
            made.pop((event.data.effect, event.data.risk_band), None)
    return made


OF_POLICY = (
    "facts WHERE type IN ('threshold.set.v1', "
    "'threshold.removed.v1', 'effect.declared.v1', 'effect.removed.v1', "
    "'trust.revoked.v1', 'trust.reinstated.v1', 'policy.mode.v1')"
)
"""Where the log `policy` stands, in the words of its index."""


def read_policy(connection: sqlite3.Connection, after: int = 0) -> list[Fact]:
    """The facts of the log `policy` recorded after a moment, in log order."""
    return [
        rows.fact_of(row)
        for row in connection.execute(
            f"SELECT {rows.FACT_COLUMNS} FROM {OF_POLICY} AND recorded > ? ORDER BY recorded",
            (after,),
        )
    ]


def last_of_policy(connection: sqlite3.Connection) -> int:
    """When the last fact of the log `policy` was recorded; 0 if there is none."""
    (moment,) = connection.execute(f"SELECT coalesce(max(recorded), 0) FROM {OF_POLICY}").fetchone()
    return int(moment)


def rewrite(connection: sqlite3.Connection) -> int:
    """Make the table what the facts give; how many rows were wrong."""
    expected, found = derived(read_policy(connection)), stored(connection)
    wrong = {name for name in {*expected, *found} if expected.get(name) != found.get(name)}
    connection.executemany(
        "DELETE FROM thresholds WHERE effect = ? AND risk_band = ?", sorted(wrong)
    )
    connection.executemany(
        f"INSERT INTO thresholds ({COLUMNS}) VALUES ({', '.join('?' * 9)})",
        [expected[name] for name in sorted(wrong) if name in expected],
    )
    return len(wrong)
