"""`self-play`, `synapse`, `reward` and `reflect`, as a runtime in any language would use them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.commands import Shell
from tests.embedded.documents import closed, decided, step, synthesized
from tests.oracles.histories import RECORDED_FROM, rfc3339
from trustfold_schemas.subject import Subject

QUESTION: dict[str, Any] = {
    "context": "budget",
    "critic": "judge",
    "critic_cost_usd": 0.05,
    "budget_usd": 1,
    "candidates": [{"neuron": "alpha"}, {"neuron": "beta", "effects": ["fs_read:./*"]}],
}
PLAYED: dict[str, Any] = {
    "context": "budget",
    "winner": "beta",
    "loser": "alpha",
    "critic": "judge",
    "verdict": "shorter",
    "critic_cost_usd": 0.01,
}
MEASURED: dict[str, Any] = {
    "neuron": "budget",
    "tests": [{"name": "sums", "passed": True}],
    "judge": {"score": 0.6, "words": "law.1 borderline"},
    "cost": {"actual_usd": 0.02, "estimated_usd": 0.02},
    "coverage": {"bonus": 0.2, "effects": ["net:bank"]},
}
GOOD = Subject("", "shell", "shell:read")
BAD = Subject("", "shell", "shell:run")


def line(data: dict[str, Any], **change: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(data | change).encode()


def declare(shell: Shell) -> None:
    """Say how far reading can be taken back."""
    declared = ("declare", "fs_read:./*", "--reversibility", "reversible", "--why", "reads")
    assert shell("effect", *declared).code == 0


def test_a_plan_names_who_plays_and_in_how_many_orders(shell: Shell) -> None:
    """Two close candidates play; with money for both orders the critic judges both."""
    declare(shell)
    (plan,) = shell("self-play", "plan", "-", "--json", stdin=line(QUESTION)).json
    assert plan["play"] is True
    assert plan["competitors"] == ["alpha", "beta"]
    assert (plan["orders"], plan["use"], plan["weights"]) == (
        2,
        "alpha",
        {"alpha": 500, "beta": 500},
    )


@pytest.mark.parametrize(
    ("change", "via"),
    [
        ({"budget_usd": 0.01, "candidates": [{"neuron": "alpha"}, {"neuron": "b"}]}, "budget"),
        ({"candidates": [{"neuron": "alpha"}]}, "no_contest"),
        ({"candidates": [{"neuron": "alpha"}, {"neuron": "judge"}]}, "no_contest"),
        (
            {"candidates": [{"neuron": "alpha"}, {"neuron": "b", "effects": ["telegram_send:*"]}]},
            "irreversible",
        ),
    ],
)
def test_a_plan_says_why_nobody_plays(shell: Shell, change: dict[str, Any], via: str) -> None:
    """The seed's rows, and whom to use instead."""
    ended = shell("self-play", "plan", "-", "--json", "--check", stdin=line(QUESTION, **change))
    assert (ended.code, ended.json[0]["play"], ended.json[0]["via"]) == (1, False, via)
    assert ended.json[0]["use"] == "alpha"
    assert list(shell.folder.iterdir()) == []


def test_what_is_recorded_moves_the_synapse_and_the_next_plan(shell: Shell) -> None:
    """After two wins the winner is 0.15 ahead, and nobody plays any more."""
    ended = shell("self-play", "record", "-", "--json", stdin=line(PLAYED) + b"\n" + line(PLAYED))
    assert ended.code == 0
    assert len({one["event_id"] for one in ended.json}) == 2
    shown = shell("synapse", "budget", "--json").json
    assert [(one["neuron"], one["weight"]) for one in shown] == [("beta", 600), ("alpha", 450)]
    assert "0.600" in shell("synapse").out
    assert shell("synapse", "--neuron", "alpha", "--json").json == [
        {"context": "budget", "scope": "", "neuron": "alpha", "weight": 450}
    ]
    candidates = [{"neuron": "alpha"}, {"neuron": "beta"}]
    (plan,) = shell(
        "self-play", "plan", "-", "--json", stdin=line(QUESTION, candidates=candidates)
    ).json
    assert (plan["via"], plan["use"]) == ("no_contest", "beta")


def test_a_line_with_id_and_time_is_a_duplicate_the_second_time(shell: Shell) -> None:
    """A runtime that does not know whether it was heard may say it again."""
    told = line(PLAYED, id="s1", time=rfc3339(RECORDED_FROM))
    for _ in range(2):
        assert shell("self-play", "record", "-", stdin=told).code == 0
    assert shell("synapse", "--json").json[0]["weight"] == 550
    ended = shell(
        "self-play", "record", "-", stdin=line(PLAYED, id="s1", time=rfc3339(RECORDED_FROM + 1))
    )
    assert ended.code == 2
    assert "s1" in ended.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"critic": "beta"}, "a critic that is no competitor"),
        ({"loser": "beta"}, "two competitors"),
        ({"critic_cost_usd": -1}, "critic_cost_usd"),
        ({"context": ""}, "context"),
        ({"time": 3}, "time"),
    ],
)
def test_what_cannot_be_recorded_is_wrong_use(
    shell: Shell, change: dict[str, Any], said: str
) -> None:
    """The line and the field are named, and nothing is written."""
    ended = shell("self-play", "record", "-", stdin=line(PLAYED, **change))
    assert ended.code == 2
    assert "standard input:1" in ended.err
    assert said in ended.err
    assert list(shell.folder.iterdir()) == []


def test_a_synapse_where_nobody_played_is_exit_one(shell: Shell) -> None:
    """An empty answer is said, and told apart from a store that is not there."""
    missing = shell("synapse")
    assert missing.code != 1
    assert "no store" in missing.err
    shell.ingest(synthesized("alpha"))
    ended = shell("synapse", "budget")
    assert (ended.code, ended.out) == (1, "")
    assert "nobody played" in ended.err


def test_a_reward_is_a_dossier_and_prose(shell: Shell) -> None:
    """JSON holds the terms, the text the words; below the gate `--check` exits 1."""
    (made,) = shell("reward", "-", "--json", stdin=line(MEASURED)).json
    assert (made["reward"], made["passes"], made["neuron"]) == (0.72, True, "budget")
    assert sum(made["terms"].values()) == pytest.approx(0.72)
    low = line(MEASURED, tests=[{"name": "sums", "passed": False}])
    ended = shell("reward", "-", "--prose", "--check", stdin=low)
    assert ended.code == 1
    assert "1 of 1 tests are red: sums." in ended.out
    assert "law.1 borderline" in ended.out
    assert "R approves nothing" in shell("reward", "-", stdin=line(MEASURED)).out
    assert list(shell.folder.iterdir()) == []


def test_an_approved_neuron_is_born_with_its_reward(shell: Shell) -> None:
    """The seed's row: R = 0.72 is 0.72 with one sample; a second birth is refused."""
    ended = shell("reward", "-", "--approved-by", "roberto", "--json", stdin=line(MEASURED))
    assert ended.code == 0
    assert ended.json[0]["event_id"]
    (score,) = shell("score", "neuron:budget", "invoke", "--json").json
    assert (score["n_samples"], round(score["raw_score"], 6)) == (1, 0.72)
    again = shell("reward", "-", "--approved-by", "roberto", stdin=line(MEASURED))
    assert again.code == 2
    assert "was seeded by" in again.err


def test_nobody_is_born_below_the_gate(shell: Shell) -> None:
    """One draft below the gate, and none of the file is published."""
    low = line(MEASURED, neuron="low", judge={"score": 0})
    ended = shell("reward", "-", "--approved-by", "roberto", stdin=line(MEASURED) + b"\n" + low)
    assert ended.code == 2
    assert "low has R = 0.57" in ended.err
    assert shell("score", "neuron:budget", "invoke").code == 1


def test_proposals_are_ranked_and_dropped(shell: Shell) -> None:
    """The best is first; below 0.5 and without history nothing is proposed."""
    shell.ingest(closed("t1", step("a", GOOD), step("b", BAD, "error")), *_denied())
    told = b"\n".join(
        line({"id": name, "subjects": subjects})
        for name, subjects in (
            ("bad", [GOOD, BAD]),
            ("ghost", [["", "shell", "shell:ghost"]]),
            ("good", [GOOD]),
        )
    )
    made = shell("reflect", "proposals", "-", "--json", stdin=told).json
    assert [(one["id"], one["kept"]) for one in made] == [
        ("good", True),
        ("bad", False),
        ("ghost", False),
    ]
    assert [one.get("reason") for one in made] == [None, "below", "no_history"]
    shown = shell("reflect", "proposals", "-", stdin=told).out
    assert "dropped ghost: no_history" in shown


def _denied() -> tuple[bytes, ...]:
    return (decided("t1", "denied", step_ids=["b"]),)


def test_movers_come_with_their_evidence(shell: Shell) -> None:
    """Over all time every subject is new, and the trace is what moved it."""
    shell.ingest(closed("t1", step("a", GOOD)), closed("t2", step("a", BAD, "error")))
    made = shell("reflect", "movers", "--from", "2020-01-01", "--json").json
    by = {tuple(one["subject"]): one for one in made}
    assert by[GOOD]["is_new"] is True
    assert by[GOOD]["change"] > by[BAD]["change"]
    assert [one["trace_id"] for one in by[BAD]["evidence"]] == ["t2"]
    assert "t2" in shell("reflect", "movers", "--from", "2020-01-01").out
    happened = rfc3339(RECORDED_FROM - 10 * 86_400_000_000)
    window = ("--from", happened, "--to", rfc3339(RECORDED_FROM))
    assert shell("reflect", "movers", *window, "--json").json == []
    assert {
        tuple(one["subject"])
        for one in shell("reflect", "movers", *window, "--occurred", "--json").json
    } >= {GOOD, BAD}
    ended = shell("reflect", "movers", "--from", "2026-01-02", "--to", "2026-01-01")
    assert ended.code == 2


def test_flatterers_are_found(shell: Shell) -> None:
    """Approved and failing is found; `--check` exits 1."""
    for number in range(5):
        name = f"s{number}"
        shell.ingest(closed(name, step("a", BAD, "error")), decided(name, step_ids=["a"]))
    ended = shell("reflect", "flatterers", "--check", "--json")
    assert ended.code == 1
    assert [(one["subject"], one["n_samples"]) for one in ended.json] == [(list(BAD), 5)]
    assert shell("reflect", "flatterers", "--samples", "6", "--check").code == 0
    assert "shell:run" in shell("reflect", "flatterers").out
