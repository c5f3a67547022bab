"""Words of a shell line: what the shell would make of them, where the line alone tells it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ONE = r"(?:\.?\w[\w+-]*)?"
_PLAIN_BRACES = re.compile(
    rf"(?![-/~{{])(?:[\w./+-]|\{{(?:{_ONE}(?:,{_ONE})+|\w+\.\.\w+)\}})*", re.ASCII
)
"""Braces of which no expansion is an option or leads out of a folder."""
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_STRING = re.compile(r'\\([$`"\\\n])')
_CONSTANTS = {"HOME": "~", "PWD": ".", "TMPDIR": "/tmp", "?": "0", "#": "0", "$": "0", "!": "0"}  # noqa: S108
"""Variables whose value is as good as known; a line that assigns one runs code (see `line`)."""


class Word(NamedTuple):
    """A word: its `text`, or None where only a run would tell; `start` is what it begins with.

    `is_pattern` says that names of files may take its place, whatever they begin with.
    """

    text: str | None
    start: str = ""
    is_pattern: bool = False

    @property
    def may_be_any_option(self) -> bool:
        """Whether only a run would tell which option it is, if it is one; a file may be `-x`."""
        return (self.text is None and self.start in ("", "-", "--")) or self.is_pattern


def literal(text: str) -> Word:
    """A word of which everything is known."""
    return Word(text, text)


def word_of(node: Node) -> Word:
    """Read one word of the grammar."""
    text = ""
    for piece in _pieces(node):
        if piece is None or (piece in ("~", ".") and text):
            return Word(None, text)
        text += piece
    if _has_braces(node, text) and not _PLAIN_BRACES.fullmatch(text):
        return Word(None, "")
    return Word(text, text, source_of(node)[:1] in "*?[")


def source_of(node: Node) -> str:
    """The text of a node as it stands in the line."""
    assert node.text is not None
    return node.text.decode()


def _pieces(node: Node) -> list[str | None]:
    match node.type:
        case "word" | "number" | "special_variable_name" | "variable_name" | "file_descriptor":
            return [_ESCAPED.sub(_unescaped, source_of(node))]
        case "raw_string":
            return [source_of(node)[1:-1]]
        case "string":
            return _string_pieces(node)
        case "concatenation":
            return _joined(node)
        case "process_substitution":
            return ["/dev/fd/63"]
        case "simple_expansion" | "expansion" | "command_substitution":
            return [_constant(source_of(node))]
        case _:
            return [None]


def _joined(node: Node) -> list[str | None]:
    made: list[str | None] = []
    at = node.start_byte
    for child in node.children:
        if child.start_byte != at:  # text between two pieces, which the grammar did not name
            return [None]
        made += _pieces(child) if child.is_named else [source_of(child)]
        at = child.end_byte
    return made if at == node.end_byte else [None]


def _string_pieces(node: Node) -> list[str | None]:
    """Its literal text, taken from the source between the expansions: the grammar skips blanks."""
    assert node.text is not None
    made: list[str | None] = []
    at = node.start_byte + 1
    for child in node.named_children:
        if child.type == "string_content":
            continue
        made += [_between(node, at, child.start_byte), *_pieces(child)]
        at = child.end_byte
    made.append(_between(node, at, node.end_byte - 1))
    return [one for one in made if one != ""]


def _between(node: Node, start: int, end: int) -> str:
    assert node.text is not None
    text = node.text[start - node.start_byte : end - node.start_byte].decode()
    return _ESCAPED_IN_STRING.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _constant(source: str) -> str | None:
    if source in ("$(pwd)", "`pwd`"):
        return "."
    return _CONSTANTS.get(source.removeprefix("$").removeprefix("{").removesuffix("}"))


def _has_braces(node: Node, text: str) -> bool:
    if node.type == "concatenation":
        bare = "".join(source_of(one) for one in node.children if one.type in ("word", "{", "}"))
        return "{" in bare and _BRACES.search(text) is not None
    return node.type == "word" and _BRACES.search(source_of(node)) is not None
