"""The effect class of an action: what a tool does with its arguments, and nothing of their text.

Classes are coarse, so that they earn samples; what the tables do not know is `unknown`. The table
of all classes is in docs/effect-classes.md.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from trustfold_schemas.subject import EFFECT_MAX
from trustfold_streams.importers.places import Places, strictest_place
from trustfold_streams.importers.shell import class_of_call, class_of_line
from trustfold_streams.importers.table_rows import ToolRow, tools

UNKNOWN = "unknown"
_MCP = re.compile(r"mcp__(?P<server>[\w.-]{1,128}?)__(?P<tool>[\w.-]{1,256})", re.ASCII)
_PATCHED = re.compile(
    r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def effect_class_of(
    tool: str, args: Mapping[str, Any] | None = None, places: Places | None = None
) -> str:
    """The effect class of one action, such as `fs_write:./src/*` or `shell:read`.

    `places` says which folders the paths are judged by; without it relative paths lie in the work
    folder and absolute ones outside. Never raises: what cannot be read is `unknown`.

    >>> effect_class_of("Edit", {"file_path": "src/app.py", "new_string": "..."})
    'fs_write:./src/*'
    >>> effect_class_of("Bash", {"command": "git log | head && git push --force"})
    'shell:vcs_force'
    >>> effect_class_of("mcp__linear__create_issue")
    'mcp_write:linear'
    """
    given = args or {}
    known = places or Places()
    row = tools().tool.get(tool)
    if row is not None:
        made = _class_of_row(row, given, known)
    elif tool in _fixed():
        made = _fixed()[tool]
    elif (match := _MCP.fullmatch(tool)) is not None:
        made = f"{_mcp_kind(match['tool'])}:{match['server']}"
    else:
        made = UNKNOWN
    return made if len(made) <= EFFECT_MAX else UNKNOWN


def _class_of_row(row: ToolRow, args: Mapping[str, Any], places: Places) -> str:
    if row.kind == "shell":
        return _shell(row, args, places)
    if row.kind == "patch":
        return _patch(next((args[name] for name in row.line if name in args), None), places)
    found = _places_named(row, args, places)
    if found is None:
        return UNKNOWN
    return f"{row.kind}:{strictest_place(found)}"


def _places_named(row: ToolRow, args: Mapping[str, Any], places: Places) -> list[str] | None:
    """The places that the arguments name; None if there is none or one is no text."""
    found: list[str] = []
    for names, is_folder in ((row.paths, False), (row.folders, True), (row.patterns, True)):
        for value in (args[name] for name in names if args.get(name) is not None):
            if not isinstance(value, str):
                return None
            if names is not row.patterns:
                found.append(places.place(value, is_folder=is_folder))
            elif (reach := _reach(value, places)) is not None:
                found.append(reach)
    if not found and row.here:
        found.append(places.place(".", is_folder=True))
    return found or None


def _reach(pattern: str, places: Places) -> str | None:
    """The place of a pattern that leads out of the folder it is searched in, or None."""
    place = places.place(pattern, is_folder=True)
    return place if pattern.startswith(("/", "~")) or place.startswith("outside/") else None


def _shell(row: ToolRow, args: Mapping[str, Any], places: Places) -> str:
    line = next((args[name] for name in row.line if name in args), None)
    folder = args.get(row.folder) if row.folder is not None else None
    if isinstance(folder, str) and folder:
        places = _standing_in(places, folder)
    if isinstance(line, str):
        return class_of_line(line, places)
    words = cast("list[object]", line) if isinstance(line, list) else []
    if words and all(isinstance(one, str) for one in words):
        return class_of_call([str(one) for one in words], places)
    return UNKNOWN


def _standing_in(places: Places, folder: str) -> Places:
    """The places of a call that says in which folder it runs."""
    start = places.folder or places.root
    if start is None and not folder.startswith(("/", "~")):
        return places if places.is_inside(folder) else replace(places, folder="/")
    return replace(places, folder=posixpath.join(start or "/", folder))


def _patch(text: Any, places: Places) -> str:
    """A patch of Codex's apply_patch writes and deletes the files that its headers name."""
    if not isinstance(text, str):
        return UNKNOWN
    named = _PATCHED.findall(text)
    if not named:
        return UNKNOWN
    found = strictest_place(places.place(path or moved) for _, path, moved in named)
    deletes = any(what == "Delete" or moved for what, _, moved in named)
    return f"{'fs_delete' if deletes else 'fs_write'}:{found}"


def _mcp_kind(tool: str) -> str:
    """The strictest kind that the words of a tool's name hold; without any, just `mcp`."""
    words = {word.lower() for word in _WORD.findall(tool)}
    kinds = tools().words
    strictest: Iterable[str] = ("mcp", "mcp_send", "mcp_delete", "mcp_write", "mcp_read")
    return next((kind for kind in strictest if words.intersection(kinds[kind])), "mcp")


@functools.cache
def _fixed() -> dict[str, str]:
    return {tool: effect for effect, listed in tools().fixed.items() for tool in listed}
