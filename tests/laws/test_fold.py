"""The fold: exact sums in any order, rollbacks by interval and chain, and what they leave alone."""

import json
import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_projections.laws.correlation.dispatch import correlate, key_of, new_state
from trustfold_projections.laws.fold import fold, later, refold, refold_as_of
from trustfold_projections.laws.medians import MedianTable
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import DAY, HOUR, MINUTE, SECOND
from trustfold_schemas.ledger import ZEROS, Entry, Five
from trustfold_schemas.scores import State, check_ranges, content_digest
from trustfold_schemas.subject import Subject

SUBJECT = Subject("", "fs_write", "fs_write:~/notes/*")
START = ZERO + 2300 * DAY
GOOD: Five = (PPM, 0, 0, PPM, 0)
UNDONE: Five = (PPM, 0, 0, PPM, PPM)
SEEN: Five = (1, 0, 0, 1, 1)
ROLLBACKS = ("rollback", "rollback_lifted")


class Log:
    """The ledger of one subject under the pen; time of recording passes by `gap` an entry."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now = START
        self.gap = SECOND
        self._given: dict[str, tuple[Five, Five, int, tuple[int, ...]]] = {}

    def say(self, kind: str, **more: object) -> Entry:
        """Record one entry of any kind, with a chain of its own unless one is given."""
        self.now += self.gap
        known: dict[str, object] = {
            "kind": kind,
            "subject": SUBJECT,
            "trace_id": None,
            "event_id": f"e{len(self.entries)}",
            "source": "rt",
            "occurred": self.now,
            "recorded": self.now,
            "chain": (self.now,),
        }
        self.entries.append(Entry(**(known | more)))  # type: ignore[arg-type]
        return self.entries[-1]

    def trace(
        self, name: str, says: Five = GOOD, of: Five = SEEN, n_samples: int = 1, **more: object
    ) -> Entry:
        """Record what a trace says now: its evidence, later a correction by the difference."""
        amounts, weights, n, chain = self._given.get(name, (ZEROS, ZEROS, 0, ()))
        chain = (*chain, self.now + self.gap)
        self._given[name] = (says, of, n_samples, chain)
        return self.say(
            "correction" if len(chain) > 1 else "evidence",
            trace_id=name,
            chain=chain,
            amounts=tuple(new - old for new, old in zip(says, amounts, strict=True)),
            weights=tuple(new - old for new, old in zip(of, weights, strict=True)),
            n_samples=n_samples - n,
            **more,
        )

    def roll_back(self, to: int) -> str:
        """Record a rollback and return its id."""
        return self.say("rollback", to=to).event_id

    def lift(self, rollback_id: str) -> None:
        """Record that a rollback is lifted."""
        self.say("rollback_lifted", lifts=rollback_id)

    def state(self) -> State:
        """The state that all entries come to."""
        return refold(SUBJECT, self.entries)

    def digest(self) -> str:
        """The content digest of that state."""
        return content_digest(self.state())


@st.composite
def contributions(draw: st.DrawFn) -> tuple[Five, Five, int]:
    """What a trace may say of a subject: shares where there is evidence; or that it is excluded."""
    if draw(st.integers(0, 5)) == 0:
        return ZEROS, ZEROS, 0
    weights = draw(st.tuples(*[st.integers(0, 1)] * 5))
    shares = draw(st.tuples(*[st.sampled_from((0, 1, 333_333, PPM))] * 5))
    a, b, c, d, e = (weight * share for weight, share in zip(weights, shares, strict=True))
    return (a, b, c, d, e), weights, 1


@st.composite
def logs(draw: st.DrawFn, *, rollbacks: bool = True) -> Log:
    """A ledger with all kinds of entries; some are recorded at one and the same moment."""
    log, in_force = Log(), list[str]()
    days = draw(st.lists(st.integers(0, 2300), min_size=4, max_size=4))
    kinds = ["trace", "trace", "trace", "brake", "self_play", "initial"]
    if rollbacks:
        kinds += ["rollback", "lift"]
    for _ in range(draw(st.integers(0, 14))):
        kind, n = draw(st.sampled_from(kinds)), draw(st.integers(0, 3))
        log.gap = draw(st.sampled_from((0, 1, HOUR)))
        moment = ZERO + days[n] * DAY
        if kind == "trace":
            says, of, n_samples = draw(contributions())
            is_clean = f"t{n}" not in log._given and draw(st.booleans())
            log.trace(f"t{n}", says, of, n_samples, occurred=moment, clean=is_clean)
        elif kind == "brake":
            granted = draw(st.booleans())
            log.say("brake", **{"grant_at" if granted else "bad_at": moment})
        elif kind == "self_play":
            log.say("self_play", occurred=moment, self_play=(PPM * (n % 2), 1))
        elif kind == "initial":
            r, more = 720_000, {"occurred": moment, "n_samples": 1, "clean": True}
            log.say("initial", amounts=(r, r, r, r, PPM - r), weights=(1,) * 5, **more)
        elif kind == "rollback":
            in_force.append(log.roll_back(log.now - n * HOUR + draw(st.integers(-1, 1))))
        elif in_force:
            log.lift(in_force.pop(n % len(in_force)))
    return log


def sums_of(state: State) -> tuple[object, ...]:
    """All that a rollback takes back; `last_bad_at` is not among it."""
    return (
        (state.num, state.den, state.n_samples, state.self_play_num, state.self_play_den),
        (state.last_updated, state.last_grant_at),
    )


def joined(parts: Iterable[State]) -> State:
    """States of separate batches, added as whoever pre-aggregates them would."""
    whole = State(subject=SUBJECT)
    for part in parts:
        whole.num = [a + b for a, b in zip(whole.num, part.num, strict=True)]
        whole.den = [a + b for a, b in zip(whole.den, part.den, strict=True)]
        whole.n_samples += part.n_samples
        whole.self_play_num += part.self_play_num
        whole.self_play_den += part.self_play_den
        whole.last_updated = later(whole.last_updated, part.last_updated)
        whole.last_bad_at = later(whole.last_bad_at, part.last_bad_at)
        whole.last_grant_at = later(whole.last_grant_at, part.last_grant_at)
    return whole


# ---- any order gives the same ------------------------------------------------------------------


def test_one_trace_has_the_digest_of_the_specification() -> None:
    """The check value of SPEC 4, from the event through correlation to the content digest."""
    document = json.dumps(
        {
            "specversion": "1.0",
            "id": "e1",
            "source": "rt",
            "type": "trustfold.trace.closed.v1",
            "time": "2026-04-22T12:34:56.789012Z",
            "data": {
                "trace_id": "t1",
                "outcome": "done",
                "steps": [
                    {"step_id": "a", "tool": SUBJECT.tool, "effect": SUBJECT.effect, "status": "ok"}
                ],
            },
        }
    ).encode()
    event = decode_event(document)
    fact = Fact(1, event.time, OWNER, event, document)
    entries = correlate(new_state(key_of(event)), fact, MedianTable()).entries
    state = refold(SUBJECT, [entry for entry in entries if entry.subject == SUBJECT])
    assert content_digest(state).startswith("e86a68985c133796")


@given(logs(), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_digest(log: Log, dice: random.Random) -> None:
    """Entries may be folded in any order: the rollbacks in force alone decide which count."""
    others = [entry for entry in log.entries if entry.kind not in ROLLBACKS]
    dice.shuffle(others)
    rollbacks = [entry for entry in log.entries if entry.kind in ROLLBACKS]
    assert content_digest(refold(SUBJECT, rollbacks + others)) == log.digest()


@given(logs(rollbacks=False), st.integers(1, 5))
def test_any_batching_gives_the_same_digest(log: Log, batches: int) -> None:
    """Batches folded apart, anywhere, and then added are the fold of the whole."""
    parts = [refold(SUBJECT, log.entries[n::batches]) for n in range(batches)]
    assert content_digest(joined(parts)) == log.digest()


@given(logs())
def test_the_online_fold_is_the_refold_of_every_prefix(log: Log) -> None:
    """A worker that adds entry by entry, refolding where it must, is never in another state."""
    online, differing = State(subject=SUBJECT), []
    for end, entry in enumerate(log.entries, start=1):
        again = refold(SUBJECT, log.entries[:end])
        if not fold(online, entry):
            online = again
        if online != again:
            differing.append(entry)
    assert differing == []


@given(logs())
def test_sums_stay_within_their_ranges(log: Log) -> None:
    """0 <= num <= den * 10**6 and n_samples >= 0 hold after every entry and rollback."""
    for end in range(len(log.entries) + 1):
        check_ranges(refold(SUBJECT, log.entries[:end]))


@pytest.mark.parametrize(
    ("num", "den", "n_samples"),
    [(PPM + 1, 1, 0), (-1, 1, 0), (0, -1, 0), (1, 0, 0), (0, 0, -1)],
)
def test_sums_outside_their_ranges_are_corrupt(num: int, den: int, n_samples: int) -> None:
    """A state that no evidence can add up to is refused."""
    state = State(subject=SUBJECT, num=[0, 0, 0, 0, num], den=[0, 0, 0, 0, den])
    state.n_samples = n_samples
    with pytest.raises(TrustCorruptionError):
        check_ranges(state)


def test_a_correction_is_weighted_at_the_time_of_its_trace() -> None:
    """A trace corrected a month later gives the integers of one that said so at once."""
    corrected, at_once = Log(), Log()
    corrected.trace("t", GOOD, occurred=START)
    corrected.now += 30 * DAY
    corrected.trace("t", UNDONE, occurred=START)
    at_once.trace("t", UNDONE, occurred=START)
    assert sums_of(corrected.state()) == sums_of(at_once.state())


def test_evidence_weighs_what_its_moment_weighs() -> None:
    """One good trace: num is 10**6 g and den is g, of the moment it occurred."""
    log = Log()
    log.trace("t", occurred=START - 5 * DAY)
    weight = g(START - 5 * DAY)
    assert (log.state().num[0], log.state().den[0]) == (PPM * weight, weight)


# ---- freshness ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["evidence", "initial"])
def test_clean_evidence_makes_a_score_fresh(kind: str) -> None:
    """A clean trace, and the birth of a neuron, move last_updated to when they occurred."""
    log = Log()
    log.say(kind, occurred=START - DAY, clean=True)
    assert log.state().last_updated == START - DAY


def test_last_updated_is_the_latest_and_not_the_last() -> None:
    """An old trace that comes late makes nothing older."""
    log = Log()
    log.trace("t", occurred=START, clean=True)
    log.trace("u", occurred=START - DAY, clean=True)
    assert log.state().last_updated == START


@pytest.mark.parametrize("kind", ["correction", "brake", "self_play"])
def test_no_other_kind_makes_a_score_fresh(kind: str) -> None:
    """Feedback and self-play leave last_updated alone, whatever they call themselves."""
    log = Log()
    log.say(kind, clean=True)
    assert log.state().last_updated is None


# ---- rollbacks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "n_samples"), [(0, 1), (1, 0), (MINUTE, 0), (MINUTE + 1, 1)])
def test_a_rollback_takes_out_what_was_recorded_in_its_interval(after: int, n_samples: int) -> None:
    """Entries in (to, at] do not count: not at `to`, but right after it, at `at`, not behind it."""
    log = Log()
    log.say("rollback", to=START, recorded=START + MINUTE)
    log.say("evidence", trace_id="t", n_samples=1, chain=(START + after,))
    assert log.state().n_samples == n_samples


def test_a_correction_of_a_trace_that_was_rolled_back_does_not_count() -> None:
    """Feedback after a rollback cannot move a trace whose evidence the rollback took out."""
    log = Log()
    log.trace("t", GOOD)
    log.roll_back(START)
    log.trace("t", UNDONE)
    assert sums_of(log.state()) == sums_of(State(subject=SUBJECT))


def test_a_trace_touched_by_a_rollback_stays_as_it_was() -> None:
    """Where only a correction fell into the interval, later ones do not count either."""
    log = Log()
    log.trace("t", GOOD)
    before, to = log.state(), log.now
    log.trace("t", UNDONE)
    log.roll_back(to)
    log.trace("t", ZEROS, ZEROS, 0)
    assert sums_of(log.state()) == sums_of(before)


def test_evidence_after_a_rollback_counts() -> None:
    """A rollback is of the past: what is recorded after it is folded as ever."""
    log, alone = Log(), Log()
    log.trace("t", occurred=START)
    log.roll_back(START)
    log.trace("u", occurred=START)
    alone.trace("u", occurred=START)
    assert sums_of(log.state()) == sums_of(alone.state())


@given(logs())
def test_a_rollback_lifts_no_brake(log: Log) -> None:
    """last_bad_at is that of all entries ever, wherever a rollback goes back to."""
    known = [entry.bad_at for entry in log.entries if entry.bad_at is not None]
    log.roll_back(ZERO)
    assert log.state().last_bad_at == max(known, default=None)


def test_a_rollback_takes_a_grant_back() -> None:
    """A grant that was rolled back ends no brake."""
    log = Log()
    log.say("brake", grant_at=START)
    log.roll_back(START)
    assert log.state().last_grant_at is None


@given(logs(rollbacks=False), st.integers(0, 14))
def test_a_rollback_gives_the_sums_as_of_its_moment(log: Log, length: int) -> None:
    """Rolled back to T, sums, samples, freshness and grants are those as of T."""
    to = log.entries[:length][-1].recorded if log.entries[:length] else START
    before = refold_as_of(SUBJECT, log.entries, to)
    log.gap = SECOND
    log.roll_back(to)
    assert sums_of(log.state()) == sums_of(before)


@given(logs(), st.integers(ZERO, START + 14 * HOUR))
def test_lifting_a_rollback_restores_the_same_integers(log: Log, to: int) -> None:
    """A rollback and its lifting leave the content digest as it was."""
    before = log.digest()
    log.lift(log.roll_back(to))
    assert log.digest() == before


def test_overlapping_rollbacks_add_up() -> None:
    """What lies in either interval does not count; lifting one leaves what the other takes."""
    log = Log()
    moments = [log.trace(f"t{n}").recorded for n in range(4)]
    early = log.roll_back(moments[1])  # takes t2 and t3
    log.roll_back(moments[2])  # takes t3
    counted = [log.state().n_samples]
    log.lift(early)
    assert [*counted, log.state().n_samples] == [2, 3]


def after_a_hundred(again: str = "") -> tuple[Log, list[State]]:
    """A log of 100 updates and a rollback by 50, and the states after 50 and after 100."""
    log, states = Log(), []
    for n in range(100):
        log.trace(f"t{n}", UNDONE if n % 9 == 0 else GOOD, occurred=START + n * HOUR, clean=True)
        if n in (49, 99):
            states.append(log.state())
    log.roll_back(log.entries[49].recorded)
    for n in range(50, 100) if again else ():
        says = UNDONE if n % 9 == 0 else GOOD
        log.trace(f"t{n}{again}", says, occurred=START + n * HOUR, clean=True)
    return log, states


def test_a_rollback_by_fifty_of_a_hundred_is_the_state_after_fifty() -> None:
    """The seed's "rollback a T-50": sums, n_samples and last_updated as of that moment."""
    log, (fifty, _) = after_a_hundred()
    assert sums_of(log.state()) == sums_of(fifty)


def test_fifty_updates_published_again_are_the_state_after_a_hundred() -> None:
    """The seed's replay: the same 50 facts under new ids give the same digest, bit for bit."""
    log, (_, hundred) = after_a_hundred(again="-again")
    assert log.digest() == content_digest(hundred)
