"""The agent `watch` by itself: crossings, drift by the evidence's own clock, and repetition."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.agents.messages import SETTINGS, Bench, Message
from trustfold_projections.laws.time_weights import g
from trustfold_schemas.instants import DAY, HOUR
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.agents import watch
from trustfold_streams.agents.watch import STEP, WatchAgent, Watched, WatchRecord, look
from trustfold_streams.kafka.records import POSITION
from trustfold_streams.kafka.score_records import Position, pack_score

T = 1_780_012_800_000_000  # 2026-05-29
SUBJECT = Subject("", "shell", "exec")
PPM = 10**6


def state(version: int, raw_score: float, moment: int | None = T) -> State:
    """A subject's state with this raw_score: its tool_success alone makes the difference.

    raw_score = 0.3 tool_success + 0.125 + 0.1 + 0.15 constitution_clean + 0.1, where
    constitution_clean is 1 up to 0.775 and tool_success the rest.
    """
    tool = round((raw_score - 0.475) / 0.3 * PPM)
    assert 0 <= tool <= PPM
    weight = g(T)
    return State(
        subject=SUBJECT,
        num=[tool * weight, 0, 0, PPM * weight, 0],
        den=[weight, 0, 0, weight, weight],
        n_samples=1,
        last_updated=moment,
        version=version,
    )


def looks(*states: State) -> tuple[Watched, list[WatchRecord]]:
    """What was found on the way through these scores."""
    known: Watched | None = None
    found: list[WatchRecord] = []
    for one in states:
        new = look(known, one)
        if new is not None:
            known = new[0]
            found += new[1]
    assert known is not None
    return known, found


def told(found: list[WatchRecord]) -> list[tuple[Any, ...]]:
    """Kind, threshold and direction of each finding."""
    return [(one.kind, one.threshold, one.direction) for one in found]


# ---- crossings -----------------------------------------------------------------------------------


def test_a_crossing_names_the_threshold_and_both_scores() -> None:
    """From 0.6 to 0.7 the threshold 0.65 is crossed upwards, and no other."""
    _, [found] = looks(state(1, 0.6), state(2, 0.7))
    assert told([found]) == [("crossed", 0.65, "up")]
    assert (round(found.before, 3), round(found.raw_score, 3)) == (0.6, 0.7)
    assert (found.version, found.moment) == (2, "2026-05-29T00:00:00.000000Z")


def test_a_leap_crosses_every_threshold_between() -> None:
    """From 0.77 to 0.48 all three are crossed downwards, each with an id of its own."""
    _, found = looks(state(1, 0.77), state(2, 0.48))
    assert told(found) == [("crossed", level, "down") for level in (0.5, 0.65, 0.75)]
    assert len({one.id for one in found}) == 3


@pytest.mark.parametrize(("first", "second"), [(0.6, 0.649), (0.66, 0.74), (0.48, 0.499)])
def test_within_a_band_nothing_is_told(first: float, second: float) -> None:
    """A score that stays between two thresholds crosses nothing."""
    assert looks(state(1, first), state(2, second))[1] == []


def test_the_first_score_crosses_nothing() -> None:
    """A subject that is seen for the first time has no score to come from."""
    assert looks(state(1, 0.77))[1] == []


# ---- drift ---------------------------------------------------------------------------------------


def test_drift_is_told_once() -> None:
    """0.1 more than a week earlier is told when it is reached, and not again while it lasts."""
    _, found = looks(
        state(1, 0.52),
        state(2, 0.55, T + 3 * DAY),
        state(3, 0.62, T + 7 * DAY),
        state(4, 0.63, T + 8 * DAY),
    )
    assert told(found) == [("drifted", None, "up")]
    assert found[0].before_at == "2026-05-29T00:00:00.000000Z"
    assert round(found[0].before, 3) == 0.52


def test_drift_by_exactly_the_bound_counts() -> None:
    """Where doubles would say 0.0999...8, a tenth is a tenth; a thousandth less is not."""
    assert watch._drift(0.6, 0.5) == "up"
    assert watch._drift(0.5, 0.6) == "down"
    assert watch._drift(0.599, 0.5) is None


def test_drift_back_is_told_again() -> None:
    """What drifted up, came to rest and drifts down is told in the other direction."""
    _, found = looks(
        state(1, 0.52),
        state(2, 0.64, T + 7 * DAY),
        state(3, 0.64, T + 14 * DAY),
        state(4, 0.53, T + 21 * DAY),
    )
    assert told(found) == [("drifted", None, "up"), ("drifted", None, "down")]


def test_the_clock_is_the_evidences() -> None:
    """However many scores come, without a week of evidence there is no week earlier."""
    steady = [state(n, 0.52 + 0.01 * n, T + n * HOUR) for n in range(1, 13)]
    assert looks(*steady)[1] == []
    assert looks(*(state(n, 0.52 + 0.01 * n, None) for n in range(1, 13)))[1] == []


def test_brakes_and_grants_move_the_clock_too() -> None:
    """A failing subject has no clean evidence; what else its score tells of counts as time."""
    late = state(2, 0.51)
    late.last_bad_at = T + 7 * DAY
    assert told(looks(state(1, 0.62), late)[1]) == [("drifted", None, "down")]


def test_a_week_of_samples_is_kept_and_no_more() -> None:
    """A year of hourly scores leaves one sample a step, and the last one before the week."""
    known: Watched | None = None
    for n in range(24 * 60):
        new = look(known, state(n + 1, 0.6, T + n * HOUR))
        assert new is not None
        known = new[0]
    assert known is not None
    assert len(known.samples) <= 7 * DAY // STEP + 2
    assert known.samples[0].moment <= known.samples[-1].moment - 7 * DAY


def test_a_rollback_that_turns_the_clock_back_is_no_drift_of_its_own() -> None:
    """After a rollback the evidence ends earlier; the week is still counted from its latest."""
    known, found = looks(state(1, 0.6), state(2, 0.6, T + 8 * DAY), state(3, 0.62, T + 2 * DAY))
    assert found == []
    assert known.samples[-1].moment == T + 8 * DAY


# ---- repetition ----------------------------------------------------------------------------------


def test_a_version_that_was_seen_is_nothing() -> None:
    """The same score again, or an older one, changes nothing and tells nothing."""
    known, _ = looks(state(5, 0.6))
    assert look(known, state(5, 0.7)) is None
    assert look(known, state(4, 0.7)) is None


def message(offset: int, one: State, **changed: Any) -> Message:
    """A record of `scores`."""
    record = pack_score(one, Position(offset, 0))
    return Message("p.scores", 0, offset, T / 1e6, one.subject.key, record)._replace(**changed)


def bench() -> Bench:
    """The agent on a bench."""
    return Bench(lambda table, send: WatchAgent(SETTINGS, table, send))


def test_a_finding_is_never_lost() -> None:
    """If the process ends before its row is durable, the finding comes again under the same id."""
    found = bench()
    found.take(message(0, state(1, 0.6)))
    found.table.lost = True
    found.take(message(1, state(2, 0.7)))
    found.table.lost = False
    found.restart()
    found.take(message(0, state(1, 0.6)), message(1, state(2, 0.7)), message(1, state(2, 0.7)))
    ids = [msgspec.json.decode(one.value)["id"] for one in found.written]
    assert ids == ['["","shell","exec"]/2/crossed/0.65'] * 2
    assert found.agent.tally.repeated == 2


@pytest.mark.parametrize(
    "poison",
    [
        {"value": b"{}"},
        {"value": b"\xff"},
        {
            "value": pack_score(state(2, 0.7), Position(1, 0)).replace(
                b'"version":2', b'"version":3'
            )
        },
        {"key": b"somebody else"},
    ],
)
def test_a_poison_record_is_counted_and_the_next_one_is_taken(poison: dict[str, bytes]) -> None:
    """A score that is corrupt or stands under another key is passed over; the next one counts."""
    found = bench()
    found.take(
        message(0, state(1, 0.6)), message(1, state(2, 0.7), **poison), message(2, state(3, 0.7))
    )
    assert found.agent.tally.poison == 1
    assert [msgspec.json.decode(one.value)["version"] for one in found.written] == [3]


def test_the_workers_own_rows_are_passed_over() -> None:
    """Positions and deletions are no scores."""
    found = bench()
    found.take(
        message(0, state(1, 0.6), key=POSITION),
        message(1, state(2, 0.7), value=None),
    )
    assert (found.agent.tally.ignored, found.table.rows) == (2, {})
