"""Every shell line has the class that the table says, and no line is less strict than a part."""

from __future__ import annotations

import shlex
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.importers.shell_lines import SHELL_LINES
from trustfold_streams.importers.places import Places
from trustfold_streams.importers.shell import class_of_call, class_of_line
from trustfold_streams.importers.shell.line import LINE_MAX, _parser, ranks


def rank(line: str) -> int:
    """How strict a line's class is."""
    return ranks()[class_of_line(line).removeprefix("shell:")]


@pytest.mark.parametrize(("wanted", "line"), SHELL_LINES, ids=[line for _, line in SHELL_LINES])
def test_the_table(wanted: str, line: str) -> None:
    """Each line has its class."""
    assert class_of_line(line) == f"shell:{wanted}"


def test_the_table_is_large_and_says_each_line_once() -> None:
    """The table holds at least 150 lines, and every class that a line can have."""
    lines = [line for _, line in SHELL_LINES]
    assert len(set(lines)) == len(lines) >= 150
    assert {wanted for wanted, _ in SHELL_LINES} == set(ranks())


whole = st.sampled_from([line for wanted, line in SHELL_LINES if wanted != "unknown"])
alone = whole.filter(lambda line: "\n" not in line and "#" not in line and line.strip() != "")
anything = st.text(max_size=60) | st.text("rm ls$()`'\"\\{}|&;<>~/.-*#\n!=[]", max_size=40)


@given(whole, whole)
def test_no_line_is_less_strict_than_a_line_of_it(first: str, second: str) -> None:
    """Lines one after the other are as strict as the stricter of them at least."""
    assert rank(f"{first}\n{second}") >= max(rank(first), rank(second))


@given(
    alone,
    alone,
    st.sampled_from(["{a} && {b}", "{a} | {b}", "({a}) || {b}", "if {a}; then {b}; fi"]),
)
def test_no_joined_line_is_less_strict_than_a_part(first: str, second: str, form: str) -> None:
    """Lists, pipes, groups and conditions are as strict as their parts."""
    assume(not first.endswith("&") and not second.endswith("&"))
    assert rank(form.format(a=first, b=second)) >= max(rank(first), rank(second))


@given(whole, st.sampled_from(["sh -c {q}", "bash -lc {q}", "timeout 9 bash -c {q}", "eval {q}"]))
def test_no_wrapper_makes_a_line_less_strict(line: str, form: str) -> None:
    """A line handed to a shell is as strict as the line itself."""
    assert rank(form.format(q=shlex.quote(line))) >= rank(line)


@given(alone)
def test_no_substitution_makes_a_line_less_strict(line: str) -> None:
    """A substituted line is as strict as the line itself."""
    assume(not line.endswith("&"))
    assert rank(f'echo "a $({line}) b"') >= rank(line)


@given(anything, anything)
def test_any_text_has_a_class_and_its_lines_count(first: str, second: str) -> None:
    """No text crashes; what can be read in both parts makes the whole no less strict."""
    both = class_of_line(f"{first}\n{second}")
    assert both.removeprefix("shell:") in ranks()
    parts = max(rank(first), rank(second))
    is_whole = parts < ranks()["unknown"] and "<<" not in first and not first.endswith("\\")
    assert not is_whole or ranks()[both.removeprefix("shell:")] >= parts


@given(
    st.lists(st.text(max_size=20) | st.sampled_from(["rm", "-rf", "sh", "-c", "ls"]), max_size=6)
)
def test_any_words_have_a_class(words: list[str]) -> None:
    """A program started without a shell has a class, whatever its words are."""
    assert class_of_call(words).removeprefix("shell:") in ranks()


def test_a_call_without_a_shell_is_not_read_as_one() -> None:
    """Words that came apart are not taken for syntax."""
    assert class_of_call(["echo", "$(rm x)", ">", "/etc/x"]) == "shell:read"
    assert class_of_call(["bash", "-lc", "rm x"]) == "shell:delete"


def test_depth_and_length_are_bounded() -> None:
    """A line too deep or too long is unknown, and costs no stack."""
    line = "rm x"
    for _ in range(14):
        line = f"sh -c {shlex.quote(line)}"[: LINE_MAX + 1]
    assert class_of_line(line) == "shell:unknown"
    assert class_of_line("(" * 5000 + "ls" + ")" * 5000) in ("shell:read", "shell:unknown")
    assert class_of_line("ls " + "a" * LINE_MAX) == "shell:unknown"


def test_without_the_grammar_every_line_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is missing nothing is guessed; a call in words needs no grammar."""
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    _parser.cache_clear()
    try:
        assert class_of_line("ls") == "shell:unknown"
        assert class_of_call(["ls"]) == "shell:read"
        assert class_of_call(["bash", "-c", "ls"]) == "shell:unknown"
    finally:
        _parser.cache_clear()


def test_the_root_decides_what_is_outside() -> None:
    """An absolute path below the root, and `cd` to it, is inside."""
    places = Places(root="/home/ann/app", home="/home/ann")
    assert class_of_line("cd /home/ann/app && touch /home/ann/app/x", places) == "shell:write"
    assert class_of_line("touch /home/ann/x", places) == "shell:outside"
    assert class_of_line("touch /home/ann/application", places) == "shell:outside"
