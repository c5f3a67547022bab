"""What each view is for and what its columns mean, read from the remarks of its .sql file.

The first remark is `name: what it is`, or `name(arguments): ...` for a macro; then one remark a
column; what follows an empty remark is for the reader of the file and of `docs/sql.md`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trustfold_projections.analysis.views import scripts

_FIRST: Final = re.compile(r"-- (?P<call>(?P<name>\w+)(?:\([^)]*\))?): (?P<about>.*)")
_COLUMN: Final = re.compile(r"-- (\w+): (.*)")


class View(NamedTuple):
    """One view, table or macro; `call` is how it is written after FROM."""

    name: str
    call: str
    about: str
    columns: tuple[tuple[str, str], ...]
    remarks: str


def catalogue() -> list[View]:
    """Everything an analyst can ask, in the order of the files; a scalar macro has no columns."""
    return [_view(script) for _, script in scripts()]


def markdown() -> str:
    """All of it as `docs/sql.md` has it, one section a view."""
    parts: list[str] = []
    for view in catalogue():
        parts.append(f"## `{view.call}`\n\n{_sentence(view.about)}\n")
        if view.columns:
            rows = "\n".join(f"| `{name}` | {about} |" for name, about in view.columns)
            parts.append(f"| column | meaning |\n|---|---|\n{rows}\n")
        if view.remarks:
            parts.append(f"{view.remarks}\n")
    return "\n".join(parts)


def _view(script: str) -> View:
    remarks: list[str] = []
    for line in script.splitlines():
        if not line.startswith("--"):
            break
        remarks.append(line)
    first = _FIRST.fullmatch(remarks[0])
    assert first is not None, remarks[0]
    columns: list[tuple[str, str]] = []
    rest = remarks[1:]
    while rest and (column := _COLUMN.fullmatch(rest[0])) is not None:
        columns.append((column[1], column[2]))
        rest = rest[1:]
    more = " ".join(line.removeprefix("--").strip() for line in rest).strip()
    return View(first["name"], first["call"], first["about"], tuple(columns), more)


def _sentence(text: str) -> str:
    made = text[0].upper() + text[1:]
    return made if made.endswith(".") else f"{made}."
