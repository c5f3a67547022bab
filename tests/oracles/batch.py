"""The final state of every subject, from one look at the whole list of facts (SPEC 2-4).

Neither corrections nor increments live here: who came first is read off the log, then each trace is
judged once, from all that was ever accepted about it. Nothing here may import the product.
Rollbacks and policy are ignored. Instants are integer microseconds since 1970, amounts millionths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import cache
from typing import Any, NamedTuple

Subject = tuple[str, str, str]
Step = dict[str, Any]

MILLION = 10**6
MINUTE = 60 * MILLION
HALF_LIFE = 30 * 24 * 60 * MINUTE
FROM_2020 = 1_577_836_800 * MILLION
STEP_FIELDS = "step_id tool effect status error reversibility args_fingerprint via decision_id"
FEEDBACK = ("approval.decided", "undo.executed", "trace.excluded", "trace.included")
ABOUT_A_TRACE = ("trace.closed", "signals.reported", "step.recorded", *FEEDBACK)


class Told(NamedTuple):
    """One fact: when the log took it, who said it (scopes None = all), and the parsed event."""

    recorded: int
    role: str
    identity: str | None
    scopes: tuple[str, ...] | None
    event: dict[str, Any]

    @property
    def kind(self) -> str:
        """The event's type without prefix and version."""
        return str(self.event["type"]).removeprefix("trustfold.").removesuffix(".v1")

    @property
    def data(self) -> dict[str, Any]:
        """The event's data."""
        return dict(self.event["data"])

    @property
    def moment(self) -> int:
        """When the event says it happened."""
        return instant(self.event["time"])

    def may_speak_of(self, scope: str | None) -> bool:
        """Does the scope lie within the publisher's? One that nobody stated (None) does."""
        return self.scopes is None or scope is None or scope in self.scopes


@dataclass
class Contribution:
    """What one trace finally gives one subject; `occurred` is None when the trace never folded."""

    amounts: list[int] = field(default_factory=lambda: [0] * 5)
    weights: list[int] = field(default_factory=lambda: [0] * 5)
    n_samples: int = 0
    occurred: int | None = None
    clean: bool = False
    bad_at: int | None = None
    grant_at: int | None = None


@dataclass
class Sums:
    """The final state of a subject (SPEC 4), components in the order of the table in SPEC 3."""

    num: list[int] = field(default_factory=lambda: [0] * 5)
    den: list[int] = field(default_factory=lambda: [0] * 5)
    n_samples: int = 0
    self_play_num: int = 0
    self_play_den: int = 0
    last_updated: int | None = None
    last_bad_at: int | None = None
    last_grant_at: int | None = None


@cache
def mantissas() -> tuple[int, ...]:
    """M[0..4096] = floor(2 ** (30 + j/4096)), by decimal powers at 80 digits."""
    with localcontext() as context:
        context.prec = 80
        return tuple(int(Decimal(2) ** (30 + Decimal(j) / 4096)) for j in range(4097))


def g(moment: int) -> int:
    """Time weight of an instant (microseconds since 1970), SPEC 4."""
    era, rem = divmod(moment - FROM_2020, HALF_LIFE)
    i, f = divmod(rem * 4096, HALF_LIFE)
    low, high = mantissas()[i], mantissas()[i + 1]
    return (low + (high - low) * f // HALF_LIFE) << era


def millionths(number: Any) -> int:
    """A JSON number times 10**6, half to even, of its decimal text."""
    with localcontext() as context:
        context.prec = 400
        return int((Decimal(str(number)) * MILLION).to_integral_value(ROUND_HALF_EVEN))


def instant(text: str) -> int:
    """RFC 3339 with a zone as microseconds since 1970, finer digits cut off."""
    since_1970 = datetime.fromisoformat(text.upper()) - datetime(1970, 1, 1, tzinfo=UTC)
    return since_1970 // timedelta(microseconds=1)


def latest(moments: Iterable[int | None]) -> int | None:
    """The greatest of the moments that are there, or None."""
    return max((moment for moment in moments if moment is not None), default=None)


def is_new(told: Told, heard: set[tuple[str, str]]) -> bool:
    """False for the future, and for a (source, id) heard: duplicate or conflict, no effect."""
    pair = (told.event["source"], told.event["id"])
    return pair not in heard and told.moment <= told.recorded + 5 * MINUTE


@dataclass
class Trace:
    """All that was accepted about one trace; `arrived` is when each step id became known."""

    scope: str | None = None
    close: Told | None = None
    service: Told | None = None
    steps: dict[str, Step] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    feedback: list[Told] = field(default_factory=list)
    heard: set[tuple[str, str]] = field(default_factory=set)

    def takes(self, told: Told) -> bool:
        """Accept a fact that is new, or refuse it so that it leaves no trace at all."""
        if told.kind in FEEDBACK:
            self.feedback.append(told)
            return True
        data = told.data
        scope = data["subject"][0] if told.kind == "signals.reported" else data.get("scope") or ""
        steps: list[Step] = data.get("steps") or []
        service = ("trustfold", f"abandoned/{data['trace_id']}")
        if self.scope not in (None, scope):
            return False  # scope_conflict
        if told.kind == "step.recorded":
            steps, step = [data["step"]], data["step"]
            known = self.steps.get(step["step_id"], step)
            if any(known.get(name) != step.get(name) for name in STEP_FIELDS.split()):
                return False  # step_conflict
        elif self.close is None:
            self.close = told
        elif (told.event["source"], told.event["id"]) == service and self.folded_at() is None:
            self.service, steps = told, []
        else:
            return False  # already_closed
        self.scope = scope
        for step in steps:
            self.steps.setdefault(step["step_id"], step)
            self.arrived.setdefault(step["step_id"], told.recorded)
        return True

    def folded_at(self) -> int | None:
        """The recorded moment of the fold, or None while the trace is open or waits for steps."""
        if self.close is None:
            return None
        closed, count = self.close.recorded, self.close.data.get("step_count")
        if self.close.kind == "signals.reported" or not count:
            return closed
        known = sorted(max(closed, moment) for moment in self.arrived.values())
        ends = known[count - 1 : count] + ([self.service.recorded] if self.service else [])
        return min(ends, default=None)


class Word(NamedTuple):
    """What one piece of feedback that counts says, about which steps and subjects of its trace."""

    says: str  # granted, denied, undone, excluded, included
    told: Told
    heeded: bool  # the trace lies within the publisher's scopes
    in_rate: bool
    step_ids: set[str]
    subjects: set[Subject]
    names_nothing: bool


def word(told: Told, scope: str | None) -> Word | None:
    """Read feedback on a trace of this scope; None for what no human said, and for `expired`."""
    data, says = told.data, told.kind.removeprefix("trace.")
    if told.kind in ("approval.decided", "undo.executed"):
        says, by = data.get("decision", "undone"), data.get("decided_by") or data["by"]
        if says == "expired" or by["kind"] != "human":
            return None
    ids, listed = data.get("step_ids"), data.get("subjects")
    named = {(s, t, e) for s, t, e in listed or () if t != "runtime" and told.may_speak_of(s)}
    heeded, in_rate = told.may_speak_of(scope), data.get("grants_visible") is not False
    names_nothing = ids is None and listed is None
    return Word(says, told, heeded, in_rate, set(ids or ()), named, names_nothing)


class Judged:
    """One trace, judged from all that is known of it."""

    def __init__(self, trace: Trace) -> None:
        """Read the trace; every word about it is read once, here."""
        self.trace, self.scope, self.fold = trace, trace.scope or "", trace.folded_at()
        self.time = trace.close.moment if trace.close else 0
        self.data = trace.close.data if trace.close else {}
        self.is_signals = trace.close is not None and trace.close.kind == "signals.reported"
        self.violations = self.data.get("violations") or []
        self.known = {self.subject(step) for step in trace.steps.values()}
        self.steps = self._own_steps()
        self.subjects = {self.subject(step) for step in self.steps}
        if self.is_signals:
            self.subjects = {(self.scope, *self.data["subject"][1:])}
            self.known |= self.subjects
        self.words = [said for told in trace.feedback if (said := word(told, trace.scope))]
        self.heeded = [said for said in self.words if said.heeded]

    def _own_steps(self) -> list[Step]:
        steps, arrived = self.trace.steps, self.trace.arrived
        if self.fold is None or self.is_signals:
            return []
        if self.data.get("step_count") is None:
            return [steps[listed["step_id"]] for listed in self.data.get("steps") or ()]
        return [step for name, step in steps.items() if arrived[name] <= self.fold]

    def subject(self, step: Step) -> Subject:
        """The subject of a step."""
        return (self.scope, step["tool"], step["effect"])

    def moved(self, said: Word, unnamed: set[Subject]) -> set[Subject]:
        """The subjects that feedback brakes or grants; unheeded, only those it names."""
        if not said.heeded:
            return said.subjects
        steps = {self.subject(s) for n, s in self.trace.steps.items() if n in said.step_ids}
        return unnamed if said.names_nothing else said.subjects | steps

    def brakes(self) -> list[tuple[int, set[Subject]]]:
        """Every moment that brakes, with the subjects it brakes."""
        braking = [w for w in self.words if w.says in ("denied", "undone")]
        found = [(w.told.moment, self.moved(w, self.known)) for w in braking]
        found += [(w.told.moment, self.known) for w in self.heeded if w.says == "excluded"]
        for name in (violation.get("step_id") for violation in self.violations):
            named = {self.subject(step) for n, step in self.trace.steps.items() if n == name}
            is_missing = self.fold is not None and name not in [s["step_id"] for s in self.steps]
            found.append((self.time, self.known if name is None or is_missing else named))
        is_bad = self.signal("undo_flag") == MILLION or self.signal("constitution_clean") == 0
        return [*found, (self.time, self.subjects)] if self.is_signals and is_bad else found

    def covering(self, step: Step, *verdicts: str) -> list[Word]:
        """What humans said about a step of the trace, of these verdicts."""
        words, mine, name = self.heeded, self.subject(step), step["step_id"]
        words = [w for w in words if w.names_nothing or name in w.step_ids or mine in w.subjects]
        return [w for w in words if w.says in verdicts]

    def asked(self, step: Step, unnamed_grants: bool) -> str | None:
        """`denied`, `granted`, or None: what humans decided about a step."""
        said = [w for w in self.covering(step, "denied", "granted") if w.in_rate]
        says = {w.says for w in said if w.says == "denied" or unnamed_grants or not w.names_nothing}
        return "denied" if "denied" in says else "granted" if says else None

    def signal(self, name: str) -> int | None:
        """A ready-made signal in millionths, or None when it is absent."""
        return None if self.data.get(name) is None else millionths(self.data[name])

    def evidence(self, steps: list[Step], is_global: bool, price: int) -> Contribution:
        """The table of SPEC 3 over these steps of a folded trace."""
        executed = [step for step in steps if step["status"] in ("ok", "error")]
        ok = sum(step["status"] == "ok" for step in executed)
        undos = [said for step in executed for said in self.covering(step, "undone")]
        asked = [self.asked(step, is_global or len(self.subjects) == 1) for step in steps]
        decided, granted = len(asked) - asked.count(None), asked.count("granted")
        laws, cost = {violation["law"] for violation in self.violations}, self.data.get("cost_usd")
        is_priced = cost is not None and price > 0
        shares = (
            ok * MILLION // len(executed) if executed else None,
            granted * MILLION // decided if decided else None,
            MILLION - min(MILLION, millionths(cost) * MILLION // price) if is_priced else None,
            0 if laws & {0, 1, 2} else 500_000 if laws else MILLION,
            MILLION if any(w.told.moment <= self.time + 10 * MINUTE for w in undos) else 0,
        )
        return weighed(shares, self.time, 0 < ok == len(executed) and not laws & {0, 1, 2})

    def folded(self, medians: list[Told]) -> dict[Subject, Contribution]:
        """The evidence for each subject and the global one; empty for a trace that did not fold."""
        if self.fold is None or self.trace.close is None:
            return {}
        if self.is_signals:
            names = "tool_success human_approval_delta cost_efficiency constitution_clean"
            shares = [self.signal(name) for name in names.split()]
            clean = shares[0] == MILLION and shares[3] != 0
            given = weighed((*shares, self.signal("undo_flag") or 0), self.time, clean)
            return dict.fromkeys(self.subjects, given)
        found = {}
        for subject in self.subjects:
            steps = [step for step in self.steps if self.subject(step) == subject]
            price = in_force(medians, subject, self.time, self.trace.close.recorded)
            found[subject] = self.evidence(steps, is_global=False, price=price)
        whole = (self.scope, "runtime", self.data["outcome"])
        return found | {whole: self.evidence(self.steps, is_global=True, price=0)}

    def contributions(self, medians: list[Told]) -> dict[Subject, Contribution]:
        """What the trace gives every subject that it or its feedback touches."""
        found = self.folded(medians)
        asides = [w for w in self.heeded if w.says in ("excluded", "included")]
        order = [(w.told.moment, w.told.event["id"], w.says == "excluded") for w in asides]
        if order and max(order)[2]:
            for given in found.values():
                given.amounts, given.weights, given.n_samples = [0] * 5, [0] * 5, 0
        brakes, alone = self.brakes(), self.subjects if len(self.subjects) == 1 else set()
        granting = [w for w in self.words if w.says == "granted"]
        grants = [(w.told.moment, self.moved(w, alone)) for w in granting]
        for subject in set(found).union(*(subjects for _, subjects in brakes + grants)):
            given = found.setdefault(subject, Contribution())
            given.bad_at = latest(moment for moment, subjects in brakes if subject in subjects)
            given.grant_at = latest(moment for moment, subjects in grants if subject in subjects)
        return found


def weighed(shares: Sequence[int | None], moment: int, clean: bool) -> Contribution:
    """One sample at a moment; a component that is absent has amount 0 and weight 0."""
    weights = [int(share is not None) for share in shares]
    return Contribution([share or 0 for share in shares], weights, 1, moment, clean)


def in_force(medians: list[Told], subject: Subject, moment: int, closed: int) -> int:
    """The last median, effective by the trace's time and recorded before its close, or 0."""
    first: dict[int, Told] = {}
    for told in medians:
        mine = (told.data.get("scope") or "", told.data["effect"]) == (subject[0], subject[2])
        if mine and told.recorded < closed and is_new(told, set()):
            first.setdefault(instant(told.data["effective_at"]), told)
    last = first.get(max((since for since in first if since <= moment), default=-1))
    return millionths(last.data["median_usd"]) if last and last.data["samples"] >= 20 else 0


def contributions(facts: Iterable[Told]) -> dict[tuple[str, Subject], Contribution]:
    """What each trace finally gives each subject it touches, before any time weight."""
    facts = list(facts)
    medians = [told for told in facts if told.kind == "cost.median"]
    traces = defaultdict[str, Trace](Trace)
    for told in (told for told in facts if told.kind in ABOUT_A_TRACE):
        trace = traces[told.data["trace_id"]]
        if is_new(told, trace.heard) and trace.takes(told):
            trace.heard.add((told.event["source"], told.event["id"]))
    return {
        (name, subject): given
        for name, trace in traces.items()
        for subject, given in Judged(trace).contributions(medians).items()
    }


def about_neurons(facts: Sequence[Told], kind: str, key: str) -> list[tuple[Told, str]]:
    """The self-plays or syntheses that count, each with its scope."""
    heard, seeded = defaultdict[str, set[tuple[str, str]]](set), set[tuple[str, str]]()
    found = []
    for told in (told for told in facts if told.kind == kind):
        scope, name = told.data.get("scope") or "", told.data[key]
        if is_new(told, heard[name]) and (key != "neuron" or (scope, name) not in seeded):
            heard[name].add((told.event["source"], told.event["id"]))
            seeded.add((scope, name))
            found.append((told, scope))
    return found


def batch(facts: Iterable[Told]) -> dict[Subject, Sums]:
    """The final state of every subject that any accepted fact touched."""
    facts = list(facts)
    parts = defaultdict[Subject, list[Contribution]](list)
    for (_, subject), given in contributions(facts).items():
        parts[subject].append(given)
    for told, scope in about_neurons(facts, "neuron.synthesized", "neuron"):
        r = millionths(told.data["reward"])
        subject = (scope, f"neuron:{told.data['neuron']}", "invoke")
        parts[subject].append(weighed((r, r, r, r, MILLION - r), told.moment, clean=True))
    states = defaultdict(Sums, {subject: total(given) for subject, given in parts.items()})
    for told, scope in about_neurons(facts, "selfplay.completed", "context"):
        state = states[scope, f"neuron:{told.data['winner']}", "invoke"]
        accepted = told.data.get("users_accepted_winner") is not False
        state.self_play_num += MILLION * g(told.moment) if accepted else 0
        state.self_play_den += g(told.moment)
    return dict(states)


def total(parts: Sequence[Contribution]) -> Sums:
    """The sums of one subject over all its contributions."""
    counted = [(part, g(part.occurred)) for part in parts if part.occurred is not None]
    return Sums(
        num=[sum(part.amounts[c] * weight for part, weight in counted) for c in range(5)],
        den=[sum(part.weights[c] * weight for part, weight in counted) for c in range(5)],
        n_samples=sum(part.n_samples for part in parts),
        last_updated=latest(part.occurred for part in parts if part.clean),
        last_bad_at=latest(part.bad_at for part in parts),
        last_grant_at=latest(part.grant_at for part in parts),
    )
