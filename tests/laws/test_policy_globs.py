"""Globs: only the star is special, and which of several rules is a matter of their text alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_projections.laws.policy import GlobIndex, matches, rank

patterns = st.text("ab*[?.é", max_size=8)
texts = st.text("ab[?.é\n", max_size=10)


@pytest.mark.parametrize(
    ("glob", "text", "matching"),
    [
        ("", "", True),
        ("*", "", True),
        ("*", "any/thing\nat all", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "acb", False),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "aba", False),
        ("a**b", "ab", True),
        ("fs_write:~/notes/*", "fs_write:~/notes/a/b", True),
        ("fs_write:~/notes/*", "fs_write:~/notes", False),
        ("a?c", "abc", False),
        ("a[bc]", "ab", False),
        ("a.c", "abc", False),
        ("A", "a", False),
    ],
)
def test_only_the_star_is_special(glob: str, text: str, matching: bool) -> None:
    """A star matches any characters and none; everything else matches itself."""
    assert matches(glob, text) is matching


@given(patterns, texts)
def test_matching_is_that_of_a_regular_expression(glob: str, text: str) -> None:
    """The same answer as the pattern written as a regular expression."""
    expression = ".*".join(re.escape(piece) for piece in glob.split("*"))
    assert matches(glob, text) == bool(re.fullmatch(expression, text, re.DOTALL))


def test_no_pattern_can_stall_a_decision() -> None:
    """A pattern of many stars on a long text, which a backtracking matcher would not finish."""
    assert not matches("*a" * 200 + "*b", "a" * 512)


def test_the_longest_literal_prefix_rules_then_length_then_code_points() -> None:
    """The stated order, each step where the one before is a tie."""
    ordered = [
        "fs:~/notes/a",
        "fs:~/notes/*",
        "fs:*.txt",
        "fs:*",
        "*:~/notes/",
        "*s:*",
        "*x:*",
        "*",
    ]
    shuffled = sorted(ordered)
    assert shuffled != ordered
    assert sorted(shuffled, key=rank) == ordered


@given(st.lists(patterns, max_size=8), texts)
def test_the_index_finds_what_trying_every_glob_finds(globs: list[str], text: str) -> None:
    """All that match, in the order of rank."""
    index = GlobIndex((glob, glob) for glob in globs)
    found = sorted((glob for glob in globs if matches(glob, text)), key=rank)
    assert list(index.matching(text)) == found
