"""The class of an action tells what it does and where, and keeps its arguments to itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_schemas.subject import subject_of
from trustfold_streams.importers import Places, effect_class_of
from trustfold_streams.importers.table_rows import classes, programs, tools

ANN = Places(root="/home/ann/app", home="/home/ann")

ACTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("fs_read:./src/*", "Read", {"file_path": "/home/ann/app/src/deep/er/a.py"}),
    ("fs_read:./*", "Read", {"file_path": "README.md"}),
    ("fs_read:./.*", "Read", {"file_path": ".env"}),
    ("fs_read:~/.ssh/*", "Read", {"file_path": "~/.ssh/id_rsa"}),
    ("fs_read:~/notes/*", "Read", {"file_path": "/home/ann/notes/a/b.md"}),
    ("fs_read:outside/absolute", "Read", {"file_path": "/etc/passwd"}),
    ("fs_read:outside/absolute", "Read", {"file_path": "~bob/x"}),
    ("fs_read:outside/parent", "Read", {"file_path": "src/../../x"}),
    ("fs_read:outside/odd", "Read", {"file_path": "src/\x00x"}),
    ("fs_read:outside/odd", "Read", {"file_path": "C:\\Windows\\x"}),
    ("fs_read:outside/odd", "Read", {"file_path": "y" * 65 + "/x"}),
    ("fs_read:tmp/*", "Read", {"file_path": "/tmp/secret-name/x"}),
    ("fs_read:./*", "Grep", {"pattern": "/etc/passwd"}),
    ("fs_read:./src/*", "Grep", {"pattern": "x", "path": "src"}),
    ("fs_read:./*", "Glob", {"pattern": "**/*.py"}),
    ("fs_read:outside/parent", "Glob", {"pattern": "../*"}),
    ("fs_read:outside/absolute", "Glob", {"pattern": "/etc/*"}),
    ("fs_write:./src/*", "Edit", {"file_path": "src/a.py", "new_string": "rm -rf /"}),
    ("fs_write:./.git/*", "Write", {"file_path": "vendor/x/.git/hooks/post-commit"}),
    ("fs_write:./.git/*", "Write", {"file_path": ".GIT/config"}),
    ("fs_write:./.claude/*", "Write", {"file_path": ".claude/settings.json"}),
    ("fs_write:~/.*", "Write", {"file_path": "~/.bashrc"}),
    ("fs_write:./größe/*", "Write", {"file_path": "größe/a"}),
    ("fs_write:./src/*", "edit", {"path": "src/a.py"}),
    ("fs_write:./src/*", "apply_patch", {"input": "*** Update File: src/a.py\n+x"}),
    (
        "fs_write:./**",
        "apply_patch",
        {"input": "*** Add File: src/a.py\n+x\n*** Update File: tests/b.py\n"},
    ),
    ("fs_delete:./src/*", "apply_patch", {"input": "*** Delete File: src/a.py\n"}),
    (
        "fs_write:outside/absolute",
        "apply_patch",
        {"input": "*** Update File: src/a.py\n+x\n*** Update File: /etc/hosts\n"},
    ),
    ("unknown", "apply_patch", {"input": "no patch"}),
    ("shell:read", "Bash", {"command": "git log"}),
    ("shell:delete", "exec_command", {"cmd": "rm a"}),
    ("shell:write", "shell", {"command": ["bash", "-lc", "touch a"], "workdir": "/home/ann/app"}),
    ("shell:outside", "shell", {"command": ["bash", "-lc", "touch a"], "workdir": "/etc"}),
    ("shell:outside", "exec_command", {"cmd": "touch a", "workdir": "../b"}),
    ("unknown", "Bash", {}),
    ("unknown", "Bash", {"command": None}),
    ("unknown", "shell", {"command": []}),
    ("unknown", "shell", {"command": ["ls", 3]}),
    ("unknown", "Read", {}),
    ("unknown", "Read", {"file_path": 3}),
    ("plan:write", "TodoWrite", {"todos": []}),
    ("ask:user", "AskUserQuestion", {}),
    ("web:fetch", "WebFetch", {"url": "https://example.org/?secret"}),
    ("agent:run", "Task", {"prompt": "x"}),
    ("process:input", "write_stdin", {"chars": "y\n"}),
    ("mcp_read:linear", "mcp__linear__list_issues", {}),
    ("mcp_write:linear", "mcp__linear__create_issue", {"title": "x"}),
    ("mcp_delete:db", "mcp__db__get_and_drop_table", {}),
    ("mcp_send:linear", "mcp__linear__create_comment", {}),
    ("mcp_send:chat", "mcp__chat__postMessage", {}),
    ("mcp:playwright", "mcp__playwright__browser_run_code", {}),
    ("mcp:ide", "mcp__ide__frobnicate", {}),
    ("unknown", "frobnicate", {"x": 1}),
    ("unknown", "", {}),
)


@pytest.mark.parametrize(("wanted", "tool", "args"), ACTIONS)
def test_actions(wanted: str, tool: str, args: dict[str, Any]) -> None:
    """Each action has its class."""
    assert effect_class_of(tool, args, ANN) == wanted


def test_a_link_that_leads_out_is_a_place_of_its_own(tmp_path: Path) -> None:
    """A file behind a link out of the root is outside; behind one within, it is where it is."""
    (tmp_path / "app" / "src").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "app" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "app" / "in").symlink_to(tmp_path / "app" / "src")
    places = Places(root=str(tmp_path / "app"), follow=os.path.realpath)
    assert effect_class_of("Write", {"file_path": "out/x"}, places) == "fs_write:outside/link"
    assert effect_class_of("Write", {"file_path": "in/x"}, places) == "fs_write:./src/*"
    assert effect_class_of("Bash", {"command": "touch out/x"}, places) == "shell:outside"


def test_relative_paths_begin_in_the_folder_of_the_call() -> None:
    """A folder below the root is taken into account, one elsewhere is outside."""
    below = Places(root="/app", folder="/app/src")
    assert effect_class_of("Read", {"file_path": "a.py"}, below) == "fs_read:./src/*"
    elsewhere = Places(root="/app", folder="/etc")
    assert effect_class_of("Read", {"file_path": "a.py"}, elsewhere) == "fs_read:outside/absolute"


named = st.sampled_from(sorted([*tools().tool, "mcp__a__get", "TodoWrite", "frobnicate"]))
keys = st.sampled_from(["file_path", "path", "command", "cmd", "input", "pattern", "workdir"])
values = (
    st.none() | st.integers() | st.text(max_size=30) | st.lists(st.text(max_size=9), max_size=3)
)


@given(named | st.text(max_size=20), st.dictionaries(keys, values, max_size=4))
def test_any_action_has_a_class_that_a_subject_can_carry(tool: str, args: dict[str, Any]) -> None:
    """No call crashes, and what comes out is short enough and writable."""
    assert subject_of("tool", effect_class_of(tool, args, ANN)).effect


@given(st.from_regex(r"[a-z]{1,9}(/[a-z]{1,9}){2,4}", fullmatch=True))
def test_only_the_first_folder_leaves(path: str) -> None:
    """Of a path inside nothing is told but its first folder."""
    first = path.split("/", 1)[0]
    assert effect_class_of("Edit", {"file_path": path}) == f"fs_write:./{first}/*"


def test_every_class_of_the_tables_exists() -> None:
    """What the tables of programs and tools name is a class that is described."""
    shell = {row.effect.removeprefix("shell:") for row in classes().shell}
    rows = {row.effect for row in classes().effect}
    known = programs()
    used = {*known.simple, *known.words, *known.modules}
    for rule in known.rules().values():
        used |= {rule.base, *rule.options.values(), *rule.subs}
        used |= {one for one in (rule.bare, rule.single) if one is not None}
        for sub in rule.sub.values():
            used |= {*sub.options.values(), *sub.starts.values(), *sub.holds.values()}
            used |= {one for one in (sub.bare,) if one is not None}
    used |= {one for wrapper in known.wrapper.values() for one in (wrapper.least, wrapper.bare)}
    assert used <= shell
    fixed = {effect.split(":", 1)[0] + ":" for effect in tools().fixed}
    assert all(any(row.startswith(effect) for row in rows) for effect in fixed)
    assert {f"{kind}:*" for kind in tools().words} <= rows


def test_no_program_is_listed_twice() -> None:
    """A program has one rule: no list and no table overrides another in silence."""
    known = programs()
    listed = [name for names in (*known.simple.values(), *known.words.values()) for name in names]
    assert len(listed) == len(set(listed))
    assert not set(listed) & ({*known.rule} | {*known.wrapper} | {*known.interpreter})
