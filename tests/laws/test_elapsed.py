"""The formula `elapsed/1`: its canonical 2**-x, and the seed's snippet over a ledger."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.seed_snippet import SeedStore
from trustfold_projections.laws.elapsed import (
    ElapsedState,
    alpha_of,
    elapsed_digest,
    elapsed_score,
    elapsed_state,
)
from trustfold_projections.laws.scoring import WITHOUT_EVIDENCE
from trustfold_projections.laws.time_weights import HALF_LIFE, ZERO
from trustfold_schemas.amounts import PPM
from trustfold_schemas.instants import DAY, HOUR, MINUTE, SECOND
from trustfold_schemas.ledger import COMPONENTS, ZEROS, Entry, Five
from trustfold_schemas.subject import Subject

SUBJECT = Subject("", "fs_write", "fs_write:~/notes/*")
START = ZERO + 2300 * DAY
ALL: Five = (1, 1, 1, 1, 1)
BEST: Five = (PPM, PPM, PPM, PPM, 0)
WORST: Five = (0, 0, 0, 0, PPM)
SIGNALS = (
    "tool_success",
    "human_approval_delta",
    "cost_efficiency",
    "constitution_clean",
    "undo_flag",
)
ULPS_4 = 3.4e-16
"""The distance of SPEC 4 between the canonical form and `pow`, for numbers up to 1."""

waits = st.integers(0, 70 * HALF_LIFE) | st.integers(0, HALF_LIFE) | st.integers(0, MINUTE)


def entry(kind: str, trace_id: str | None, occurred: int, **more: object) -> Entry:
    """One entry; it is recorded when it occurred, alone in its chain, unless that is given."""
    known: dict[str, object] = {
        "kind": kind,
        "subject": SUBJECT,
        "trace_id": trace_id,
        "event_id": f"{kind} of {trace_id}",
        "source": "rt",
        "occurred": occurred,
        "recorded": occurred,
        "chain": (occurred,),
    }
    return Entry(**(known | more))  # type: ignore[arg-type]


def trace(
    name: str, occurred: int, says: Five = BEST, of: Five = ALL, *, clean: bool = True
) -> Entry:
    """The evidence of one trace."""
    return entry("evidence", name, occurred, amounts=says, weights=of, n_samples=1, clean=clean)


def values_of(state: ElapsedState) -> tuple[float, ...]:
    """The five components of a state, in their order."""
    return tuple(getattr(state, name) for name in COMPONENTS)


def values_after(*entries: Entry) -> tuple[float, ...]:
    """The five components that entries come to."""
    return values_of(elapsed_state(SUBJECT, entries))


def digest_after(entries: Sequence[Entry]) -> str:
    """The digest that entries come to."""
    return elapsed_digest(elapsed_state(SUBJECT, entries))


@st.composite
def traces(draw: st.DrawFn) -> list[Entry]:
    """The evidence of up to fifteen traces, from the same moment to years apart."""
    spacing = draw(st.sampled_from((1, SECOND, HOUR, DAY, HALF_LIFE, 20 * HALF_LIFE)))
    occurred, made = START, []
    for n in range(draw(st.integers(0, 15))):
        occurred += draw(st.integers(0, spacing))
        v, w, x, y, z = draw(st.tuples(*[st.integers(0, 1)] * 5))
        a, b, c, d, e = draw(st.tuples(*[st.integers(0, PPM) | st.sampled_from((0, PPM))] * 5))
        says = (v * a, w * b, x * c, y * d, z * e)
        made.append(trace(f"t{n:02}", occurred, says, (v, w, x, y, z), clean=draw(st.booleans())))
    return made


def split(evidence: Entry, said_first: Five, of: Five) -> tuple[Entry, Entry]:
    """The same trace as evidence that said something else, and the correction by the difference."""
    correction = entry(
        "correction",
        evidence.trace_id,
        evidence.occurred,
        amounts=tuple(a - b for a, b in zip(evidence.amounts, said_first, strict=True)),
        weights=tuple(a - b for a, b in zip(evidence.weights, of, strict=True)),
    )
    first = trace(str(evidence.trace_id), evidence.occurred, said_first, of, clean=evidence.clean)
    return first, correction


def golden_log() -> list[Entry]:
    """Fifty traces over some four years, a born neuron, corrections, a rollback and a self-play."""
    r = 720_000
    log = [
        entry(
            "initial", None, START, amounts=(r, r, r, r, PPM - r), weights=ALL, n_samples=1,
            clean=True,
        )
    ]  # fmt: skip
    for n in range(50):
        occurred = START + n * n * 13 * HOUR + n * 7_654_321
        asked, priced = int(n % 3 == 0), int(n % 4 != 1)
        says = (n * 54_321 % (PPM + 1), asked * PPM, priced * (n * 98_765 % PPM), PPM, 0)
        final = trace(f"t{n:02}", occurred, says, (1, asked, priced, 1, 1), clean=n % 5 != 0)
        log.extend([final] if n % 7 else split(final, BEST, ALL))
    log.append(entry("self_play", None, START + DAY, self_play=(PPM, 1)))
    log.append(entry("rollback", None, START, to=START + 15_000 * HOUR, recorded=START + 900 * DAY))
    return log


# ---- the canonical power -----------------------------------------------------------------------


@pytest.mark.parametrize("elapsed", [0, -1, -HALF_LIFE])
def test_nothing_is_lost_in_no_time(elapsed: int) -> None:
    """p(0) is 1 exactly, and elapsed time is never negative."""
    assert alpha_of(elapsed) == 1.0


@pytest.mark.parametrize("half_lives", [1, 2, 30, 61])
def test_half_is_lost_in_thirty_days(half_lives: int) -> None:
    """After n half-lives exactly 2**-n is left."""
    assert alpha_of(half_lives * HALF_LIFE) == 2.0**-half_lives


def test_nothing_is_left_after_sixty_two_half_lives() -> None:
    """Where the snippet would keep less than half an ulp, the canonical form keeps nothing."""
    assert alpha_of(62 * HALF_LIFE) == 0.0


@given(waits)
def test_what_is_left_is_never_above_one(elapsed: int) -> None:
    """No rounding makes a value grow by waiting."""
    assert 0.0 <= alpha_of(elapsed) <= 1.0


@given(waits, waits)
def test_what_is_left_never_grows(elapsed: int, more: int) -> None:
    """Alpha falls with time, across the seams between half-lives too."""
    assert alpha_of(elapsed + more) <= alpha_of(elapsed)


@given(st.integers(0, 62 * HALF_LIFE - 1))
def test_a_microsecond_more_leaves_less(elapsed: int) -> None:
    """Alpha falls strictly at the step of an instant, as long as anything is left."""
    assert alpha_of(elapsed + 1) < alpha_of(elapsed)


@given(st.integers(0, 62 * HALF_LIFE - 1))
def test_what_is_left_is_the_exact_power_within_two_ulp(elapsed: int) -> None:
    """Against decimals of 50 digits: two units in the last place, 2**-51 of the number."""
    exact = Context(prec=50)
    power = exact.power(Decimal(2), exact.divide(Decimal(-elapsed), Decimal(HALF_LIFE)))
    ratio = exact.divide(Decimal(alpha_of(elapsed)), power)
    assert abs(exact.subtract(ratio, 1)) <= Decimal(2) ** -51


@given(waits)
def test_what_is_left_is_what_the_snippet_leaves_within_four_ulp(elapsed: int) -> None:
    """The seed's own expression, with this machine's pow, differs by 3.4e-16 at most."""
    dt_days = timedelta(microseconds=elapsed).total_seconds() / 86400
    assert alpha_of(elapsed) == pytest.approx(0.5 ** (dt_days / 30.0), rel=0, abs=ULPS_4)


# ---- the snippet over a ledger -----------------------------------------------------------------


def test_a_fixed_log_ends_in_the_golden_state() -> None:
    """The digest of the final state is the same on every machine, to the last bit."""
    golden = "21289cbfc45c3c50acfd0f2111a1b08ed0cec170a788addf719d591b1073fdaf"
    assert digest_after(golden_log()) == golden


@given(traces())
def test_the_state_is_that_of_the_seeds_snippet(log: list[Entry]) -> None:
    """Components and score are the literal snippet's, within 4 ulp a sample.

    Errors of earlier samples fade with alpha: in practice 4 ulp hold for logs of a thousand.
    """
    seed, key = SeedStore(), (SUBJECT.scope, SUBJECT.tool, SUBJECT.effect)
    for one in log:
        there = zip(SIGNALS, one.amounts, one.weights, strict=True)
        signals = {name: amount / PPM for name, amount, weight in there if weight}
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=one.occurred)
        seed.update(key, {"human_approval_delta": 0.5} | signals, now)
    state = elapsed_state(SUBJECT, log)
    if not log:
        assert seed.scores == {}
        return
    score = seed.scores[key]
    wanted = [*(getattr(score, name) for name in COMPONENTS), score.score]
    found = [*values_of(state), state.raw_score]
    assert found == pytest.approx(wanted, rel=0, abs=ULPS_4 * len(log))


@given(traces())
def test_values_and_raw_score_stay_between_zero_and_one(log: list[Entry]) -> None:
    """No order and no spacing pushes a score to the seed's 2.0."""
    state = elapsed_state(SUBJECT, log)
    assert all(0.0 <= value <= 1.0 for value in (*values_of(state), state.raw_score))


@given(traces(), st.randoms(use_true_random=False))
def test_any_order_of_entries_gives_the_same_bits(log: list[Entry], dice: random.Random) -> None:
    """Evidence and corrections may stand in the ledger in any order."""
    entries = [part for one in log for part in split(one, WORST, ALL)]
    in_order = digest_after(entries)
    dice.shuffle(entries)
    assert digest_after(entries) == in_order


@given(traces())
def test_corrections_are_merged_into_their_trace(log: list[Entry]) -> None:
    """A trace that was corrected is one sample that says what it says in the end."""
    corrected = [part for one in log for part in split(one, WORST, ALL)]
    assert digest_after(corrected) == digest_after(log)


def test_without_a_sample_values_are_those_without_evidence() -> None:
    """A subject nobody has seen starts where SPEC 4 shows a component without evidence."""
    assert values_after() == WITHOUT_EVIDENCE


def test_the_first_sample_has_full_weight() -> None:
    """The first trace is believed at once, and not by the time since some beginning."""
    assert values_after(trace("t", START, BEST)) == (1.0, 1.0, 1.0, 1.0, 0.0)


def test_a_sample_weighs_what_the_wait_before_it_lost() -> None:
    """Thirty days after the best trace the worst one moves every component half the way."""
    log = [trace("t", START, BEST), trace("u", START + HALF_LIFE, WORST)]
    assert values_after(*log) == (0.5, 0.5, 0.5, 0.5, 0.5)


def test_not_asked_counts_as_a_half() -> None:
    """A trace without a human decision says 0.5 of human_approval_rate, as in the seed."""
    silent = trace("u", START + HALF_LIFE, ZEROS, (1, 0, 1, 1, 1))
    assert values_after(trace("t", START, BEST), silent)[1] == 0.75


def test_other_components_without_evidence_stay_as_they_are() -> None:
    """A trace without cost, success, constitution or undo leaves what is known of them."""
    silent = trace("u", START + HALF_LIFE, ZEROS, ZEROS)
    assert values_after(trace("t", START, BEST), silent) == (1.0, 0.75, 1.0, 1.0, 0.0)


def test_samples_are_taken_in_order_of_time() -> None:
    """What occurred first is the first sample, whatever the traces are called."""
    log = [trace("a", START + 2 * HALF_LIFE, WORST), trace("z", START, BEST)]
    assert values_after(*log) == (0.25, 0.25, 0.25, 0.25, 0.75)


def test_samples_of_one_moment_are_taken_by_trace_id() -> None:
    """Of two traces of the same microsecond the lower trace_id is first, and rules."""
    assert values_after(trace("u", START, WORST), trace("t", START, BEST))[0] == 1.0


def test_initial_evidence_comes_before_a_trace_of_its_moment() -> None:
    """The birth of a neuron sorts with the empty trace_id: its reward is the first sample."""
    r: Five = (PPM // 2, PPM // 2, PPM // 2, PPM // 2, PPM // 2)
    born = entry("initial", None, START, amounts=r, weights=ALL, n_samples=1, clean=True)
    assert values_after(trace("t", START, BEST), born) == (0.5,) * 5


def test_an_excluded_trace_is_no_sample() -> None:
    """A trace whose merged n_samples is 0 neither moves values nor ends the wait of the next."""
    excluded = trace("u", START + HALF_LIFE // 2, ZEROS, ZEROS)
    taken_back = entry("correction", "u", START + HALF_LIFE // 2, n_samples=-1)
    ends = [trace("t", START, BEST), trace("v", START + HALF_LIFE, WORST)]
    assert values_after(*ends, excluded, taken_back) == values_after(*ends)


@pytest.mark.parametrize("kind", ["self_play", "brake"])
def test_self_play_and_brakes_leave_no_mark(kind: str) -> None:
    """Only evidence and its corrections are samples."""
    log = [trace("t", START, BEST), trace("u", START + HALF_LIFE, WORST)]
    aside = entry(kind, "u", START - DAY, self_play=(0, 1), bad_at=START, clean=True)
    assert digest_after([aside, *log]) == digest_after(log)


# ---- rollbacks, freshness, score ---------------------------------------------------------------


@given(traces(), st.integers(0, 15))
def test_a_rollback_gives_the_state_as_of_its_moment(log: list[Entry], length: int) -> None:
    """What was recorded after T counts no more, and what stays is read as it was then."""
    to = log[:length][-1].recorded if log[:length] else START - 1
    kept = [one for one in log if one.recorded <= to]
    rollback = entry("rollback", None, log[-1].recorded if log else START, to=to)
    assert digest_after([*log, rollback]) == digest_after(kept)


@given(traces())
def test_lifting_a_rollback_restores_the_same_bits(log: list[Entry]) -> None:
    """A rollback that was lifted leaves the digest as it was."""
    end = log[-1].recorded if log else START
    rollback = entry("rollback", None, end, to=START - 1)
    lifted = entry("rollback_lifted", None, end + 1, lifts=rollback.event_id)
    assert digest_after([*log, rollback, lifted]) == digest_after(log)


def test_last_updated_is_the_last_clean_trace() -> None:
    """A failure is a sample, but makes an old score no fresher."""
    failed = trace("u", START + DAY, WORST, clean=False)
    assert elapsed_state(SUBJECT, [trace("t", START), failed]).last_updated == START


def test_the_score_halves_in_thirty_days() -> None:
    """Read at a moment, raw_score is multiplied by the freshness of SPEC 4."""
    state = elapsed_state(SUBJECT, [trace("t", START)])
    assert (elapsed_score(state, START), elapsed_score(state, START + HALF_LIFE)) == (1.0, 0.5)


def test_without_a_clean_trace_the_score_is_zero() -> None:
    """Nobody trusts a subject that nobody has seen succeed."""
    assert elapsed_score(elapsed_state(SUBJECT, []), START) == 0.0
