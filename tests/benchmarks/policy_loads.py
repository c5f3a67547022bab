"""A population that a policy is asked about: subjects of every fate, and rules for all of them.

Half of the subjects are of users that share effect classes, half have a class of their own; one in
fifty has acted for a year. Some were granted, some denied, some undone, some fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Literal

from tests.benchmarks.loads import START
from trustfold_schemas import actions
from trustfold_schemas.decisions import BANDS, Threshold
from trustfold_schemas.documents import document
from trustfold_schemas.instants import DAY, HOUR
from trustfold_schemas.subject import Subject
from trustfold_streams.importers.declarations import shipped_declarations

NOW: Final = START + 30 * DAY
STEPS: Final = 50
"""Steps a trace, each of another subject, so that a million subjects are soon there."""
_REGULARS = 50
"""One trace in so many is closed again and again, over a year."""
_CLOSES_OF_REGULARS = 24

_EFFECTS = (
    "fs_read:./{}/*",
    "fs_read:~/{}/*",
    "fs_read:tmp/{}/*",
    "fs_read:./{}/src/*",
    "fs_write:./{}/*",
    "fs_write:~/{}/*",
    "fs_write:tmp/{}/*",
    "mcp_read:{}",
    "fs_delete:./{}/*",
    "db:{}",
)
"""Of every ten subjects, one of each; the last one is of a class that nothing declares."""

Write = Callable[[actions.Author], bytes]


def subject(number: int) -> Subject:
    """One of the population; those of every other trace share their classes with other users."""
    shared = number // STEPS % 2 == 0
    place = f"project{number % 1000 if shared else number}"
    effect = _EFFECTS[number % len(_EFFECTS)].format(place)
    return Subject(f"user{number // 1000}" if shared else "", effect.partition(":")[0], effect)


def rules() -> Iterator[Write]:
    """The policy: shipped declarations, some twenty thresholds, two caps, five revocations."""
    yield lambda one: actions.policy_mode(one, "enforce", "bench", "bench", 0)
    for said in shipped_declarations("bench"):
        yield partial(
            actions.effect_declared,
            effect=said.effect,
            reversibility=said.reversibility,
            by="bench",
            why="bench",
        )
    # Most subjects are young: what is read may be promoted after one good trace.
    for made in (
        *_thresholds("fs_read:*", 400_000, 0, 0),
        *_thresholds("fs_write:*", 500_000, 1, 1),
        *_thresholds("fs_write:./project1*", 300_000, 0, 0),
        *(
            made
            for n in range(2, 9)
            for made in _thresholds(f"mcp_read:project{n}*", 350_000, 0, n % 2)
        ),
        *_thresholds("fs_read:*/project77*", 650_000, 20, 0, "approve_required"),
        *_thresholds("db:*", 650_000, 20, 0, "approve_required"),
    ):
        yield partial(actions.threshold_set, threshold=made, by="bench", why="bench")
    for scope, tool, effect in (
        ("user7*", "mcp_*", "*"),
        ("user13", "fs_write", "*"),
        ("*", "*", "fs_read:*/project666*"),
        ("*", "*", "*secret*"),
        ("user99", "*", "*"),
    ):
        yield partial(
            actions.trust_revoked, by="bench", why="bench", scope=scope, tool=tool, effect=effect
        )


def documents(size: int) -> Iterator[bytes]:
    """Closes, and after some of them a person's grants, denials and undos."""
    for trace in range(-(-size // STEPS)):
        numbers = range(trace * STEPS, min(size, (trace + 1) * STEPS))
        yield from _closed(f"trace-{trace}", numbers, NOW - DAY - trace * 7919 % 40 * DAY)
        if trace % _REGULARS == 0:
            for again in range(1, _CLOSES_OF_REGULARS):
                name = f"trace-{trace}/{again}"
                yield from _closed(name, numbers, NOW - DAY - again * 15 * DAY, again)


def _closed(name: str, numbers: range, time: int, again: int = 0) -> Iterator[bytes]:
    trace = numbers[0] // STEPS
    time -= trace % 1000 * 1_000_003
    steps = [_step(i, subject(number), again) for i, number in enumerate(numbers)]
    scope = subject(numbers[0]).scope
    yield _event(
        "trace.closed", f"close-{name}", time, name, scope=scope, outcome="done", steps=steps
    )
    person = {"kind": "human", "id": "roberto"}
    if trace % 4 == 0:
        yield _event(
            "approval.decided",
            f"grant-{name}",
            time + HOUR,
            name,
            decision="granted",
            decided_by=person,
            step_ids=[str(i) for i in range(0, len(numbers), 3)],
        )
    if trace % 8 == 1:
        yield _event(
            "approval.decided",
            f"deny-{name}",
            time + HOUR,
            name,
            decision="denied",
            decided_by=person,
            step_ids=["1", "4"],
        )
        yield _event("undo.executed", f"undo-{name}", time + 1, name, by=person, step_ids=["2"])


def _step(place: int, of: Subject, again: int) -> dict[str, str]:
    status = "error" if (place + again) % 11 == 0 else "ok"
    return {"step_id": str(place), "tool": of.tool, "effect": of.effect, "status": status}


def _event(kind: str, event_id: str, time: int, trace_id: str, **data: Any) -> bytes:
    said = {"trace_id": trace_id, **data}
    return document(f"trustfold.{kind}.v1", event_id, "/bench", time, said)


def _thresholds(
    glob: str,
    min_score: int,
    min_samples: int,
    min_grants: int,
    cap: Literal["approve_required"] | None = None,
) -> Iterator[Threshold]:
    for band in BANDS[:2]:
        yield Threshold(band, min_score, min_samples, min_grants, 500_000, cap, glob)
