"""The shipped declarations are events that a log takes, and the documentation is their table."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from msgspec import to_builtins

from trustfold_projections.laws.policy import Declaration, Policy, SaidBy
from trustfold_schemas.actions import Author
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.policy_events import EffectDeclaredEvent
from trustfold_streams.importers.declarations import shipped_declarations
from trustfold_streams.importers.table_rows import ClassRow, classes

NOW = 1_780_012_800_000_000
GUIDE = Path(__file__).parents[2] / "docs" / "effect-classes.md"


def test_every_declaration_is_an_event() -> None:
    """Each row of known reversibility can be said to the log `policy`, and no glob twice."""
    shipped = list(shipped_declarations("ann"))
    for one in shipped:
        author = Author("test", f"load/{one.effect}", NOW)
        event = decode_event(author.write(EffectDeclaredEvent, to_builtins(one)))
        assert isinstance(event, EffectDeclaredEvent)
        assert event.data == one
    assert len({one.effect for one in shipped}) == len(shipped) > 30


def test_what_is_unknown_is_not_declared() -> None:
    """No declaration matches by its very text a class whose reversibility is unknown."""
    declared = {one.effect for one in shipped_declarations("ann")}
    unknown = {row.effect for row in (*classes().shell, *classes().effect)} - declared
    assert unknown == {
        *("shell:unknown", "agent:run", "agent:skill", "process:input", "mcp_write:*"),
        *("mcp:*", "unknown"),
    }


def test_the_strictness_of_shell_classes_never_goes_back() -> None:
    """What is further down the table of shell lines can be taken back no better."""
    bands = ["reversible", "reversible_with_cost", "irreversible", "unknown"]
    order = [bands.index(row.reversibility) for row in classes().shell]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("effect", "wanted"),
    [
        ("fs_read:./src/*", "reversible"),
        ("fs_read:./.*", "reversible"),
        ("fs_read:~/notes/*", "reversible"),
        ("fs_read:~/.ssh/*", "irreversible"),
        ("fs_read:outside/parent", "reversible_with_cost"),
        ("fs_write:./*", "reversible_with_cost"),
        ("fs_write:./**", "reversible_with_cost"),
        ("fs_write:./src/*", "reversible_with_cost"),
        ("fs_write:./.git/*", "irreversible"),
        ("fs_write:./.**", "irreversible"),
        ("fs_write:./.*", "irreversible"),
        ("fs_write:~/.*", "irreversible"),
        ("fs_write:tmp/*", "reversible_with_cost"),
        ("fs_write:outside/link", "irreversible"),
        ("fs_delete:./src/*", "irreversible"),
        ("shell:read", "reversible"),
        ("shell:check", "reversible_with_cost"),
        ("shell:run", "irreversible"),
        ("shell:unknown", None),
        ("mcp_read:linear", "reversible_with_cost"),
        ("mcp_write:linear", None),
        ("mcp_delete:db", "irreversible"),
        ("unknown", None),
    ],
)
def test_the_policy_reads_the_declarations_as_they_are_meant(
    effect: str, wanted: str | None
) -> None:
    """By its order of globs the narrower row holds, and what is unknown stays undeclared."""
    shipped = {
        one.effect: Declaration(one.effect, one.reversibility, 1, SaidBy(one.by, one.why, NOW))
        for one in shipped_declarations("ann")
    }
    ruling = Policy(declarations=shipped).ruling(effect)
    assert (ruling.declaration and ruling.declaration.reversibility) == wanted


def test_the_guide_shows_the_table() -> None:
    """docs/effect-classes.md lists every class as the data file has it, in its order."""
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith("| `")]
    assert shown == [_line(row) for row in (*classes().shell, *classes().effect)]


def test_the_examples_of_the_guide_are_true() -> None:
    """What the guide shows is what comes out."""
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert (found.failed, found.attempted > 3) == (0, True)


def _line(row: ClassRow) -> str:
    return f"| `{row.effect}` | {row.reversibility} | {row.why} |"
