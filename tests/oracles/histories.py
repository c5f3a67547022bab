"""Hypothesis strategies for histories: events that collide in every way SPEC 2-3 speaks of.

A tame history has no facts that exclude each other and no late or unlisted steps, so that any
permutation, duplication and batching must give the same digests (medians first: a trace takes its
median at its close). A wild history has everything. Every event by itself is well-formed; only
correlation may refuse it.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.oracles.batch import FROM_2020, HALF_LIFE, MILLION, MINUTE, Told

Draft = tuple[str, str | None, tuple[str, ...] | None, dict[str, Any]]
Draw = st.DrawFn
Data = dict[str, Any]

TRACES, STEP_IDS, SCOPES = ("t1", "t2", "t3"), ("a", "b", "c", "d"), ("", "team")
ACTIONS = (
    ("fs_write", "fs_write:~/notes/*"),
    ("shell", "invoke"),
    ("neuron:alpha", "invoke"),
)
OUTCOMES, NEURONS = ("done", "failed"), ("alpha", "beta", "gamma")
ERA_START = FROM_2020 + 76 * HALF_LIFE
ANCHORS = (ERA_START - 1, ERA_START, ERA_START - 10 * MINUTE, ERA_START + HALF_LIFE)
NEAR = (0, 1, -1, 10 * MINUTE, 10 * MINUTE + 1, 10 * MINUTE - 1, -10 * MINUTE, 90 * MINUTE)
RECORDED_FROM = ERA_START + 2 * HALF_LIFE
RECORDED_GAP = MILLION + 3
PUBLISHERS = (None, None, None, None, ("",), ("team",), ("", "team"))


class Said(NamedTuple):
    """An event before it gets its id; `marked` is a (source, id) that the type prescribes."""

    kind: str
    role: str
    moment: int
    data: Data
    scopes: tuple[str, ...] | None = None
    identity: str | None = None
    marked: tuple[str, str] | None = None


def recorded_at(position: int) -> int:
    """The recorded moment of the fact at a position of the log; any other event is long past."""
    return RECORDED_FROM + position * RECORDED_GAP


def told(history: list[Draft]) -> list[Told]:
    """The history as a log of facts."""
    return [Told(recorded_at(position), *draft) for position, draft in enumerate(history)]


def rfc3339(moment: int, style: str = "Z") -> str:
    """An instant in one of the spellings that SPEC 2 reads: `Z`, `offset`, or `nanos`."""
    zone = timedelta(hours=2 if style == "offset" else 0)
    local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment) + zone
    text = local.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text + {"Z": "Z", "offset": "+02:00", "nanos": "999Z"}[style]


def sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The value, or None for a field that is left out."""
    return st.none() | strategy


def present(data: Data) -> Data:
    """The data without the fields that are left out."""
    return {key: value for key, value in data.items() if value is not None}


def near(anchor: int) -> st.SearchStrategy[int]:
    """A moment at or near the anchor, often exactly at a limit."""
    return st.sampled_from(NEAR).map(lambda distance: anchor + distance)


@st.composite
def steps(draw: Draw, name: str) -> Data:
    """One content for a step id."""
    tool, effect = draw(st.sampled_from((ACTIONS[0], ACTIONS[0], *ACTIONS)))
    status = draw(st.sampled_from(("ok", "ok", "error", "not_executed")))
    kind = st.sampled_from(("reversible", "irreversible"))
    return present(
        {
            "step_id": name,
            "tool": tool,
            "effect": effect,
            "status": status,
            "error": "timeout" if status == "error" and draw(st.booleans()) else None,
            "reversibility": draw(kind) if draw(st.integers(0, 4)) == 4 else None,
            "via": "human" if draw(st.integers(0, 4)) == 4 else None,
        }
    )


@st.composite
def closes(draw: Draw, trace_id: str, scope: str, anchor: int, listed: list[Data]) -> Said:
    """A `trace.closed` that lists these steps; step_count is the caller's to add."""
    law = st.fixed_dictionaries(
        {"law": st.integers(0, 3)}, optional={"step_id": st.sampled_from((*STEP_IDS, "z"))}
    )
    violations = draw(st.lists(law, max_size=draw(st.sampled_from((0, 1, 2)))))
    is_spelled_out = draw(st.booleans())
    data = {
        "trace_id": trace_id,
        "scope": scope if scope or is_spelled_out else None,
        "outcome": draw(st.sampled_from(OUTCOMES)),
        "cost_usd": draw(sometimes(st.sampled_from((0, 0.01, 0.25, 1, 0.0000005, 0.0000015)))),
        "steps": listed if listed or is_spelled_out else None,
        "violations": violations or None,
    }
    return Said("trace.closed", "runtime", anchor, present(data))


def records(trace_id: str, scope: str, moment: int, step: Data) -> Said:
    """A `step.recorded`."""
    data = {"trace_id": trace_id, "scope": scope or None, "step": step}
    return Said("step.recorded", "runtime", moment, present(data))


@st.composite
def signals(draw: Draw, trace_id: str, scope: str, moment: int) -> Said:
    """A `signals.reported`: the close of a trace without steps."""
    share = sometimes(st.sampled_from((0, 1, 1, 0.5, 1.0, 0.3333335, 0.0000005)))
    names = ("tool_success", "cost_efficiency", "constitution_clean", "human_approval_delta")
    data = {name: draw(share) for name in (*names, "undo_flag")}
    data |= {"trace_id": trace_id, "subject": [scope, *draw(st.sampled_from(ACTIONS))]}
    return Said("signals.reported", "operator", moment, present(data))


@st.composite
def feedback(draw: Draw, trace_id: str, anchor: int) -> Said:
    """An approval, an undo, an exclusion or an inclusion of the trace."""
    kinds = ("approval.decided", "approval.decided", "undo.executed", "trace.excluded")
    kind = draw(st.sampled_from((*kinds, "trace.included")))
    moment, scopes = draw(near(anchor)), draw(st.sampled_from(PUBLISHERS))
    identity = draw(st.sampled_from((None, "ann")))
    if kind in ("trace.excluded", "trace.included"):
        data: Data = {"trace_id": trace_id, "by": "operator", "why": "checked by hand"}
        return Said(kind, "operator", moment, data, scopes, identity)
    by = draw(st.sampled_from(("human", "human", "human", "human", "rule", "policy")))
    who, role = {"kind": by, "id": "ann"}, "human" if by == "human" else "runtime"
    action = st.tuples(st.sampled_from(SCOPES), st.sampled_from(ACTIONS))
    subject = action.map(lambda pair: [pair[0], *pair[1]])
    ids = st.lists(st.sampled_from((*STEP_IDS, "z")), min_size=1, max_size=3, unique=True)
    data = {
        "trace_id": trace_id,
        "step_ids": draw(sometimes(ids)),
        "subjects": draw(sometimes(st.lists(subject, min_size=1, max_size=2, unique_by=tuple))),
    }
    if kind == "undo.executed":
        return Said(kind, role, moment, present(data | {"by": who}), scopes, identity)
    data |= {
        "decided_by": who,
        "decision": draw(st.sampled_from(("granted", "granted", "denied", "denied", "expired"))),
        "grants_visible": draw(st.sampled_from((None, None, True, False))),
    }
    return Said(kind, role, moment, present(data), scopes, identity)


@st.composite
def medians(draw: Draw) -> Said:
    """A `cost.median`, often effective exactly at a trace's time."""
    data = {
        "scope": draw(st.sampled_from((None, "", "team"))),
        "effect": draw(st.sampled_from(ACTIONS))[1],
        "median_usd": draw(st.sampled_from((0.25, 0.25, 0.02, 1, 0, 0.0000004, 0.0000015))),
        "samples": draw(st.sampled_from((20, 20, 20, 40, 19))),
        "effective_at": rfc3339(draw(st.sampled_from(ANCHORS).flatmap(near))),
    }
    return Said("cost.median", "operator", draw(st.sampled_from(ANCHORS)), present(data))


@st.composite
def plays(draw: Draw) -> Said:
    """A `selfplay.completed`."""
    winner, loser, critic = draw(st.permutations(NEURONS))
    data = {
        "scope": draw(st.sampled_from((None, "", "team"))),
        "context": draw(st.sampled_from(("c1", "c2"))),
        "winner": winner,
        "loser": loser,
        "critic": critic,
        "verdict": "shorter and right",
        "critic_cost_usd": 0.002,
        "users_accepted_winner": draw(st.sampled_from((None, True, False))),
    }
    return Said("selfplay.completed", "runtime", draw(st.sampled_from(ANCHORS)), present(data))


@st.composite
def syntheses(draw: Draw) -> Said:
    """A `neuron.synthesized`."""
    data = {
        "scope": draw(st.sampled_from((None, "", "team"))),
        "neuron": draw(st.sampled_from(NEURONS)),
        "reward": draw(st.sampled_from((0.8, 0.65, 1, 0.7000005))),
        "breakdown": {"det_pass_rate": 1, "judge_score": 0.8},
        "approved_by": "ann",
    }
    return Said("neuron.synthesized", "operator", draw(st.sampled_from(ANCHORS)), present(data))


def seed_of(said: Said) -> tuple[str, str]:
    """Scope and neuron of a synthesis: there is one seed for each."""
    return (said.data.get("scope") or "", said.data["neuron"])


def service_close(trace_id: str, scope: str, moment: int, step_count: int) -> Said:
    """The close that the service publishes 24 hours after nobody finished a trace."""
    data: Data = {"trace_id": trace_id, "scope": scope or None, "outcome": "abandoned"}
    data |= {"steps": [], "step_count": step_count, "violations": []}
    marked = ("trustfold", f"abandoned/{trace_id}")
    return Said("trace.closed", "runtime", moment, present(data), marked=marked)


def draft(said: Said, number: int, style: str) -> Draft:
    """The event document; two sources share each id, so that ties of (time, id) happen."""
    source, event_id = said.marked or (("rt", "ops")[number % 2], f"e{number // 2}")
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": f"trustfold.{said.kind}.v1",
        "time": rfc3339(said.moment, style),
        "data": said.data,
    }
    return (said.role, said.identity, said.scopes, copy.deepcopy(event))


@st.composite
def drafts(draw: Draw, said: list[Said]) -> list[Draft]:
    """The documents of a history, in this order."""
    styles = st.sampled_from(("Z", "Z", "Z", "offset", "nanos"))
    return [draft(one, number, draw(styles)) for number, one in enumerate(said)]


@st.composite
def tame_traces(draw: Draw, trace_id: str) -> list[Said]:
    """One trace without mutually excluding facts, and its feedback."""
    scope, anchor = draw(st.sampled_from(SCOPES)), draw(st.sampled_from(ANCHORS))
    shape = draw(st.sampled_from(("listed", "counted", "counted", "open", "service", "signals")))
    names = draw(st.lists(st.sampled_from(STEP_IDS), max_size=4, unique=True))
    content = [draw(steps(name)) for name in names]
    found = draw(st.lists(feedback(trace_id, anchor), max_size=4))
    if shape == "signals":
        return [draw(signals(trace_id, scope, anchor)), *found]
    listed = [one for one in content if shape in ("listed", "counted") and draw(st.booleans())]
    recorded = [one for one in content if one not in listed or draw(st.booleans())]
    if shape == "listed":
        recorded = [one for one in recorded if one in listed]
    found += [records(trace_id, scope, draw(near(anchor)), one) for one in recorded]
    if shape == "service":
        return [service_close(trace_id, scope, anchor, len(content)), *found]
    if shape == "open":
        return found
    close = draw(closes(trace_id, scope, anchor, listed))
    if shape == "counted":
        close.data["step_count"] = len(content)
    return [close, *found]


@st.composite
def tame_histories(draw: Draw) -> list[Draft]:
    """Histories whose digests no permutation, duplication or batching may change."""
    rest = [one for name in TRACES[: draw(st.integers(1, 3))] for one in draw(tame_traces(name))]
    rest += draw(st.lists(plays(), max_size=2))
    rest += draw(st.lists(syntheses(), max_size=2, unique_by=seed_of))
    first = draw(st.lists(medians(), max_size=4))
    return draw(drafts(first + draw(st.permutations(rest))))


@st.composite
def rearranged(draw: Draw, history: list[Draft]) -> list[Draft]:
    """A tame history told otherwise: permuted, some facts repeated; medians first, as they were."""
    first = [one for one in history if one[3]["type"] == "trustfold.cost.median.v1"]
    rest = history[len(first) :]
    again = draw(st.lists(st.sampled_from(rest), max_size=4)) if rest else []
    return first + draw(st.permutations(rest + again))


@st.composite
def wild_traces(draw: Draw, trace_id: str) -> list[Said]:
    """One trace with everything that can go wrong, and its feedback."""
    usual, anchor = draw(st.sampled_from(SCOPES)), draw(st.sampled_from(ANCHORS))
    scopes = st.sampled_from([usual] * 7 + list(SCOPES))
    contents = {name: [draw(steps(name)) for _ in range(2)] for name in STEP_IDS}
    content = {name: st.sampled_from([two[0]] * 4 + two[1:]) for name, two in contents.items()}
    found = draw(st.lists(feedback(trace_id, anchor), max_size=5))
    for name in draw(st.lists(st.sampled_from(STEP_IDS), max_size=5)):
        found.append(records(trace_id, draw(scopes), draw(near(anchor)), draw(content[name])))
    for shape in draw(st.lists(st.sampled_from(("listed", "counted", "signals")), max_size=2)):
        moment = anchor + draw(st.sampled_from((0, 0, 1, 10 * MINUTE)))
        if shape == "signals" and draw(st.booleans()):
            found.append(draw(signals(trace_id, draw(scopes), moment)))
            continue
        names = draw(st.lists(st.sampled_from(STEP_IDS), max_size=3, unique=True))
        listed = [draw(content[name]) for name in names]
        close = draw(closes(trace_id, draw(scopes), moment, listed))
        if shape == "counted":
            close.data["step_count"] = len(listed) + draw(st.integers(0, 3))
        found.append(close)
    if draw(st.integers(0, 2)) == 0:
        count, moment = draw(st.integers(0, 4)), draw(near(anchor))
        found.append(service_close(trace_id, draw(scopes), moment, count))
    return found


@st.composite
def echoes(draw: Draw, history: list[Draft]) -> Draft:
    """A fact told again: the same, in other words, with other content, or under another id."""
    role, identity, scopes, event = copy.deepcopy(draw(st.sampled_from(history)))
    mode = draw(st.sampled_from(("same", "respelled", "changed", "new id", "taken id")))
    if mode == "respelled":
        event["time"] = event["time"].replace("Z", "+00:00")
        if event["data"].get("cost_usd") == 1:
            event["data"]["cost_usd"] = 1.0
    elif mode == "changed":
        event["data"]["note"] = "an unknown field is content, too"
    elif mode == "new id":
        event["id"] = "again"
    elif mode == "taken id":
        other = draw(st.sampled_from(history))[3]
        event["source"], event["id"] = other["source"], other["id"]
    return (role, identity, scopes, event)


@st.composite
def wild_histories(draw: Draw) -> list[Draft]:
    """Histories with second closes, conflicts of steps, scopes and ids, late steps and futures."""
    said = [one for name in TRACES[: draw(st.integers(1, 3))] for one in draw(wild_traces(name))]
    said += draw(st.lists(plays() | syntheses() | medians(), max_size=5))
    first = draw(st.lists(medians(), max_size=3))
    history = draw(drafts(first + draw(st.permutations(said))))
    for _ in range(draw(st.integers(0, 4)) if history else 0):
        history.insert(draw(st.integers(0, len(history))), draw(echoes(history)))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2))) if history else 0):
        position = draw(st.integers(0, len(history) - 1))
        limit = recorded_at(position) + 5 * MINUTE + draw(st.integers(0, 1))
        history[position][3]["time"] = rfc3339(limit)
        if draw(st.booleans()):
            history.append(copy.deepcopy(history[position]))
    return history
