"""What holds of every decision, whatever was set and whatever happened."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.policies import ASKED, NOTES, NOW, Rules, perfect
from trustfold_projections.laws.policy import decide
from trustfold_schemas.decisions import BANDS, ReasonCode, Verdict
from trustfold_schemas.events import Reversibility
from trustfold_schemas.instants import DAY, HOUR
from trustfold_schemas.scores import State

GLOBS = ("*", "fs_*", "fs_write:~/*", "fs_write:~/notes/*", "*notes*", "shell:*")
bands = st.sampled_from(BANDS)
numbers = st.fixed_dictionaries(
    {
        "min_score": st.sampled_from([0, 0.5, 0.65, 0.9, 1]),
        "min_samples": st.integers(0, 30),
        "min_grants": st.integers(0, 12),
        "min_approval_rate": st.sampled_from([0, 0.5, 0.9, 1]),
        "cap_autonomy": st.sampled_from([None, None, None, "approve_required"]),
    }
)
thresholds = st.lists(st.tuples(st.sampled_from(GLOBS), bands, numbers), max_size=5)
declarations = st.lists(st.tuples(st.sampled_from(GLOBS), bands), min_size=1, max_size=4)
moments = st.none() | st.integers(NOW - 3 * DAY, NOW)


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """A policy that enforces, with thresholds and declarations in each other's way."""
    made = Rules()
    made.mode()
    for glob, band in draw(declarations):
        made.declare(glob, band)
    for glob, band, said in draw(thresholds):
        made.threshold(glob, band, **said)
    return made


@st.composite
def states(draw: st.DrawFn) -> State:
    """A subject with a past: some traces, some granted, some age, maybe a brake."""
    traces = draw(st.integers(0, 40))
    made = perfect(
        traces=traces,
        granted=draw(st.integers(0, traces)),
        at=NOW - draw(st.integers(0, 60 * DAY)),
    )
    made.num[1] = made.num[1] * draw(st.integers(0, 10)) // 10
    made.num[0] = made.num[0] * draw(st.integers(5, 10)) // 10
    return replace(made, last_bad_at=draw(moments), last_grant_at=draw(moments))


def asked(made: Rules, state: State | None, said: Reversibility | None = "reversible") -> Verdict:
    """The answer to a question about the notes."""
    return decide(state, made.policy, replace(ASKED, reversibility=said), NOW)


@given(rules(), states())
def test_a_stricter_word_never_helps(made: Rules, state: State) -> None:
    """What is allowed to one who says more is allowed to one who says less; no word is none."""
    answers = [asked(made, state, band).verdict == "allow" for band in BANDS]
    assert answers == sorted(answers, reverse=True)
    assert not answers[-1]
    assert asked(made, state, None).verdict == "approve_required"


@given(rules(), states(), st.integers(0, 2 * DAY))
def test_something_bad_never_helps(made: Rules, state: State, ago: int) -> None:
    """A brake that is set, or set later, turns no question into an allow."""
    worse = replace(state, last_bad_at=max(state.last_bad_at or 0, NOW - ago))
    if asked(made, worse).verdict == "allow":
        assert asked(made, state).verdict == "allow"
        assert ago >= DAY


@given(rules(), states(), st.sampled_from(GLOBS))
def test_a_revocation_or_a_cap_never_helps(made: Rules, state: State, glob: str) -> None:
    """Neither turns a question into an allow; those that match forbid."""
    before = asked(made, state).verdict
    made.threshold(glob, "irreversible", cap_autonomy="approve_required")
    capped = asked(made, state)
    assert capped.verdict == "approve_required" or before == "allow"
    assert (ReasonCode.CAPPED in capped.reasons) >= (glob != "shell:*")
    made.say("trust.revoked", "r1", effect=glob)
    revoked = asked(made, state)
    assert (ReasonCode.REVOKED in revoked.reasons) == (glob != "shell:*")
    assert revoked.verdict == "approve_required" or glob == "shell:*"


@given(rules(), states(), st.integers(1, 400))
def test_time_alone_never_helps(made: Rules, state: State, days: int) -> None:
    """Where no brake is in force, an action that is asked today is asked later too."""
    state = replace(state, last_bad_at=None)
    later = decide(state, made.policy, ASKED, NOW + days * DAY)
    if later.verdict == "allow":
        assert asked(made, state).verdict == "allow"


@given(rules(), states())
@settings(max_examples=50)
def test_a_verdict_tells_all_or_nothing(made: Rules, state: State) -> None:
    """An allow lacks nothing and says via; whatever asks has a reason and says what is missing."""
    verdict = asked(made, state)
    if verdict.verdict == "allow":
        assert verdict.reasons == (ReasonCode.PROMOTED,)
        assert (verdict.via, verdict.missing) == ("trust_promoted", "")
    else:
        assert ReasonCode.PROMOTED not in verdict.reasons
        assert verdict.via is None
        assert verdict.missing
    order = list(ReasonCode)
    places = [order.index(reason) for reason in verdict.reasons]
    assert places == sorted(set(places))


@given(states(), st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 40))
def test_so_many_more_as_are_missing_suffice(
    state: State, score: int, samples: int, grants: int
) -> None:
    """With as many fresh granted traces as are named, samples and grants are no reason any more."""
    made = Rules()
    made.mode()
    made.declare("*", "reversible")
    numbers: dict[str, Any] = {"min_score": score / 10**6, "min_samples": samples}
    made.threshold("*", "reversible", min_grants=grants, **numbers)
    words = asked(made, state).missing.replace(",", "").split("; ")
    more = max((int(one.split()[0]) for one in words if " more " in one), default=0)
    fresh = perfect(NOTES, traces=more)
    grown = replace(
        state,
        num=[a + b for a, b in zip(state.num, fresh.num, strict=True)],
        den=[a + b for a, b in zip(state.den, fresh.den, strict=True)],
    )
    reasons = asked(made, grown).reasons
    assert ReasonCode.TOO_FEW_SAMPLES not in reasons
    assert ReasonCode.TOO_FEW_GRANTS not in reasons


def test_hours_of_a_brake_are_told_to_the_minute() -> None:
    """Rounded up, so that nobody asks too early."""
    made = Rules()
    made.mode()
    made.declare("*", "reversible")
    state = replace(perfect(), last_bad_at=NOW - HOUR + 1, last_grant_at=NOW)
    assert asked(made, state).missing == "braked until 23:01 UTC"
