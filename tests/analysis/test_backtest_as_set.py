"""`--as-set`: the policy that is set in a log, held against what it would have decided itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import START, WRITE, Story, log_of
from tests.cli.commands import Shell
from tests.oracles.histories import Draft, told, wild_histories
from trustfold_projections.analysis.backtest.history import read_history
from trustfold_projections.analysis.backtest.reference import verdicts
from trustfold_projections.analysis.backtest.rules import AsSet, Trust, policies, thresholds_with
from trustfold_projections.analysis.backtest.run import backtest
from trustfold_projections.laws.fold import refold
from trustfold_projections.laws.policy import Policy, decide, policy_of
from trustfold_schemas.decisions import Action
from trustfold_schemas.instants import HOUR

BANDS = ("reversible", "reversible_with_cost", "irreversible")
GLOBS = ("*", "fs_write:*", "invoke", "fs_write:~/notes/*")
WHO = {"by": "ops", "why": "a test"}


@st.composite
def policies_set(draw: st.DrawFn) -> Policy:
    """Thresholds that are easily met, declarations, a cap and a revocation, of any globs."""
    story = Story()

    def tell(kind: str, **data: Any) -> None:
        story.tell(kind, START, **data, **WHO)

    for glob in draw(st.lists(st.sampled_from(GLOBS), unique=True)):
        tell("effect.declared", effect=glob, reversibility=draw(st.sampled_from(BANDS[:2])))
    places = st.tuples(st.sampled_from(GLOBS), st.sampled_from(BANDS))
    for glob, band in draw(st.lists(places, max_size=4, unique=True)):
        cap = {"cap_autonomy": "approve_required"} if draw(st.integers(0, 5)) == 5 else {}
        number = st.sampled_from((0, 0.4, 0.775))
        tell(
            "threshold.set", effect=glob, risk_band=band, min_score=draw(number),
            min_samples=draw(st.integers(0, 2)), min_grants=draw(st.integers(0, 1)),
            min_approval_rate=draw(number), **cap,
        )  # fmt: skip
    if draw(st.integers(0, 3)) == 3:
        tell("trust.revoked", effect=draw(st.sampled_from(GLOBS)), scope="team")
    return policy_of(story.log.policy())


@given(wild_histories(), policies_set())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_is_what_the_policy_would_have_decided(history: list[Draft], policy: Policy) -> None:
    """Each verdict is that of `decide` on the state strictly before, on both paths."""
    made = read_history(log_of(told(history)))
    as_set = AsSet("as set", policy)
    for subject, one in made.items():
        for action, [allowed] in verdicts(subject, one, [as_set]):
            known = refold(subject, [e for e in one.entries if e.recorded < action.moment])
            asked = Action(subject, action.reversibility, action.trace_id, action.step_id)
            assert allowed == (decide(known, policy, asked, action.moment).would_be == "allow")
    assert backtest(made, [as_set], exact_actions=0) == backtest(made, [as_set])


def test_the_command_reads_what_is_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing declared, nothing promoted; a declaration and a low threshold let days pass."""
    shell = Shell(tmp_path, capsys, monkeypatch)
    story = Story()
    moment = story.clean_days(10)
    story.close("asked", moment, WRITE | {"via": "human"})
    shell.ingest(*(fact.document for fact in story.facts))

    def allowed(*options: str) -> dict[str, int]:
        rows = shell("backtest", "--as-set", "--as-happened", "--json", *options).json
        return {row["policy"]: row["allowed"] for row in rows if row["scope"] is None}

    assert allowed()["as set"] == 0
    story = Story()
    story.facts = [None] * 50  # type: ignore[list-item] # other event ids
    story.tell("effect.declared", moment, effect="fs_write:*", reversibility="reversible", **WHO)
    story.tell(
        "threshold.set", moment + HOUR, effect="fs_write:*", risk_band="reversible",
        min_score=0.5, min_samples=3, min_grants=0, min_approval_rate=0.9, **WHO,
    )  # fmt: skip
    shell.ingest(*(fact.document for fact in story.facts[50:]))
    assert allowed()["as set"] == 7
    shell("archive", "kept")
    assert allowed("--store", "archive:kept") == allowed()
    names = [one.name for one in policies([Trust("t", thresholds_with())], as_set=Policy())]
    assert names[:2] == ["t", "as set"]
