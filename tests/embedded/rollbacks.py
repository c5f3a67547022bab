"""Hypothesis strategies for histories in which subjects are rolled back and rollbacks lifted.

Each document is ingested at `recorded_at` of its position, so that a rollback can name moments
of the log: before all of it, at a fact, between two, and (to be refused) after itself.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.oracles.histories import (
    ACTIONS,
    NEURONS,
    OUTCOMES,
    RECORDED_FROM,
    SCOPES,
    Data,
    Draft,
    Draw,
    recorded_at,
    rfc3339,
    tame_histories,
    wild_histories,
)

NAMES = (*ACTIONS, *ACTIONS, *(("runtime", outcome) for outcome in OUTCOMES))
SUBJECTS = [[scope, *name] for scope in SCOPES for name in NAMES] + [
    ["", f"neuron:{name}", "invoke"] for name in NEURONS
]


def _said(kind: str, event_id: str, data: Data) -> Draft:
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": "ops",
        "type": f"trustfold.{kind}.v1",
        "time": rfc3339(RECORDED_FROM),
        "data": {**data, "by": "oscar", "why": "checked by hand"},
    }
    return ("operator", None, None, event)


@st.composite
def rolled_back_histories(draw: Draw) -> list[Draft]:
    """A history of the oracle with one to six rollbacks and liftings among its facts."""
    history: list[Draft] = draw(st.one_of(tame_histories(), wild_histories()))
    count = draw(st.integers(1, 6))
    last = len(history) + count - 1
    places = sorted(draw(st.lists(st.integers(0, last), min_size=count, max_size=count)))
    made: list[tuple[list[str], str]] = []
    for number, place in enumerate(places):
        history.insert(place, draw(_rolling(number, min(place, len(history)), made)))
    return history


@st.composite
def _rolling(draw: Draw, number: int, place: int, made: list[tuple[list[str], str]]) -> Draft:
    if made and draw(st.integers(0, 2)) == 0:
        subject, rollback_id = draw(st.sampled_from(made))
        if draw(st.integers(0, 5)) == 0:
            rollback_id = "unheard-of"
        data = {"subject": subject, "rollback_id": rollback_id}
        return _said("rollback.lifted", f"lift{number}", data)
    subject = draw(st.sampled_from(SUBJECTS))
    to = recorded_at(draw(st.integers(-1, place))) + draw(st.sampled_from((0, 0, 0, -1, 1)))
    made.append((subject, f"roll{number}"))
    return _said("subject.rolled_back", f"roll{number}", {"subject": subject, "to": rfc3339(to)})
