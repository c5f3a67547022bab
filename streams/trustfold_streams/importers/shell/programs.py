"""The class of a program by its rule: sub-command, options, and the places that its words name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trustfold_streams.importers.shell.line import ranks
from trustfold_streams.importers.shell.words import Word, literal
from trustfold_streams.importers.table_rows import Rule, SubRule, programs

SUB_WORDS_MAX = 3


class Where(NamedTuple):
    """How a call's paths are judged; `away`: it runs in another folder."""

    inside: Callable[[str], bool]
    leads_out: Callable[[str], bool]
    away: bool


_GIVES_SCRIPT = re.compile(r"-[A-Za-z]*[ef]|--(?:re|fi|fr)")
"""An option that carries the script, or names its file: then all other words are files."""
_NOTHING = SubRule()
_READS_ONLY = (["--version"], ["--help"], ["-h"])


@functools.cache
def known_rules() -> dict[str, Rule]:
    """Program -> its rule."""
    return programs().rules()


def class_by_rule(rule: Rule, words: list[Word], where: Where) -> list[str]:
    """The classes of a call: what the program does, and where."""
    if [one.text for one in words] in _READS_ONLY:
        return ["read"]
    at = _skip_values(rule, words)
    if at is None:
        return ["run"]
    base, used = _sub_command(rule, words[at:])
    first = words[at].text if at < len(words) else None
    sub = rule.sub.get(first or "", _NOTHING)
    rest = [*words[:at], *words[at + used :]]
    plain = _without_texts((*rule.texts, *sub.texts), rest)
    base = _changed_base(rule, sub, base, plain)
    made = [base, *_raised(rule, sub, plain), *_targets(rule, plain)]
    if base == "net_read" and rule.words == "text" and not rule.subs:
        # What the line does not say may be anything that was read before.
        made += ["net_write" for one in plain if one.text is None or one.text.startswith("@")]
    if any(one.text is not None and "::" in one.text for one in plain) and rule.subs:
        made.append("run")  # git's `ext::sh -c ...` is a remote that runs
    return [*made, *_placed(rule, sub, max(made, key=ranks().__getitem__), plain, where)]


def _skip_values(rule: Rule, words: Sequence[Word]) -> int | None:
    """Where the sub-command stands; None if a setting before it may run something."""
    at = 0
    while rule.subs and at < len(words):
        text = words[at].text
        if text is None or not text.startswith("-") or _is_sub(rule, text):
            break
        if text == "-c" and "-c" in rule.values:
            setting = words[at + 1].text if at + 1 < len(words) else None
            if setting is None or not re.match(r"(user|color|core\.quotepath|advice)\b", setting):
                return None
        at += 2 if text in rule.values else 1
    return min(at, len(words))


def _is_sub(rule: Rule, text: str) -> bool:
    return any(text in listed for listed in rule.subs.values())


def _sub_command(rule: Rule, words: Sequence[Word]) -> tuple[str, int]:
    """The class of the longest known sub-command, and how many words it is."""
    texts: list[str] = []
    for one in words[:SUB_WORDS_MAX]:
        if one.text is None:
            break
        texts.append(one.text)
    task = _task(rule, texts)
    for length in range(len(texts), 0, -1):
        name = " ".join(texts[:length])
        found = next((base for base, listed in rule.subs.items() if name in listed), None)
        if found is not None:
            return found, length
    if task is not None:
        return task
    if not words:
        return rule.bare or rule.base, 0
    return rule.base, 0


def _targets(rule: Rule, words: Sequence[Word]) -> list[str]:
    """All the tasks of a call of make, and variables that change what they run."""
    if not rule.tasks:
        return []
    made: list[str] = []
    for one in words:
        text = one.text
        if text is None or ("=" in text and not text.startswith("-")):
            made.append("run")
        elif not rule.subs and not text.startswith("-"):
            task = _task(rule, [text])
            made.append("run" if task is None else task[0])
    return made


def _task(rule: Rule, texts: Sequence[str]) -> tuple[str, int] | None:
    """The class of a project's task: `npm run test`, or `make test` where "" runs tasks."""
    if not rule.tasks or not texts:
        return None
    if texts[0] in rule.tasks:
        name, used = (texts[1] if len(texts) > 1 else ""), 2
    elif "" in rule.tasks:
        name, used = texts[0], 1
    else:
        return None
    if name.startswith("-") or "=" in name:
        return None
    parts = re.split(r"[:/_.-]", name)
    table = programs().tasks
    is_check = parts[0] in table.checks and not table.risky.intersection(parts)
    return ("check" if is_check else "run"), used


def _without_texts(texts: Sequence[str], words: Sequence[Word]) -> list[Word]:
    """The words without prose: `-m MESSAGE` keeps its option only."""
    kept: list[Word] = []
    skip = False
    for one in words:
        if skip:
            skip = False
            continue
        text = one.text or one.start
        name = text.split("=", 1)[0]
        if name != text and name in texts:
            kept.append(literal(name))
            continue
        kept.append(one)
        skip = one.text is not None and (
            text in texts or (bool(re.fullmatch(r"-[A-Za-z]+", text)) and f"-{text[-1]}" in texts)
        )
    return kept


def _changed_base(rule: Rule, sub: SubRule, base: str, words: Sequence[Word]) -> str:
    reads = (*rule.reads, *sub.reads)
    if any(one.text is not None and one.text.split("=", 1)[0] in reads for one in words):
        return "read"
    if sub.bare is not None and not words:
        return sub.bare
    if rule.single is not None:
        files = [one for one in words if not (one.text or "").startswith("-")]
        if len(files) <= 1 and all(one.text is not None for one in words):
            return rule.single
    return base


def _raised(rule: Rule, sub: SubRule, words: Sequence[Word]) -> list[str]:
    """The classes of options; a word that may be any option counts as all of them."""
    options = {**rule.options, **sub.options}
    unless = {**rule.unless, **sub.unless}
    made: list[str] = []
    for one in words:
        known = one.text or one.start
        if one.text is None or one.is_pattern:
            made += [*sub.starts.values(), *sub.holds.values()]
        made += [name for start, name in sub.starts.items() if known.startswith(start)]
        made += [name for part, name in sub.holds.items() if part in known]
    for at, one in enumerate(words):
        if one.text == "--":
            break
        if one.may_be_any_option:
            made += options.values()
            continue
        text = one.text or one.start
        for option, name in {**rule.literal_options, **options}.items():
            following = words[at + 1].text if at + 1 < len(words) else None
            if _is_option(text, option) and not _excused(text, option, following, unless):
                made.append(name)
    return made


def _is_option(text: str, option: str) -> bool:
    if option.startswith("--"):
        name = text.split("=", 1)[0]
        return len(name) > 2 and option.startswith(name)
    if len(option) > 2:  # `-exec` of go
        return text.split("=", 1)[0] == option
    return text.startswith("-") and not text.startswith("--") and option[1] in text[1:]


def _excused(
    text: str, option: str, following: str | None, unless: dict[str, tuple[str, ...]]
) -> bool:
    harmless = unless.get(option, ())
    if "=" in text:
        return text.split("=", 1)[1] in harmless
    if text.startswith(option) and len(text) > len(option):
        return text[len(option) :] in harmless
    return text == option and following in harmless


def _placed(rule: Rule, sub: SubRule, base: str, words: Sequence[Word], where: Where) -> list[str]:
    """What it means for the class that words name files outside of the work folder."""
    kind = sub.words or rule.words
    if kind == "text":
        return _written_files(rule, words, where)
    files = list(words)
    if kind == "script":
        first = next((one for one in files if not (one.text or "").startswith("-")), None)
        if not any(_GIVES_SCRIPT.match(one.text or one.start) for one in files):
            files = [one for one in files if one is not first]
    outside = [one for one in files if _leaves(one, where)]
    if not outside and not where.away:
        return []
    if base == "read" or (kind == "last" and files and outside and files[-1] not in outside):
        return ["read_outside"] if not (where.away and base != "read") else ["outside"]
    return ["run"] if base == "check" else ["outside"]


def _written_files(rule: Rule, words: Sequence[Word], where: Where) -> list[str]:
    made: list[str] = []
    for at, one in enumerate(words):
        text = one.text or one.start
        name, _, value = text.partition("=")
        short = text[:2] if re.match(r"-[A-Za-z]", text) else ""
        if name not in rule.files and short not in rule.files:
            if short and not text.startswith("--") and any(f"-{c}" in rule.files for c in text[1:]):
                name = f"-{text[-1]}"
            else:
                continue
        target = value or (text[2:] if short in rule.files else "")
        following = literal(target) if target else (words[at + 1] if at + 1 < len(words) else None)
        file = None if following is None else following.text
        if file not in ("-", "/dev/null"):
            made.append("write" if file is not None and where.inside(file) else "outside")
    return made


def _leaves(word: Word, where: Where) -> bool:
    """Whether a word may name a file outside. An option's value is looked at, not its name."""
    text = word.text
    if text is None:
        return True
    if not text.startswith("-"):
        return bool(text) and where.leads_out(text)
    value = text.split("=", 1)[1] if "=" in text else text[2:]
    return bool(value) and value[0] in "/~." and not where.inside(value)
