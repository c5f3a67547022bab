"""Explain, roll back, exclude, repair: what an auditor does at the command line."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Shell
from tests.embedded.documents import (
    DAY,
    NOTES,
    SECOND,
    SHELL,
    TIME,
    closed,
    decided,
    median,
    numbered,
    step,
    undone,
)
from tests.embedded.feeding import query
from tests.embedded.tampering import tamper
from tests.oracles.histories import RECORDED_FROM, rfc3339
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

NAME = (NOTES.tool, NOTES.effect)
AT = rfc3339(TIME + 40 * DAY)
WHY = ("--why", "a broken sensor")

MONTH = [
    median(),
    *(closed(f"t{n}", time=TIME + n * DAY, cost_usd=0.005) for n in range(4)),
    decided("t0", time=TIME),
    decided("t1", "denied", time=TIME + DAY),
    closed("t4", step("a", status="error"), step("b"), step("c", SHELL), time=TIME + 5 * DAY),
    undone("t2", time=TIME + 2 * DAY),
]


def recorded_long_ago(path: Path, *batches: list[bytes]) -> list[int]:
    """Ingest batches a minute apart, before this machine's clock; the moment after each."""
    clock = ManualClock(RECORDED_FROM + 10 * DAY)
    moments = []
    with EmbeddedStore.open(path, clock=clock) as store:
        for batch in batches:
            summary = store.ingest(numbered(batch))
            assert summary.accepted == summary.total
            clock.advance(30 * SECOND)
            moments.append(clock.now())
            clock.advance(30 * SECOND)
    return moments


def explained(shell: Shell, *options: str) -> Any:
    """The notes' score taken apart, as JSON."""
    (made,) = shell("explain", *NAME, "--at", AT, "--json", *options).json
    return made


def score_of(shell: Shell) -> Any:
    """The notes' score as `score --json` prints it."""
    (line,) = shell("score", *NAME, "--at", AT, "--json").json
    return line


def facts(shell: Shell) -> int:
    """How many facts the store holds."""
    ((count,),) = query(shell.store, "SELECT count(*) FROM facts")
    return int(count)


# ---- explain -----------------------------------------------------------------------------------

ROW = re.compile(
    r"(?P<component>[a-z_]+) +(?P<total>[\d.]+) +(?P<weight>[\d.]+) +"
    r"(?P<minus>1 - )?(?P<value>[\d.]+) +(?P<share>[\d.]+) +(?P<term>[\d.]+) *"
)


def test_a_printed_score_can_be_recomputed_by_hand(shell: Shell) -> None:
    """Totals, weights, values, shares and terms of the table multiply and add up to the score."""
    recorded_long_ago(shell.store, MONTH)
    out = shell("explain", *NAME, "--at", AT).out
    rows = [row for row in map(ROW.fullmatch, out.splitlines()) if row is not None]
    assert [row["component"] for row in rows] == [
        "tool_success",
        "human_approval_rate",
        "cost_efficiency",
        "constitution_clean",
        "undo_rate",
    ]
    terms = []
    for row in rows:
        value = float(row["value"])
        assert value == pytest.approx(float(row["total"]) / float(row["weight"]), abs=2e-4)
        good = 1 - value if row["minus"] else value
        terms.append(float(row["term"]))
        assert terms[-1] == pytest.approx(float(row["share"]) * good, abs=1e-6)
    raw_score, freshness, score = (
        float(re.search(rf"^{name} .*?([\d.]+) *$", out, re.MULTILINE)[1])  # type: ignore[index]
        for name in ("raw_score", "x freshness", "= score at")
    )
    assert raw_score == pytest.approx(sum(terms), abs=4e-6)
    assert score == pytest.approx(raw_score * freshness, abs=2e-6)
    line = score_of(shell)
    assert (f"{line['raw_score']:.6f}", f"{line['score']:.6f}") == (
        f"{raw_score:.6f}",
        f"{score:.6f}",
    )


def test_explain_as_json_adds_up(shell: Shell) -> None:
    """The same in full precision: terms to raw_score, raw_score times freshness to score."""
    recorded_long_ago(shell.store, MONTH)
    made = explained(shell)
    for term in made["terms"]:
        assert term["value"] == pytest.approx(term["total"] / term["weight"], rel=1e-12)
    assert made["raw_score"] == pytest.approx(sum(term["term"] for term in made["terms"]))
    assert made["score"] == pytest.approx(made["raw_score"] * made["freshness"])
    line = score_of(shell)
    assert (made["raw_score"], made["score"], made["n_samples"]) == (
        line["raw_score"],
        line["score"],
        line["n_samples"],
    )


def test_explain_says_what_each_entry_moved(shell: Shell) -> None:
    """Each entry begins where the one before ended, and the last ends at the raw_score."""
    recorded_long_ago(shell.store, MONTH)
    made = explained(shell, "--latest", "100")
    latest = made["latest"]
    assert len(latest) == made["entries"]
    assert latest[-1]["raw_score_after"] == made["raw_score"]
    for one, other in pairwise(latest):
        assert one["raw_score_after"] == other["raw_score_before"]
    assert len(explained(shell, "--latest", "3")["latest"]) == 3
    assert explained(shell, "--latest", "0")["latest"] == []


@pytest.mark.parametrize(
    ("name", "without"),
    [
        pytest.param("t1", ("close/t1", "denied/t1"), id="a trace"),
        pytest.param("denied/t1", ("denied/t1",), id="an answer"),
        pytest.param("undo/t2", ("undo/t2",), id="an undo"),
        pytest.param("close/t4", ("close/t4",), id="a close"),
    ],
)
def test_explain_without_is_as_if_it_had_never_been(
    shell: Shell, name: str, without: tuple[str, ...]
) -> None:
    """The score without an event or a trace is that of a store which never heard of it."""
    recorded_long_ago(shell.store, MONTH)
    other = shell.folder / "other.db"
    left = [body for body in MONTH if not any(f'"{one}"'.encode() in body for one in without)]
    assert len(left) == len(MONTH) - len(without)
    recorded_long_ago(other, left)
    made = explained(shell, "--without", name)
    (expected,) = shell("score", *NAME, "--at", AT, "--json", "--store", str(other)).json
    for key in ("raw_score", "score", "n_samples", "last_bad_at", "last_grant_at"):
        assert made["without"][key] == expected[key], key
    assert made["score"] == score_of(shell)["score"]
    out = shell("explain", *NAME, "--at", AT, "--without", name).out
    assert f"without {name}" in out
    assert f"{expected['raw_score']:.6f}" in out


def test_explain_without_an_unknown_name_is_exit_2(shell: Shell) -> None:
    """What is in no log cannot be left out, and is named."""
    recorded_long_ago(shell.store, MONTH)
    ended = shell("explain", *NAME, "--without", "t99")
    assert (ended.code, ended.out) == (2, "")
    assert "'t99'" in ended.err


@pytest.mark.parametrize("options", [[], ["--json"], ["--without", "t1"]])
def test_explain_of_an_unknown_subject_is_exit_1(shell: Shell, options: list[str]) -> None:
    """Of what nothing was recorded nothing is printed; the message repeats the name."""
    recorded_long_ago(shell.store, MONTH)
    ended = shell("explain", "nobody", "invoke", *options)
    assert (ended.code, ended.out) == (1, "")
    assert "nobody" in ended.err


# ---- rollback and lift -------------------------------------------------------------------------


@pytest.fixture
def between(shell: Shell) -> str:
    """The moment between two halves of the month, both in the store."""
    moment, _ = recorded_long_ago(shell.store, MONTH[:5], MONTH[5:])
    return rfc3339(moment)


def test_a_dry_run_publishes_nothing_and_foresees_the_rollback(shell: Shell, between: str) -> None:
    """It shows before and after; the rollback itself then does just that."""
    before = score_of(shell)
    (foreseen,) = shell("rollback", *NAME, "--to", between, *WHY, "--dry-run", "--json").json
    assert (foreseen["id"], foreseen["dry_run"]) == (None, True)
    assert (score_of(shell), facts(shell)) == (before, len(MONTH))
    assert "would change" in shell("rollback", *NAME, "--to", between, *WHY, "--dry-run").out
    (done,) = shell("rollback", *NAME, "--to", between, *WHY, "--json").json
    assert facts(shell) == len(MONTH) + 1
    for state in ("before", "after"):
        assert done[state]["digest"] == foreseen[state]["digest"]
    assert done["before"]["digest"] == before["digest"]
    assert done["after"]["n_samples"] == 4


def test_a_rollback_is_lifted_by_its_id(shell: Shell, between: str) -> None:
    """`rollback` prints the id that `lift` takes; after both all is as it was."""
    before = score_of(shell)
    out = shell("rollback", *NAME, "--to", between, *WHY).out
    (rollback_id,) = re.findall(r"^rollback ([0-9a-f-]{36}): ", out)
    rolled_back = score_of(shell)
    assert rolled_back["digest"] != before["digest"]
    assert [one["id"] for one in explained(shell)["rollbacks"]] == [rollback_id]
    assert rollback_id in shell("explain", *NAME).out

    (foreseen,) = shell("lift", rollback_id, *WHY, "--dry-run", "--json").json
    assert score_of(shell) == rolled_back
    (lifted,) = shell("lift", rollback_id, *WHY, "--json").json
    assert lifted["id"] == rollback_id
    assert lifted["after"]["digest"] == foreseen["after"]["digest"]
    assert score_of(shell)["digest"] == before["digest"]
    assert explained(shell)["rollbacks"] == []
    assert shell("verify").code == 0


def test_a_rollback_is_kept_with_who_and_why(shell: Shell, between: str) -> None:
    """The fact says by whom and for what reason; without --by it is the login name."""
    shell("rollback", *NAME, "--to", between, "--why", "the key leaked", "--by", "ann")
    rows = query(
        shell.store,
        "SELECT json_extract(body, '$.data.by'), json_extract(body, '$.data.why') FROM facts "
        "WHERE type = 'subject.rolled_back.v1'",
    )
    assert rows == [("ann", "the key leaked")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rollback", *NAME, "--to", "2026-06-01", "--why", ""), "--why"),
        (("rollback", *NAME, "--to", "2026-06-01", "--why", "  "), "--why"),
        (("rollback", *NAME, "--to", "2026-06-01"), "--why"),
        (("rollback", *NAME, *WHY), "--to"),
        (("rollback", *NAME, "--to", "2199-01-01", *WHY), "has not come"),
        (("rollback", *NAME, "--to", "yesterday", *WHY), "yesterday"),
        (("lift", "r99", *WHY), "'r99'"),
        (("lift", "r99", "--dry-run", *WHY), "'r99'"),
        (("lift", "r99", "--why", ""), "--why"),
        (("exclude", "t99", *WHY), "'t99'"),
        (("include", "t99", *WHY), "'t99'"),
        (("exclude", "t1", "--why", ""), "--why"),
        (("include", "t1", "--why", ""), "--why"),
        (("exclude", "t1"), "--why"),
    ],
)
def test_what_cannot_be_taken_back_is_exit_2(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    """No reason, no moment, no such name: wrong use, said why, and nothing is published."""
    recorded_long_ago(shell.store, MONTH)
    ended = shell(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert facts(shell) == len(MONTH)
    assert query(shell.store, "SELECT count(*) FROM dead_letters") == [(0,)]


def test_a_rollback_of_an_unknown_subject_is_exit_1(shell: Shell) -> None:
    """Of what nothing was recorded nothing can be taken back."""
    recorded_long_ago(shell.store, MONTH)
    ended = shell("rollback", "nobody", "invoke", "--to", "2026-06-01", *WHY)
    assert (ended.code, ended.out) == (1, "")
    assert "nobody" in ended.err
    assert facts(shell) == len(MONTH)


# ---- exclude and include -----------------------------------------------------------------------


def test_a_trace_is_excluded_and_included_again(shell: Shell) -> None:
    """Its evidence goes and comes back; the brake that the exclusion set stays."""
    recorded_long_ago(shell.store, MONTH)
    before = score_of(shell)
    assert shell("exclude", "t4", *WHY) == (0, "excluded trace t4\n", "")
    excluded = score_of(shell)
    assert excluded["n_samples"] == before["n_samples"] - 1
    assert excluded["raw_score"] > before["raw_score"]
    assert excluded["last_bad_at"] > before["last_bad_at"]
    assert shell("include", "t4", *WHY, "--json").json == [{"included": "t4"}]
    included = score_of(shell)
    assert (included["raw_score"], included["n_samples"]) == (
        before["raw_score"],
        before["n_samples"],
    )
    assert included["last_bad_at"] == excluded["last_bad_at"]
    assert shell("verify").code == 0


# ---- verify --repair ---------------------------------------------------------------------------


def test_repair_refolds_scores_and_says_which(shell: Shell) -> None:
    """Damaged caches are exit 1 to verify, and exit 0 with --repair, ever after."""
    recorded_long_ago(shell.store, MONTH)
    digest = score_of(shell)["digest"]
    tamper(
        shell.store,
        "UPDATE scores SET digest = zeroblob(32) WHERE subject_id = 1",
        "UPDATE traces SET facts = 9 WHERE trace_id = 't1'",
    )
    assert shell("verify").code == 1
    ended = shell("verify", "--repair")
    assert ended.code == 0
    assert f"refolded the score of {NOTES.tool}" in ended.out
    assert "repaired: 1 scores, 1 trace summaries" in ended.out
    assert shell("verify").code == 0
    assert score_of(shell)["digest"] == digest
    (report,) = shell("verify", "--repair", "--json").json
    assert (report["ok"], report["repaired"]) == (True, {"scores": [], "traces": 0})


def test_repair_does_not_touch_the_ledger(shell: Shell) -> None:
    """What a repair cannot derive stays, is named, and is exit 1."""
    recorded_long_ago(shell.store, MONTH)
    tamper(shell.store, "UPDATE ledger SET a0 = 7 WHERE position = 1")
    before = query(shell.store, "SELECT * FROM ledger")
    ended = shell("verify", "--repair")
    assert ended.code == 1
    assert "difference in ledger: entry 1" in ended.out
    assert query(shell.store, "SELECT * FROM ledger") == before
