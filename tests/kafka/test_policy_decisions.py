"""Which decision of the log answers a question: by its order, whoever wrote and however many."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tests.laws.policies import ASKED, NOTES, NOW, enforcing, perfect
from trustfold_projections.laws.policy import decide
from trustfold_schemas.decisions import Action, Decision, ReasonCode
from trustfold_schemas.instants import DAY, HOUR
from trustfold_streams.kafka.decisions import Asked, decision_from, decision_output
from trustfold_streams.kafka.records import partition_of
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

SETTINGS = KafkaSettings("localhost:9092", "t.", 3)


def made(name: str, answer: str = "allow", at: int = NOW, action: Action = ASKED) -> Decision:
    """A decision: an `allow`, one that asks, or a spot check."""
    rules = enforcing()
    state = None if answer == "ask" else perfect()
    verdict = decide(state, rules.policy, action, at, spot_checked=answer == "spot")
    return Decision(decision_id=name, recorded=at, position=-1, action=action, verdict=verdict)


def holding(*decisions: Decision) -> str | None:
    """The id of the one that holds after all of these."""
    asked = Asked()
    for decision in decisions:
        asked.take(decision)
    found = asked.before(ASKED, decisions[-1].recorded)
    return None if found is None else found.decision_id


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        ("allow", "allow", "one"),
        ("ask", "ask", "one"),
        ("ask", "allow", "one"),
        ("allow", "ask", "two"),
        ("spot", "allow", "one"),
    ],
)
def test_only_a_stricter_one_takes_the_place_of_the_first(
    first: str, second: str, holds: str
) -> None:
    """Within a day of each other."""
    assert holding(made("one", first), made("two", second, NOW + HOUR)) == holds


def test_after_a_day_a_question_is_a_new_one() -> None:
    """And what is older answers nothing."""
    asked = Asked()
    asked.take(made("one", "ask"))
    assert asked.before(ASKED, NOW + DAY - 1) is not None
    assert asked.before(ASKED, NOW + DAY) is None
    assert asked.take(made("two", "allow", NOW + DAY))
    assert asked.before(ASKED, NOW + DAY) is not None


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, step_id="s2"),
        replace(ASKED, trace_id="t2"),
        replace(ASKED, args_fingerprint=None),
        replace(ASKED, subject=NOTES._replace(scope="team")),
    ],
)
def test_another_question_has_its_own_answer(other: Action) -> None:
    """Trace, step, subject and fingerprint make a question; what is claimed of it does not."""
    asked = Asked()
    asked.take(made("one"))
    assert asked.before(other, NOW) is None
    assert asked.before(replace(ASKED, reversibility="irreversible"), NOW) is not None


def test_a_spot_check_is_owed_by_trace_and_subject() -> None:
    """Until a grant later than it, for a day."""
    asked, other = Asked(), replace(ASKED, step_id="s2", args_fingerprint="f2")
    asked.take(made("one", "spot"))
    assert asked.spot_check_owed(other, None, NOW) == "one"
    assert asked.spot_check_owed(other, NOW, NOW) == "one"
    assert asked.spot_check_owed(other, NOW + 1, NOW) is None
    assert asked.spot_check_owed(other, None, NOW + DAY) is None
    assert asked.spot_check_owed(replace(ASKED, trace_id="t2"), None, NOW) is None


def test_what_is_older_than_a_day_is_forgotten() -> None:
    """Memory holds a day of questions, those that were asked again with their latest answer."""
    asked = Asked()
    asked.take(made("one"))
    asked.take(made("two", "ask", NOW + HOUR))
    asked.take(made("three", "spot", NOW + HOUR, replace(ASKED, step_id="s2")))
    asked.forget(NOW + DAY)
    assert len(asked) == 2
    asked.forget(NOW + DAY + HOUR)
    assert len(asked) == 0


def test_a_record_comes_out_as_it_went_in() -> None:
    """Keyed by its trace, in that trace's partition; its position is its offset."""
    decision = replace(made("one", "spot"), stale="because", owed_to="zero")
    output = decision_output(SETTINGS, decision)
    assert (output.topic, output.key) == ("t.decisions", b"t1")
    assert output.partition == partition_of("t1", 3)
    record = Record("t.decisions", 1, 42, 0, output.key, output.value, output.headers)
    assert decision_from(record) == replace(decision, position=42)
    assert msgspec.json.decode(output.value or b"")["verdict"]["reason"] == ReasonCode.SPOT_CHECK


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff", b"[1]"])
def test_what_is_no_decision_answers_nothing(value: bytes | None) -> None:
    """A stranger's record in the topic is no decision, and stops nobody."""
    assert decision_from(Record("t.decisions", 0, 0, 0, None, value, ())) is None
