"""The small languages among the words of a shell line: sed, awk, find, `sh -c`, wrappers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from trustfold_streams.importers.shell.words import Word
from trustfold_streams.importers.table_rows import Wrapper

SCRIPT_MAX = 4_000
"""Characters of a script that is read; a longer one may do anything."""

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:\\.|\[(?!\^?\])[^\]\[\\\n/]*\]|[^/\\\n\[])*/I?)"
_PATTERN = r"(?:\\.|\[(?!\^?\])(?:(?!\1)[^\]\[\\\n])*\]|(?!\1)[^\\\n\[])*"
"""A pattern up to its delimiter. In brackets the delimiter is a letter like any other, so brackets
that hold one, or hold more brackets, are not read at all."""
_SED = re.compile(
    rf"(?:[\s;]*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?\s*!?\s*)?"
    rf"(?:[pdqDlnNgGhHxPz=]|q\d+|s([/|#,@!:%~^]){_PATTERN}\1(?:\\.|(?!\1)[^\\])*\1[gpIi\d]*"
    r"|y/(?:\\.|[^/\\])*/(?:\\.|[^/\\])*/)\s*(?=;|\n|$))*[\s;]*"
)
"""Sed scripts that only print and replace: no `w` (writes), no `e` (runs), no `r`."""
_AWK_RUNS = re.compile(r"system|\||getline|@|print.*>|close|fflush|extension", re.DOTALL)


class Code(NamedTuple):
    """What a shell is given: a text, or its input, or (neither) a file."""

    text: str | None = None
    from_input: bool = False
    looks: bool = False


def shell_code(words: Sequence[Word]) -> Code:
    """The code that `sh` with these words runs."""
    at, wants = 0, False
    while at < len(words):
        text = words[at].text
        if text is None:
            return Code()
        if text in ("--version", "--help"):
            return Code(looks=True)
        if text in ("-o", "+o", "-O", "+O"):
            at += 2
        elif text in ("--login", "--posix", "--norc", "--noprofile", "-", "--"):
            at += 1
        elif re.fullmatch(r"[-+][a-zA-Z]+", text):
            wants |= "c" in text
            if "s" in text and not wants:
                return Code(from_input=True)
            at += 2 if text.endswith(("o", "O")) else 1
        else:
            break
    if at >= len(words):
        return Code(from_input=not wants)
    return Code(text=words[at].text) if wants else Code()


def runs_text(word: Word) -> bool:
    """Whether a word makes a program take a text for code."""
    return word.text in ("-c", "-lc", "-ec", "-e", "-exc", "--eval", "eval")


def sed(words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    """The class of a call of sed, and its files."""
    if any(one.may_be_any_option for one in words):
        return "run", []
    given: list[Word] = []
    files: list[Word] = []
    writes = scripted = False
    at = 0
    while at < len(words):
        word, text = words[at], words[at].text
        at += 1
        if text is None or not text.startswith("-") or text == "-":
            (files if scripted or given else given).append(word)
            continue
        if text.startswith(("--in-place", "-i")) or re.fullmatch(r"-[nErsuz]*i.*", text):
            writes = True
        if text in ("-e", "--expression") or re.fullmatch(r"-[nErsuz]+e", text):
            scripted = True
            given += words[at : at + 1]
            at += 1
        elif text.startswith(("-f", "--file", "--expression=")) or not _plain_sed_option(text):
            return "run", []
    if not all(one.text is not None and _is_plain_sed(one.text) for one in given):
        return "run", files
    # What BSD's sed wants after -i is its backup's ending, which may be taken for a script here.
    return ("write" if writes else "read"), [one for one in files if one.text != ""]


def _plain_sed_option(text: str) -> bool:
    return bool(
        re.fullmatch(r"-[nErsuzi]+(?:\.\w+)?|-i\S*", text)
        or text in ("--quiet", "--silent", "--regexp-extended", "--null-data", "--separate")
        or text.startswith("--in-place")
    )


def _is_plain_sed(script: str) -> bool:
    return len(script) <= SCRIPT_MAX and _SED.fullmatch(script) is not None


def awk(words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    """The class of a call of awk, and its files."""
    at = 0
    while at < len(words) and (words[at].text or "").startswith("-"):
        text = words[at].text or ""
        if text in ("-F", "-v"):
            at += 2
        elif text.startswith(("-F", "-v")):
            at += 1
        else:
            return "run", []
    if at == len(words):
        return "read", []
    script = words[at].text
    if script is None or _AWK_RUNS.search(script.replace(">=", "")):
        return "run", words[at + 1 :]
    return "read", [one for one in words[at + 1 :] if "=" not in (one.text or "")]


class Found(NamedTuple):
    """A call of find: its own class, where it starts, and what it runs."""

    name: str
    starts: Sequence[Word]
    calls: Sequence[Sequence[Word]]


def find(words: Sequence[Word]) -> Found:
    """Take a call of find apart."""
    starts: list[Word] = []
    calls: list[Sequence[Word]] = []
    name = "read"
    at = 0
    while at < len(words) and words[at].text in ("-L", "-P", "-H", "-E"):
        at += 1
    while at < len(words) and not _is_test(words[at]):
        starts.append(words[at])
        if words[at].may_be_any_option:
            name = "run"  # it may be -delete or -exec
        at += 1
    while at < len(words):
        text = words[at].text
        at += 1
        if text is None or words[at - 1].is_pattern:
            name = "run"
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at, len(words)) if words[n].text in (";", "+")), None)
            if end is None:
                return Found("unknown", starts, [])
            calls.append(words[at:end])
            at = end + 1
        elif text == "-delete":
            name = "delete"
        elif text in ("-fprint", "-fprintf", "-fls", "-fprint0"):
            name = "outside"
        elif text in _FIND_VALUES:
            at += 1
    return Found(name, starts, calls)


_FIND_VALUES = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-type", "-size", "-mtime"),
        *("-mmin", "-atime", "-ctime", "-newer", "-maxdepth", "-mindepth", "-perm", "-user"),
        *("-group", "-printf", "-wholename", "-newermt", "-lname", "-inum", "-links", "-xtype"),
    }
)


def _is_test(word: Word) -> bool:
    return word.text is not None and word.text.startswith(("-", "(", "!"))


class Unwrapped(NamedTuple):
    """What a wrapper runs; or the class of a call that cannot be looked through."""

    words: Sequence[Word] = ()
    refused: str | None = None
    elsewhere: bool = False


def unwrap(wrapper: Wrapper, words: Sequence[Word]) -> Unwrapped:
    """Skip a wrapper's own words."""
    at, elsewhere = 0, False
    inserted: str | None = None
    while at < len(words):
        text = words[at].text
        if text is None:
            return Unwrapped(refused="unknown")
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or text == "-":
            break
        if text in wrapper.looks:
            return Unwrapped(refused="read")
        name, _, value = text.partition("=")
        if name in wrapper.code:
            return Unwrapped(refused="run")
        takes = _takes(wrapper, text)
        if takes is None:
            return Unwrapped(refused="unknown")
        elsewhere |= name in wrapper.folder
        if name in wrapper.inserts or text[:2] in wrapper.inserts:
            following = words[at + 1].text if takes == 2 and at + 1 < len(words) else None
            inserted = following or value or text[2:] or "{}"
        at += takes
    if any(one.text is None for one in words[at : at + wrapper.operands]):
        return Unwrapped(refused="unknown")
    rest = [_inserted(one, inserted) for one in words[at + wrapper.operands :]]
    return Unwrapped(rest, None, elsewhere)


def _inserted(word: Word, place: str | None) -> Word:
    """A word into which input is put, at a place: only a run would tell it."""
    if place is None or word.text is None or place not in word.text:
        return word
    return Word(None, word.text[: word.text.index(place)])


def _takes(wrapper: Wrapper, text: str) -> int | None:
    """How many words an option is, or None for one that the table does not know."""
    valued = (*wrapper.values, *wrapper.folder, *wrapper.inserts)
    if text in wrapper.flags:
        return 1
    if text in ("-i", "--replace") and text in wrapper.inserts:
        return 1
    if text in valued:
        return 2
    if text.startswith("--"):
        return 1 if text.split("=", 1)[0] in valued and "=" in text else None
    if text[:2] in valued or re.fullmatch(r"-\d+", text):
        return 1
    return 1 if all(f"-{letter}" in wrapper.flags for letter in text[1:]) else None
