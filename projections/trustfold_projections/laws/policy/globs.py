"""Globs of the policy: only `*` is special and matches any characters, none included (SPEC 5).

Of several that match, the one with the longest literal prefix rules, then the longest pattern,
then the first by code points: so a glob that opens with `*` never shadows one that names a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

STAR = "*"

T = TypeVar("T")


def matches(glob: str, text: str) -> bool:
    """Whether a glob matches the whole of a text.

    Piece by piece from the left: time grows with the product of both lengths at worst, so that no
    pattern can stall a decision, as a backtracking one could.
    """
    head, *pieces = glob.split(STAR)
    if not pieces:
        return glob == text
    tail = pieces.pop()
    if len(text) < len(head) + len(tail) or not (text.startswith(head) and text.endswith(tail)):
        return False
    at, end = len(head), len(text) - len(tail)
    for piece in pieces:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def literal_prefix(glob: str) -> str:
    """What a glob begins with before its first `*`."""
    return glob.partition(STAR)[0]


def rank(glob: str) -> tuple[int, int, str]:
    """The order of globs: of those that match, the one of the least rank rules."""
    return (-len(literal_prefix(glob)), -len(glob), glob)


class GlobIndex(Generic[T]):
    """Things by their globs, found in the order of `rank` without trying every one."""

    def __init__(self, things: Iterable[tuple[str, T]]) -> None:
        by_prefix: dict[str, list[tuple[str | None, T]]] = {}
        for glob, thing in sorted(things, key=lambda pair: rank(pair[0])):
            prefix = literal_prefix(glob)
            # One that is a prefix and a star matches whatever begins so: nothing is left to try.
            rest = None if glob == prefix + STAR else glob
            by_prefix.setdefault(prefix, []).append((rest, thing))
        self._by_prefix = by_prefix
        self._lengths = sorted({len(prefix) for prefix in by_prefix}, reverse=True)

    def matching(self, text: str) -> Iterator[T]:
        """Everything whose glob matches, the one that rules first."""
        for length in self._lengths:
            if length > len(text):
                continue
            for glob, thing in self._by_prefix.get(text[:length], ()):
                if glob is None or matches(glob, text):
                    yield thing

    def best(self, text: str) -> T | None:
        """The thing whose glob rules, or None."""
        # As `matching` goes, but without a generator: every first question of an effect comes here.
        for length in self._lengths:
            for glob, thing in self._by_prefix.get(text[:length], ()):
                if length <= len(text) and (glob is None or matches(glob, text)):
                    return thing
        return None
