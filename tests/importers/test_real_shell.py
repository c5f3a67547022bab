"""The shell itself as an oracle: what it runs of a line is never stricter than the line's class.

Programs are stubs that write down how they were called, in a folder of their own; lines are made
of pieces that name nothing outside of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trustfold_streams.importers.shell import class_of_call, class_of_line
from trustfold_streams.importers.shell.line import ranks

BASH = shutil.which("bash")
SECONDS_MAX = 5.0
"""After which a line that still runs is ended; what it ran until then counts."""
STUBS = ("rm", "ls", "cat", "git", "curl", "tee")
END = "no-word-of-a-line"
SHELLS = ("sh", "bash")
LOOKED_THROUGH = ("env", "timeout", "xargs", "find", "nohup")

pieces = st.sampled_from(
    [
        *("rm a", "rm", "ls", "cat", "echo", "git push --force", "git", "curl u", "tee", "a", "b"),
        *(";", "|", "||", "&&", "(", ")", "{ ", "; }", "$(", "`", "'", '"', "\\", "\n", " ", " "),
        *("<<E\n", "\nE\n", "<<'E'\n", "<<<", "$((", "))", "${x:-", "}", "<(", ">(", "$x", '"$x"'),
        *("if ", "then ", "else ", "fi", "for x in ", "do ", "done", "case ", " in ", "esac", "! "),
        *("eval ", "sh -c ", "bash -c ", "bash", "x=", "[ ", " ]", "[[ ", " ]]", "#", "*", "time "),
        *("env ", "exec ", "command ", "\\\n", "$'", "a[", "] ", "2>&1", "> o", ">> o", "< o"),
        *("timeout 1 ", "xargs ", "find . -exec ", " {} \\;", "{ls,rm}", "export ", "nohup ", "|&"),
    ]
)
calls_of_stubs = st.sampled_from(
    ["rm a", "ls", "cat a", "git push --force", "git log", "curl u", "tee o", "echo a", "x=a", ":"]
)
forms = st.sampled_from(
    [
        *("{a}; {b}", "{a} && {b}", "{a} || {b}", "{a} | {b}", "{a}\n{b}", "({a}); {b}"),
        *("{{ {a}; }}; {b}", "echo $({a})", "echo `{a}`", 'echo "$({a}) {b}"', "sh -c '{a}'"),
        *("if {a}; then {b}; fi", "for x in a b; do {a}; done", "case a in a) {a};; esac"),
        *("cat <<E\n$({a})\nE", "bash <<'E'\n{a}\nE", "cat <({a})", "! {a}", "time {a}"),
        *(
            "env {a}",
            "timeout 1 {a}",
            "{a} > o",
            "{a} 2>&1",
            "eval '{a}'",
            "x=$({a})",
            "[[ $({a}) ]]",
        ),
        *("echo ${{x:-$({a})}}", "echo $((1 + $({a})))", "{a} | xargs {b}", "find . -exec {a} \\;"),
    ]
)
whole = st.recursive(
    calls_of_stubs,
    lambda some: st.builds(lambda form, a, b: form.format(a=a, b=b), forms, some, some),
    max_leaves=5,
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Whole lines, and such with a piece put in or taken out anywhere."""
    line = draw(whole)
    for piece in draw(st.lists(pieces, max_size=2)):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + piece + line[at + draw(st.integers(0, 2)) :]
    return line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stubs, which is all that a line finds."""
    made = tmp_path_factory.mktemp("shell")
    (made / "bin").mkdir()
    # One call, so that two stubs at work at once do not write into each other's line.
    write = f'printf "%s\\0" "$0" "$@" {END} >> {made}/log\n'
    for name in (*STUBS, *SHELLS):
        stub = made / "bin" / name
        # A shell is looked through like the others: what it is given shows in what it calls.
        does = f'exec {BASH} --norc --noprofile "$@"\n' if name in SHELLS else write
        stub.write_text(f"#!{BASH}\n{does}", encoding="utf-8")
        stub.chmod(0o700)
    for name in LOOKED_THROUGH:
        found = shutil.which(name)
        if found is not None:
            (made / "bin" / name).symlink_to(found)
    return made


def calls(folder: Path, line: str) -> list[list[str]]:
    """Run a line, and tell which stubs it called with which words."""
    log, place = folder / "log", folder / "place"
    log.unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    assert BASH is not None
    running = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-c", line],
        cwd=place,
        env={"PATH": str(folder / "bin"), "HOME": str(place), "x": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(SECONDS_MAX)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    if not log.exists():
        return []
    whole = log.read_text(encoding="utf-8", errors="replace").split(f"\0{END}\0")
    return [[Path(name).name, *words] for name, *words in (one.split("\0") for one in whole[:-1])]


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines())
def test_what_the_shell_runs_is_no_stricter_than_the_line(folder: Path, line: str) -> None:
    """Neither by what it calls nor by what it writes; from `run` on a line may do anything."""
    strict = ranks()
    rank = strict[class_of_line(line).removeprefix("shell:")]
    if rank >= strict["run"]:
        return
    for call in calls(folder, line):
        assert strict[class_of_call(call).removeprefix("shell:")] <= rank, call
    written = [path.name for path in (folder / "place").iterdir()]
    assert not written or rank >= strict["write"], written


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "called"),
    [("ls a | cat", ["ls", "a"]), ("sh -c 'rm \"b c\"'", ["rm", "b c"]), ("$(ls)", ["ls"])],
)
def test_the_oracle_sees_what_is_called(folder: Path, line: str, called: list[str]) -> None:
    """Without this the test above would pass on a shell that runs nothing."""
    assert called in calls(folder, line)
