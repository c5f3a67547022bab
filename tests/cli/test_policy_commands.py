"""The commands of the policy: what operators set, what is asked, and what answers it."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from tests.cli.commands import Shell
from tests.embedded.documents import NOTES, closed, decided, excluded, undone
from trustfold_streams.clock import SystemClock

NAME = (NOTES.tool, NOTES.effect)
ASK = ("decide", *NAME, "--trace", "now", "--step", "s1", "--reversibility", "reversible")
WHY = ("--why", "a good month", "--by", "oscar")


@pytest.fixture
def trusted(shell: Shell) -> Shell:
    """A store in which the notes have earned it, and the policy enforces."""
    now = SystemClock().now()
    for number in range(3):
        trace = f"t{number}"
        shell.ingest(closed(trace, time=now), decided(trace, time=now, step_ids=["a"]))
    for command in (
        ("effect", "declare", "fs_write:*", "--reversibility", "reversible"),
        ("threshold", "set", "fs_write:*", "--band", "reversible", "--min-samples", "2"),
        ("mode", "enforce", "--spot-check-one-in", "0"),
    ):
        assert shell(*command, *WHY).code == 0
    return shell


def one(shell: Shell, *command: str) -> Any:
    """The one JSON object that a command prints."""
    ended = shell(*command, "--json")
    (made,) = ended.json
    return made


# ---- what is set -------------------------------------------------------------------------------


def test_a_threshold_is_set_listed_and_removed(shell: Shell) -> None:
    """What is not given comes from the band's default; a list says who, why and which version."""
    ended = shell("threshold", "set", "a:*", "--band", "reversible", "--min-grants", "7", *WHY)
    assert (ended.code, ended.out) == (
        0,
        "set a:* (reversible), version 1: score 0.65, 20 samples, 7 grants, approval rate 0.9\n",
    )
    shell("threshold", "set", "a:*", "--band", "reversible", "--min-score", "0.7", "--cap", *WHY)
    first, *defaults = shell("threshold", "list", "--json").json
    said = {name: first[name] for name in ("min_score", "min_grants", "version", "by", "why")}
    assert said == {
        "min_score": 0.7,
        "min_grants": 7,
        "version": 2,
        "by": "oscar",
        "why": "a good month",
    }
    assert first["cap_autonomy"] == "approve_required"
    assert [one["risk_band"] for one in defaults] == [
        "reversible",
        "reversible_with_cost",
        "irreversible",
    ]
    assert "a good month" in shell("threshold", "list").out
    assert shell("threshold", "remove", "a:*", "--band", "reversible", *WHY).code == 0
    assert len(shell("threshold", "list", "--json").json) == 3
    assert shell("threshold", "remove", "a:*", "--band", "reversible", *WHY).code == 1


def test_a_stale_version_is_refused(shell: Shell) -> None:
    """`--expect` names the version to replace; another one in force is wrong use."""
    declare = ("effect", "declare", "a:*", "--reversibility", "reversible", *WHY)
    assert shell(*declare, "--expect", "0").code == 0
    ended = shell(*declare, "--expect", "0")
    assert ended.code == 2
    assert "Expected to replace version 1, got 0" in ended.err
    assert shell(*declare).code == 0
    assert one(shell, "effect", "list")["version"] == 2


@pytest.mark.parametrize("score", ["1.5", "-1", "nan", "x", ""])
def test_a_share_outside_its_range_is_wrong_use(shell: Shell, score: str) -> None:
    """A number from 0 to 1, said with what was got."""
    ended = shell("threshold", "set", "a", "--band", "reversible", f"--min-score={score}", *WHY)
    assert ended.code == 2
    assert "Expected a number from 0 to 1" in ended.err


def test_the_shipped_declarations_are_loaded_once(shell: Shell) -> None:
    """What an operator declared or removed stays as it is."""
    first = one(shell, "effect", "load-defaults")
    assert first["declared"] > 20
    assert first["left_as_they_are"] == 0
    glob = shell("effect", "list", "--json").json[0]["effect"]
    assert shell("effect", "remove", glob, *WHY).code == 0
    again = one(shell, "effect", "load-defaults")
    assert again == {"declared": 0, "left_as_they_are": first["declared"]}
    assert shell("effect", "remove", glob, *WHY).code == 1


def test_the_mode_is_shown_and_set(shell: Shell) -> None:
    """Shadow until it is set; a number of spot checks stays until another is given."""
    shell("effect", "declare", "a:*", "--reversibility", "reversible", *WHY)
    assert shell("mode").out.startswith("shadow; one promotion in 20 is asked all the same\n")
    made = one(shell, "mode", "enforce", "--spot-check-one-in", "5", *WHY)
    assert (made["mode"], made["spot_check_one_in"], made["by"]) == ("enforce", 5, "oscar")
    made = one(shell, "mode", "shadow", *WHY)
    assert (made["mode"], made["spot_check_one_in"], made["version"]) == ("shadow", 5, 2)
    assert shell("mode", "enforce").code == 2
    assert shell("mode", "--spot-check-one-in", "1").code == 2
    assert shell("mode", "enforce", "--expect", "1", *WHY).code == 2


# ---- what is asked -----------------------------------------------------------------------------


def test_decide_records_and_peek_does_not(trusted: Shell) -> None:
    """The answer has an id and its grounds; asked again it is the same one."""
    peeked = one(trusted, "peek", *NAME)
    assert "decision_id" not in peeked
    made = one(trusted, *ASK)
    assert (made["verdict"], made["via"], made["reason"]) == ("allow", "trust_promoted", "promoted")
    assert made["digest"] == peeked["digest"]
    assert one(trusted, *ASK) == made
    assert made["threshold"]["effect"] == "fs_write:*"
    assert made["at"].endswith("Z")
    out = trusted(*ASK).out
    assert f"decision {made['decision_id']}" in out
    assert "allow (promoted)" in out


def test_check_turns_the_answer_into_an_exit_code(trusted: Shell) -> None:
    """0 for allow, 1 for anything else; without it the answer is no failure."""
    assert trusted(*ASK, "--check").code == 0
    unknown = ("--reversibility", "unknown", "--step", "s2")
    assert trusted(*ASK, *unknown, "--check").code == 1
    ended = trusted(*ASK, *unknown)
    assert ended.code == 0
    assert "unknown_reversibility" in ended.out
    assert trusted("peek", *NAME, "--check").code == 0
    assert trusted("peek", "other", "thing", "--check").code == 1


def test_what_is_missing_is_told(shell: Shell) -> None:
    """A person reads what to do; the one sample there has aged, so that nine more would not do."""
    shell.ingest(closed("t", time=SystemClock().now()))
    shell("effect", "declare", "fs_write:*", "--reversibility", "reversible_with_cost", *WHY)
    assert "missing: 10 more samples; 5 more grants\n" in shell("peek", *NAME).out


def test_revoke_names_globs_or_all(trusted: Shell) -> None:
    """Neither, or both, is wrong use; a revocation ends by its id."""
    assert trusted("revoke", *WHY).code == 2
    assert trusted("revoke", "--all", "--tool", "x", *WHY).code == 2
    made = one(trusted, "revoke", "--tool", "fs_*", *WHY)
    assert (made["tool"], made["effect"], made["scope"]) == ("fs_*", "*", "*")
    assert one(trusted, *ASK)["reason"] == "revoked"
    (listed,) = trusted("reinstate", "--json").json
    assert (listed["id"], listed["why"]) == (made["id"], "a good month")
    assert made["id"] in trusted("reinstate").out
    assert trusted("reinstate", made["id"]).code == 2
    assert trusted("reinstate", made["id"], *WHY).code == 0
    assert trusted("reinstate", made["id"], *WHY).code == 2
    assert trusted("reinstate").out == "nothing is revoked\n"
    assert trusted("peek", *NAME, "--check").code == 0


def test_revoke_all_is_one_word(trusted: Shell) -> None:
    """Nothing is promoted any more, known or not."""
    assert trusted("revoke", "--all", *WHY).code == 0
    assert one(trusted, "peek", *NAME)["reason"] == "revoked"
    assert one(trusted, "peek", "new", "fs_write:new")["reason"] == "revoked"


@pytest.mark.parametrize("role", ["human", "reader"])
def test_only_operators_set_and_only_runtimes_ask(trusted: Shell, role: str) -> None:
    """`--as` another role is refused, and nothing is changed."""
    before = trusted("mode").out
    assert trusted("--as", role, "mode", "shadow", *WHY).code != 0
    assert trusted("mode").out == before
    assert trusted("--as", role, *ASK).code != 0
    assert trusted("--as", "reader", "peek", *NAME).code == 0


def test_a_runtime_cannot_change_the_policy(trusted: Shell) -> None:
    """It asks; it declares, sets, revokes and reinstates nothing."""
    assert trusted("--as", "runtime", *ASK).code == 0
    for command in (
        ("effect", "declare", "*", "--reversibility", "reversible"),
        ("threshold", "set", "*", "--band", "reversible"),
        ("revoke", "--all"),
        ("mode", "enforce"),
    ):
        ended = trusted("--as", "runtime", *command, *WHY)
        assert ended.code == 2
        assert "from the role operator" in ended.err


# ---- looking back ------------------------------------------------------------------------------


def test_why_prints_the_chain_and_that_the_digest_matches(trusted: Shell) -> None:
    """Verdict, step and feedback; the state had again from ledger and facts."""
    made = one(trusted, *ASK)
    now = SystemClock().now()
    step = {"step_id": "s1", "tool": NAME[0], "effect": NAME[1], "status": "ok"}
    step |= {"decision_id": made["decision_id"], "via": "trust_promoted"}
    trusted.ingest(closed("now", step, time=now), undone("now", time=now))
    ended = trusted("why", made["decision_id"])
    assert ended.code == 0
    for words in (
        "allow (promoted)",
        "ok, via trust_promoted, carries the decision",
        "undone",
        "human ann",
        "digest matches",
        "verdict matches",
    ):
        assert words in ended.out
    told = one(trusted, "why", made["decision_id"])
    assert (told["digest_matches"], told["verdict_matches"]) == (True, True)
    assert [(one["said"], one["by"]) for one in told["feedback"]] == [("undone", "human ann")]
    assert told["step"]["decision_id"] == made["decision_id"]


def test_why_names_the_entry_that_differs(trusted: Shell) -> None:
    """After one entry is changed in the file: exit 1, and which one it is."""
    made = one(trusted, *ASK)
    with sqlite3.connect(trusted.store) as connection:
        connection.execute("DROP TRIGGER ledger_stays")
        (position,) = connection.execute(
            "SELECT min(position) FROM events WHERE tool = ?", NAME[:1]
        ).fetchone()
        connection.execute("UPDATE ledger SET a0 = 1 WHERE position = ?", (position,))
    ended = trusted("why", made["decision_id"])
    assert ended.code == 1
    assert "digest DIFFERS" in ended.out
    assert f"ledger entry {position} [" in ended.out
    assert "amount of tool_success is 1, the facts give 1000000" in ended.out
    assert trusted("why", made["decision_id"], "--json").json[0]["digest_matches"] is False


def test_explain_without_names_the_decisions_that_would_differ(trusted: Shell) -> None:
    """Without a trace there are too few samples for the decision."""
    made = one(trusted, *ASK)
    ended = trusted("explain", *NAME, "--without", "t0")
    assert "1 recorded decisions would differ" in ended.out
    assert made["decision_id"] in ended.out
    told = one(trusted, "explain", *NAME, "--without", "t0")
    (differing,) = told["without"]["decisions"]
    assert differing["without"]["missing"] == "1 more sample"
    ended = trusted("explain", *NAME, "--without", "granted/t0")
    assert "every recorded decision would have been the same" in ended.out


def test_impact_lists_what_rested_on_it(trusted: Shell) -> None:
    """By trace and by the event that took it back; a stranger's name is wrong use."""
    made = one(trusted, *ASK)
    trusted.ingest(excluded("t0"))
    for name in ("t0", "exclude/t0"):
        told = one(trusted, "impact", name)
        assert [one["decision_id"] for one in told["rested"]] == [made["decision_id"]]
        assert told["rested"][0]["differs"] is True
    out = trusted("impact", "t0").out
    assert "1 promotions rested on it, 1 would have been asked without" in out
    assert trusted("impact", "nobody").code == 2
    assert one(trusted, "impact", "now")["acted"][0]["decision_id"] == made["decision_id"]


def test_a_dry_run_of_a_rollback_shows_its_impact(trusted: Shell) -> None:
    """Before anything is taken back, the promotions that rested on it."""
    made = one(trusted, *ASK)
    command = ("rollback", *NAME, "--to", "2021-01-01", *WHY, "--dry-run")
    told = one(trusted, *command)
    assert [one["decision_id"] for one in told["rested"]] == [made["decision_id"]]
    assert made["decision_id"] in trusted(*command).out
