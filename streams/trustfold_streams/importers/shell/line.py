"""Reads a shell line with the grammar of bash and takes the class of its strictest part.

Every node of the tree is visited: substitutions, here-documents and bodies of functions count
like everything else. What the grammar cannot read, or has no name for here, is unknown.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trustfold_streams.importers.places import Places
from trustfold_streams.importers.shell.words import source_of
from trustfold_streams.importers.table_rows import classes, programs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LINE_MAX = 32_768
"""Bytes of a line; a longer one is unknown."""
DEPTH_MAX = 12
"""Lines within lines (`sh -c "sh -c ..."`) that are looked through; what is deeper is unknown."""

LEAST = "read"
UNKNOWN = "unknown"
_NETWORK = frozenset({"net_read", "net_write", "remote"})
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^=]*\])?\+?=(.*)", re.ASCII | re.DOTALL)
_COMPARES = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge|v)\b|\[\s*-v\b")
_CODE = re.compile(r"[\[$`]")
_ESCAPED_CODE = re.compile(r"\\[\[$`]")
_SPLIT_WORD = re.compile(r"\S\\\n\S")

_TRANSPARENT = frozenset(
    {
        *("program", "list", "pipeline", "subshell", "compound_statement", "negated_command"),
        *("redirected_statement", "if_statement", "elif_clause", "else_clause", "do_group"),
        *("while_statement", "for_statement", "c_style_for_statement", "case_statement"),
        *("case_item", "function_definition", "command_substitution", "process_substitution"),
        *("word", "number", "string", "string_content", "raw_string", "ansi_c_string", "comment"),
        *("translated_string", "concatenation", "simple_expansion", "expansion", "command_name"),
        *("variable_name", "special_variable_name", "arithmetic_expansion", "binary_expression"),
        *("unary_expression", "postfix_expression", "ternary_expression", "extglob_pattern"),
        *("parenthesized_expression", "subscript", "array", "regex", "test_operator"),
        *("heredoc_redirect", "heredoc_start", "heredoc_body", "heredoc_content", "heredoc_end"),
        *("herestring_redirect", "file_descriptor", "brace_expression"),
        *("test_command", "variable_assignments", "declaration_command", "unset_command"),
    }
)


@functools.cache
def ranks() -> dict[str, int]:
    """The classes of shell lines, and how strict each is."""
    return {row.effect.removeprefix("shell:"): n for n, row in enumerate(classes().shell)}


class Reading:
    """What is known of a line while it is read; `away` says that it is run in another folder."""

    def __init__(self, places: Places, *, away: bool = False, depth: int = 0) -> None:
        self.places = places
        self.away = away
        self.depth = depth
        self.went_away = False
        self.fetched = False
        self.given = False
        self.calculates = False
        self.hides_code = False
        self._rank = 0

    def add(self, name: str) -> None:
        """Count a part of this class."""
        self._rank = max(self._rank, ranks()[name])
        self.fetched |= name in _NETWORK

    @property
    def name(self) -> str:
        """The class of the line; code from outside it, where something is fetched, is the worst."""
        if self.calculates and self.hides_code:
            return UNKNOWN
        fed = ranks()["download_run"] if self.fetched and self.given else 0
        return list(ranks())[max(self._rank, fed)]

    def nested(self, line: str, *, away: bool = False, same_shell: bool = False) -> None:
        """Count a line within the line."""
        if self.depth >= DEPTH_MAX:
            return self.add(UNKNOWN)
        inner = Reading(self.places, away=self.away or away, depth=self.depth + 1)
        _read(line, inner)
        if inner.went_away and not inner.away:
            inner.away = True
            _read(line, inner)
        self._rank = max(self._rank, inner._rank)
        self.fetched |= inner.fetched
        self.given |= inner.given
        self.calculates |= inner.calculates
        self.hides_code |= inner.hides_code
        self.went_away |= same_shell and inner.went_away
        return None

    def is_inside(self, path: str) -> bool:
        """Whether a path lies in the work folder or is temporary."""
        if self.away and not path.startswith(("/", "~")):
            return False
        return self.places.is_inside(path)


def class_of_line(line: str, places: Places | None = None) -> str:
    """The class of a shell line, as `shell:read`; `shell:unknown` without the extra `shell`."""
    return _twice(places or Places(), lambda reading: _read(line, reading))


def class_of_call(words: Sequence[str], places: Places | None = None) -> str:
    """The class of a program started without a shell, from its words."""
    from trustfold_streams.importers.shell.calls import Call
    from trustfold_streams.importers.shell.words import literal

    call = [literal(word) for word in words]
    return _twice(places or Places(), lambda reading: Call(reading).count(call))


def _twice(places: Places, read: Callable[[Reading], None]) -> str:
    reading = Reading(places, away=not places.is_inside("."))
    read(reading)
    if reading.went_away:  # `cd /etc` anywhere: then every relative path may lie there
        reading = Reading(places, away=True)
        read(reading)
    return f"shell:{reading.name}"


def _read(line: str, reading: Reading) -> None:
    parser = _parser()
    if parser is None or not _is_plain(line):
        return reading.add(UNKNOWN)
    encoded = line.encode()
    if len(encoded) > LINE_MAX:
        return reading.add(UNKNOWN)
    root = parser.parse(encoded).root_node
    if root.has_error:
        return reading.add(UNKNOWN)
    _walk(root, reading)
    return None


@functools.cache
def _parser() -> Parser | None:
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError:
        return None
    return Parser(Language(tree_sitter_bash.language()))


def _is_plain(line: str) -> bool:
    """No control characters, and no blanks or directions that a person does not see as such.

    Nor a word that goes on in the next line, of which bash makes one and the grammar two.
    """
    return _SPLIT_WORD.search(line) is None and all(
        character in "\n\t" or character == " " or unicodedata.category(character)[0] not in "CZ"
        for character in line
    )


def _walk(root: Node, reading: Reading) -> None:
    from trustfold_streams.importers.shell.calls import Call

    call = Call(reading)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.named_children
        match node.type:
            case "command":
                call.count_node(node)
            case "file_redirect":
                call.count_redirect(node)
            case "variable_assignment":
                _assigned(source_of(node), reading)
            case "for_statement":
                name = node.child_by_field_name("variable")
                _assigned("" if name is None else f"{source_of(name)}= ", reading)
            case "expansion":
                _assigned(source_of(node).lstrip("${").replace(":=", "=", 1), reading)
            case _ if node.type not in _TRANSPARENT:
                reading.add(UNKNOWN)
            case _:
                pass
        reading.calculates |= _calculates(node)
        reading.hides_code |= _hides_code(node)


def _assigned(source: str, reading: Reading) -> None:
    match = _ASSIGNED.match(source)
    if match is not None and steers(match[1], match[2].strip("\"'")):
        reading.add("run")


def _calculates(node: Node) -> bool:
    """Whether bash takes text for a calculation here; an index in it may hold code, even quoted.

    `x='a[$(rm y)]'; echo $((x))` runs rm.
    """
    match node.type:
        case "arithmetic_expansion" | "subscript" | "c_style_for_statement":
            return True
        case "declaration_command" | "unset_command":
            return True
        case "compound_statement":
            return source_of(node).startswith("((")
        case "test_command":
            return _COMPARES.search(source_of(node)) is not None
        case _:
            return False


def _hides_code(node: Node) -> bool:
    """Whether a quoted or escaped text holds what would be code in a calculation."""
    match node.type:
        case "raw_string":
            return _CODE.search(source_of(node)) is not None
        case "word" | "string":
            return _ESCAPED_CODE.search(source_of(node)) is not None
        case _:
            return False


def steers(name: str, value: str) -> bool:
    """Whether a variable of this name makes programs run something."""
    known = programs().variables
    if name in known.harmless:
        return False
    if not (name in known.steering or name.startswith(known.prefixes)):
        return False
    return not (value in known.off and name.endswith(("PAGER", "EDITOR")))
