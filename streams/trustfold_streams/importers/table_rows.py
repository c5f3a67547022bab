"""The shapes of the tables in `tables/*.toml`, read once when they are first needed."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any, Literal

import msgspec
from msgspec import Struct

from trustfold_schemas.events import Reversibility

Words = Literal["paths", "text", "script", "last"]
"""What a program's words are: files, prose, a script and files, files of which one is written."""


class ClassRow(Struct, frozen=True, forbid_unknown_fields=True):
    """An effect class, or a glob of them, and how far it can be taken back."""

    effect: str
    reversibility: Reversibility | Literal["unknown"]
    why: str


class Classes(Struct, frozen=True, forbid_unknown_fields=True):
    """`classes.toml`: the classes of shell lines from the least strict on, and all others."""

    shell: tuple[ClassRow, ...]
    effect: tuple[ClassRow, ...]


class ToolRow(Struct, frozen=True, forbid_unknown_fields=True):
    """How a tool's class follows from its arguments."""

    kind: Literal["fs_read", "fs_write", "shell", "patch"]
    paths: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    folder: str | None = None
    here: bool = False


class Tools(Struct, frozen=True, forbid_unknown_fields=True):
    """`tools.toml`."""

    tool: dict[str, ToolRow]
    fixed: dict[str, tuple[str, ...]]
    words: dict[str, tuple[str, ...]]


class SubRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What the options of a sub-command change."""

    options: dict[str, str] = {}
    unless: dict[str, tuple[str, ...]] = {}
    reads: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    words: Words | None = None
    bare: str | None = None
    starts: dict[str, str] = {}
    holds: dict[str, str] = {}


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """The class of a program by its sub-commands and options."""

    base: str
    words: Words = "paths"
    options: dict[str, str] = {}
    literal_options: dict[str, str] = {}
    unless: dict[str, tuple[str, ...]] = {}
    reads: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    bare: str | None = None
    single: str | None = None
    subs: dict[str, tuple[str, ...]] = {}
    sub: dict[str, SubRule] = {}


class Wrapper(Struct, frozen=True, forbid_unknown_fields=True):
    """A program that runs another one, named by its words."""

    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    inserts: tuple[str, ...] = ()
    operands: int = 0
    assignments: bool = False
    appends: bool = False
    least: str = "read"
    bare: str = "unknown"


class Interpreter(Struct, frozen=True, forbid_unknown_fields=True):
    """A program that runs code."""

    code: tuple[str, ...]
    module: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class Tasks(Struct, frozen=True, forbid_unknown_fields=True):
    """What the name of a project's task tells."""

    checks: frozenset[str]
    risky: frozenset[str]


class Variables(Struct, frozen=True, forbid_unknown_fields=True):
    """Which variables steer what a program runs."""

    steering: frozenset[str]
    prefixes: tuple[str, ...]
    harmless: frozenset[str]
    off: frozenset[str]


class Programs(Struct, frozen=True, forbid_unknown_fields=True):
    """`programs.toml`."""

    simple: dict[str, tuple[str, ...]]
    words: dict[str, tuple[str, ...]]
    rule: dict[str, Rule]
    interpreter: dict[str, Interpreter]
    modules: dict[str, tuple[str, ...]]
    wrapper: dict[str, Wrapper]
    tasks: Tasks
    variables: Variables

    def rules(self) -> dict[str, Rule]:
        """Every program's rule; the simple ones have nothing but a class."""
        made = dict(self.rule)
        for listed, words in ((self.simple, "paths"), (self.words, "text")):
            for base, names in listed.items():
                made.update(
                    (name, msgspec.convert({"base": base, "words": words}, Rule)) for name in names
                )
        return made


@functools.cache
def classes() -> Classes:
    """The classes and their reversibility."""
    return msgspec.convert(_read("classes.toml"), Classes)


@functools.cache
def tools() -> Tools:
    """The tools of the common agents."""
    return msgspec.convert(_read("tools.toml"), Tools)


@functools.cache
def programs() -> Programs:
    """The programs of shell lines."""
    return msgspec.convert(_read("programs.toml"), Programs)


def _read(name: str) -> dict[str, Any]:
    table = resources.files("trustfold_streams.importers.tables").joinpath(name)
    return tomllib.loads(table.read_text(encoding="utf-8"))
