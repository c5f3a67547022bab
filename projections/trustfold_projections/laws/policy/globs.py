"""Globs of the policy: only `*` is special and matches any characters, none included (SPEC 5).

Of several that match, the one with the longest literal prefix rules, then the longest pattern,
then the first by code points: so a glob that opens with `*` never shadows one that names a place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
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
        by_prefix: dict[str, list[tuple[str | None, str, T]]] = {}
        for glob, thing in sorted(things, key=lambda pair: rank(pair[0])):
            prefix = literal_prefix(glob)
            # One that is a prefix and a star matches whatever begins so: nothing is left to try.
            # Of any other, most texts lack its longest piece, which is soon seen.
            pieces = glob[len(prefix) :].split(STAR)
            piece = None if glob == prefix + STAR else max(pieces, key=len)
            by_prefix.setdefault(prefix, []).append((piece, glob, thing))
        self._prefixes = sorted(by_prefix)
        self._candidates = [by_prefix[prefix] for prefix in self._prefixes]
        # For each prefix the longest other one that it begins with, as its place; -1 if none.
        self._shorter: list[int] = []
        for place, prefix in enumerate(self._prefixes):
            shorter = place - 1
            while shorter >= 0 and not prefix.startswith(self._prefixes[shorter]):
                shorter = self._shorter[shorter]
            self._shorter.append(shorter)

    def matching(self, text: str) -> tuple[T, ...]:
        """Everything whose glob matches, the one that rules first."""
        found: list[T] = []
        # What lies between a text and one of its beginnings, in code-point order, begins so too:
        # every prefix of the text is the one before it, or one that this begins with.
        place = bisect_right(self._prefixes, text) - 1
        while place >= 0:
            if text.startswith(self._prefixes[place]):
                found += [
                    thing
                    for piece, glob, thing in self._candidates[place]
                    if piece is None or (piece in text and matches(glob, text))
                ]
            place = self._shorter[place]
        return tuple(found)
