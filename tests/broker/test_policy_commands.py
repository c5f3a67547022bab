"""The commands of the policy with `--store kafka://...`, against a real broker and a worker."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.broker.command_pipelines import Pipeline, Run, configure
from tests.cli.commands import Shell
from tests.embedded.documents import closed, decided, event, undone
from trustfold_streams.clock import SystemClock

pytestmark = pytest.mark.broker

WHY = ("--why", "a trial", "--by", "oscar")


def one(run: Run, *command: str) -> Any:
    """The one JSON object that a command prints."""
    ended = run(*command, "--json")
    assert ended.code == 0, ended
    (made,) = ended.json
    return made


def test_a_subject_earns_it_acts_and_loses_it(pipeline: Pipeline, run: Run, shell: Shell) -> None:
    """Declared, set, enforced, asked, followed back, undone and revoked: all on a broker."""
    name = uuid.uuid4().hex[:8]
    tool, effect = f"tool-{name}", f"fs_write:~/{name}/*"
    now = SystemClock().now()
    step = {"step_id": "a", "tool": tool, "effect": effect, "status": "ok"}
    lines = [closed(f"{name}/{n}", step, time=now) for n in range(3)]
    lines += [decided(f"{name}/{n}", time=now, step_ids=["a"]) for n in range(3)]
    assert run("ingest", shell.file(lines), "--strict").code == 0
    glob = f"fs_write:~/{name}/*"
    assert run("effect", "declare", glob, "--reversibility", "reversible", *WHY).code == 0
    declare = ("effect", "declare", glob, "--reversibility", "irreversible", "--expect", "0")
    stale = run(*declare, *WHY)
    assert stale.code == 2
    assert "Expected to replace version 1, got 0" in stale.err
    words = ("--band", "reversible", "--min-samples", "2", "--min-grants", "2", *WHY)
    assert one(run, "threshold", "set", glob, *words)["version"] == 1
    assert run("mode", "enforce", "--spot-check-one-in", "0", *WHY).code == 0
    listed = {made["effect"]: made for made in run("effect", "list", "--json").json}
    assert (listed[glob]["reversibility"], listed[glob]["by"]) == ("reversible", "oscar")
    pipeline.caught_up()

    ask = ("decide", tool, effect, "--trace", f"{name}/now", "--reversibility", "reversible")
    made = one(run, *ask, "--step", "s1")
    assert (made["verdict"], made["via"]) == ("allow", "trust_promoted")
    assert one(run, *ask, "--step", "s1")["decision_id"] == made["decision_id"]
    assert run("peek", tool, effect, "--check").code == 0

    acting = step | {"step_id": "s1", "decision_id": made["decision_id"], "via": "trust_promoted"}
    told = [closed(f"{name}/now", acting, time=now), undone(f"{name}/now", time=now)]
    assert run("ingest", shell.file(told), "--strict").code == 0
    pipeline.caught_up()
    why = run("why", made["decision_id"])
    assert why.code == 0, why
    for words_of_it in ("carries the decision", "undone", "digest matches", "verdict matches"):
        assert words_of_it in why.out
    told_of = one(run, "impact", f"{name}/0")
    assert [each["decision_id"] for each in told_of["rested"]] == [made["decision_id"]]
    acted = one(run, "impact", f"undo/{name}/now")["acted"]
    assert [each["decision_id"] for each in acted] == [made["decision_id"]]
    without = one(run, "explain", tool, effect, "--without", f"{name}/0")["without"]
    assert [each["decision_id"] for each in without["decisions"]] == [made["decision_id"]]
    dry = ("rollback", tool, effect, "--to", "2026-01-01", *WHY, "--dry-run")
    assert [each["decision_id"] for each in one(run, *dry)["rested"]] == [made["decision_id"]]
    braked = one(run, *ask, "--step", "s2")
    assert (braked["verdict"], braked["reason"]) == ("approve_required", "braked")

    revoked = one(run, "revoke", "--tool", f"*{name}", *WHY)["id"]
    assert one(run, "peek", tool, effect)["reason"] == "revoked"
    assert revoked in run("reinstate").out
    told_of = one(run, "impact", revoked)
    assert [each["decision_id"] for each in told_of["acted"]] == [made["decision_id"]]
    assert run("reinstate", revoked, *WHY).code == 0
    assert one(run, "peek", tool, effect)["reason"] == "braked"


def test_a_role_may_not_say_what_is_not_its_own(run: Run) -> None:
    """A runtime sets nothing, an operator does not ask, a reader does neither."""
    ask = ("decide", "x", "y", "--trace", "t", "--step", "s", "--reversibility", "reversible")
    for role, command in (
        ("runtime", ("mode", "enforce", *WHY)),
        ("operator", ask),
        ("reader", ask),
        ("reader", ("revoke", "--all", *WHY)),
    ):
        assert run("--as", role, *command).code == 2, (role, command)
    assert run("--as", "reader", "peek", "x", "y").code == 0


def test_without_a_worker_nothing_is_promoted(
    idle: Pipeline, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy can be set and asked; it says that the table is stale."""
    configure(monkeypatch, idle)

    def run(*arguments: str) -> Any:
        return shell(*arguments, "--store", idle.store)

    assert run("effect", "declare", "*", "--reversibility", "reversible", *WHY).code == 0
    assert run("mode", "enforce", *WHY).code == 0
    ended = run("decide", "x", "y", "--trace", "t", "--step", "s", "--reversibility", "reversible")
    assert ended.code == 0
    assert "approve_required (stale, no_history" in ended.out
    assert "is a worker running?" in ended.out
    assert run("why", "nobody").code == 2


def test_a_mode_that_is_none_stops_nobody(run: Run) -> None:
    """It is refused where it is published, and what is in force stays so."""
    made = run("ingest", "-", stdin=event("policy.mode", uuid.uuid4().hex, {"mode": "maybe"}))
    assert made.code == 0
    assert run("mode").code == 0
