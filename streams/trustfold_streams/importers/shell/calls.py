"""What one program of a shell line does: wrappers are looked through, the rest is in the tables."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trustfold_streams.importers.shell import scripts
from trustfold_streams.importers.shell.line import UNKNOWN, Reading, ranks, steers
from trustfold_streams.importers.shell.programs import Where, class_by_rule, known_rules
from trustfold_streams.importers.shell.words import Word, literal, source_of, word_of
from trustfold_streams.importers.table_rows import Interpreter, Wrapper, programs

if TYPE_CHECKING:
    from tree_sitter import Node

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash"})
BIN_FOLDERS = frozenset(
    {"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"}
)
PROJECT_BINS = frozenset({"node_modules/.bin", ".venv/bin", "venv/bin"})
"""Programs that a project installs for itself; what lies there is the project's."""
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_NETWORK_FILE = re.compile(r"/dev/(?:tcp|udp)/")
_SETTING = frozenset({"read", "printf", "getopts", "unset"})
"""Builtins that set the variables they name."""
_INDEXED = frozenset({"printf", "read", "test", "[", "wait", "unset", "let", "getopts"})


class Call:
    """Counts programs for a reading: `away` in another folder, `appends` words from its input."""

    def __init__(self, reading: Reading, *, away: bool = False, appends: bool = False) -> None:
        self._reading = reading
        self._away = away
        self._appends = appends

    # ---- from the tree -------------------------------------------------------------------------

    def count_node(self, node: Node) -> None:
        """Count a command of the grammar; its substitutions are counted by who walks the tree."""
        name = node.child_by_field_name("name")
        if name is None:
            return
        words = [word_of(name.named_children[0] if name.named_children else name)]
        words += [word_of(one) for one in node.children_by_field_name("argument")]
        self.count(words, _input_of(node))

    def count_redirect(self, node: Node) -> None:
        """Count `> file`, `< file` and their kin."""
        targets = node.children_by_field_name("destination")
        sign = next((source_of(one) for one in node.children if not one.is_named), "")
        if sign in (">&-", "<&-") and not targets:
            return None
        is_copy = len(targets) == 1 and sign in (">&", "<&")
        if is_copy and re.fullmatch(r"\d+-?|-", source_of(targets[0])):
            return None
        if len(targets) > 1:
            # `> file rm x`: the grammar takes the words of a command for more files.
            return self._reading.add(UNKNOWN)
        reads = sign in ("<", "<&")
        for target in targets:
            word = word_of(target)
            if word.text is not None and _NETWORK_FILE.match(word.text):
                self._reading.add("net_read" if reads else "net_write")
            elif target.type == "process_substitution":
                continue
            elif word.text is None or not self._reading.is_inside(word.text):
                self._reading.add("read_outside" if reads else "outside")
            elif not reads and word.text not in ("/dev/null", "/dev/stdout", "/dev/stderr"):
                self._reading.add("write")
        return None

    # ---- from words ----------------------------------------------------------------------------

    def count(self, words: Sequence[Word], script: str | None = None) -> None:
        """Count a program with its words; `script` is what stands in a here-document for it."""
        if not words:
            return
        name, rest = self._program(words[0]), words[1:]
        if name is None:
            return
        table = programs()
        two = f"{name} {rest[0].text}" if rest else name
        if name in SHELLS:
            self._shell(rest, script)
        elif name == "eval":
            self._eval(rest)
        elif name == "watch":
            self._watch(rest)
        elif two in table.wrapper:
            self._wrapped(table.wrapper[two], rest[1:])
        elif name in table.wrapper:
            self._wrapped(table.wrapper[name], rest)
        elif re.fullmatch(r"(python|pypy)[\d.]*|node|nodejs", name):
            kind = "node" if name.startswith("node") else "python"
            self._interpreter(kind, table.interpreter[kind], rest, script)
        elif name == "find":
            self._find(rest)
        elif name in ("sed", "gsed"):
            self._add_files(*scripts.sed([*rest, Word(None)] if self._appends else rest))
        elif name in ("awk", "gawk", "mawk", "nawk"):
            self._add_files(*scripts.awk(rest))
        else:
            self._by_rule(re.sub(r"^pip[\d.]*$", "pip", name), _undashed(name, rest))

    def _program(self, word: Word) -> str | None:
        """The name to look up; None if that settled it."""
        if word.text is None:
            self._reading.add(UNKNOWN)
            return None
        folder, name = posixpath.split(word.text)
        if not folder or folder in BIN_FOLDERS:
            return name
        if folder.removeprefix("./") in PROJECT_BINS:
            self._reading.add("check")
            return name
        self._reading.given = True
        self._reading.add("run")
        return None

    def _by_rule(self, name: str, words: Sequence[Word]) -> None:
        rule = known_rules().get(name)
        if rule is None:
            return self._reading.add(UNKNOWN)
        if name in ("cd", "pushd"):
            self._cd(words)
        if name in _INDEXED and any(
            one.text is not None and re.search(r"\[.*(?:\$\(|`)", one.text, re.DOTALL)
            for one in words
        ):
            return self._reading.add(UNKNOWN)
        if name in _SETTING and any(steers(one.text or "", " ") for one in words):
            self._reading.add("run")
        known = [*words, Word(None)] if self._appends else list(words)
        found = class_by_rule(rule, known, self._where)
        for one in found:
            self._reading.add(one)
        self._reading.given |= found[0] == "run"
        return None

    def _cd(self, words: Sequence[Word]) -> None:
        target = next((one for one in words if one.text is None or one.text[:1] != "-"), None)
        if target is None or target.text is None or not self._reading.places.is_inside(target.text):
            self._reading.went_away = True

    @property
    def _where(self) -> Where:
        return Where(self._is_inside, self._reading.places.leads_out, self._is_away)

    @property
    def _is_away(self) -> bool:
        return self._away or self._reading.away

    def _is_inside(self, path: str) -> bool:
        if self._away and not path.startswith(("/", "~")):
            return False
        return self._reading.is_inside(path)

    def _add_files(self, name: str, files: Sequence[Word]) -> None:
        """Count a script's class, and the files that it reads or, where it writes, writes."""
        self._reading.add(name)
        outside = (
            self._is_away
            or self._appends
            or not all(one.text is not None and self._is_inside(one.text) for one in files)
        )
        if outside:
            self._reading.add("read_outside" if name == "read" else "outside")

    # ---- programs that run others --------------------------------------------------------------

    def _shell(self, words: Sequence[Word], script: str | None) -> None:
        code = scripts.shell_code(words)
        if code.looks:
            return None
        if code.text is not None:
            return self._reading.nested(code.text, away=self._away)
        if code.from_input and script is not None:
            return self._reading.nested(script, away=self._away)
        self._reading.given = True
        return self._reading.add("run")

    def _eval(self, words: Sequence[Word]) -> None:
        texts = [one.text for one in words]
        if None in texts:
            self._reading.given = True
            return self._reading.add("run")
        line = " ".join(text for text in texts if text is not None)
        return self._reading.nested(line, away=self._away, same_shell=True)

    def _watch(self, words: Sequence[Word]) -> None:
        """It hands its words to a shell, joined: they are code."""
        found = scripts.unwrap(programs().wrapper["watch"], words)
        if found.refused is not None:
            return self._reading.add(found.refused)
        return self._eval(found.words)

    def _interpreter(
        self, name: str, table: Interpreter, words: Sequence[Word], script: str | None
    ) -> None:
        at = 0
        while at < len(words) and (words[at].text or "").startswith("-"):
            text = words[at].text
            assert text is not None
            if text in ("--version", "-V", "--help", "-h") or (name == "node" and text == "-v"):
                return self._reading.add("read")
            if text in table.module and at + 1 < len(words):
                return self._module(words[at + 1], words[at + 2 :])
            if text in table.code:
                code = words[at + 1] if at + 1 < len(words) else Word(None)
                self._reading.given |= code.text is None
                return self._reading.add("run")
            if text not in (*table.flags, *table.values):
                break
            at += 2 if text in table.values else 1
        self._reading.given |= script is None
        return self._reading.add("run")

    def _module(self, module: Word, words: Sequence[Word]) -> None:
        for name, listed in programs().modules.items():
            if module.text in listed:
                return self._add_files(name, ()) if not words else self._module_files(name, words)
        if module.text is None or module.text not in known_rules():
            self._reading.given = True
            return self._reading.add("run")
        self._reading.add("check")
        return self._by_rule(module.text, words)

    def _module_files(self, name: str, words: Sequence[Word]) -> None:
        rule = known_rules()["ls" if name == "read" else "touch" if name == "write" else "pytest"]
        for one in class_by_rule(rule, list(words), self._where):
            self._reading.add(one)

    def _wrapped(self, wrapper: Wrapper, words: Sequence[Word]) -> None:
        self._reading.add(wrapper.least)
        found = scripts.unwrap(wrapper, words)
        if found.refused is not None:
            self._reading.given |= found.refused == "run"
            return self._reading.add(found.refused)
        rest = list(found.words)
        while wrapper.assignments and rest and (match := _ASSIGNED.fullmatch(rest[0].text or "")):
            if steers(match[1], match[2]):
                self._reading.add("run")
            rest.pop(0)
        if not rest:
            return self._reading.add(wrapper.bare)
        inner = Call(
            self._reading,
            away=self._away or found.elsewhere,
            appends=self._appends or wrapper.appends,
        )
        return inner.count(rest)

    def _find(self, words: Sequence[Word]) -> None:
        found = scripts.find(words)
        self._reading.add("run" if self._appends else found.name)
        inside = (
            not self._is_away
            and not self._appends
            and all(one.text is not None and self._is_inside(one.text) for one in found.starts)
        )
        if not inside:
            self._reading.add("read_outside")
            if ranks()[found.name] > ranks()["read"]:
                self._reading.add("outside")
        for call in found.calls:
            if any(scripts.runs_text(one) for one in call) and any(
                one.text is not None and "{}" in one.text and one.text != "{}" for one in call
            ):
                # Names of files become code, and a file may be named `; rm -rf x`.
                self._reading.given = True
                self._reading.add("run")
            Call(self._reading, away=self._away or not inside).count(
                [literal("./{}") if one.text == "{}" else one for one in call]
            )


def _undashed(name: str, words: Sequence[Word]) -> Sequence[Word]:
    """The words of tar in their newer form: its first one may be options without a dash."""
    first = words[0].text if words and name == "tar" else None
    if first is None or not re.fullmatch(r"[A-Za-z]+", first):
        return words
    return [literal(f"-{first}"), *words[1:]]


def _input_of(node: Node) -> str | None:
    """What a here-document or here-string hands to a command, if it is all that does.

    None where something in it is expanded or escaped, or another redirection has the last word.
    """
    holder = node.parent if node.parent and node.parent.type == "redirected_statement" else node
    inputs = [one for one in (*holder.children, *node.children) if _is_input(one)]
    inputs += [child for one in inputs for child in one.children if _is_input(child)]
    if len({one.id for one in inputs}) != 1:
        return None
    only = inputs[0]
    if any(one.type == "file_descriptor" for one in only.children):
        return None
    if only.type == "herestring_redirect":
        return word_of(only.named_children[-1]).text
    start = next((one for one in only.children if one.type == "heredoc_start"), None)
    body = next((one for one in only.children if one.type == "heredoc_body"), None)
    if start is None or body is None:
        return None
    if any(one.type != "heredoc_content" for one in body.named_children):
        return None
    text = source_of(body)
    is_quoted = source_of(start)[:1] in "'\"\\"
    return text if is_quoted or "\\" not in text else None


def _is_input(node: Node) -> bool:
    if node.type in ("heredoc_redirect", "herestring_redirect"):
        return True
    return node.type == "file_redirect" and any(
        source_of(one).startswith("<") for one in node.children if not one.is_named
    )
