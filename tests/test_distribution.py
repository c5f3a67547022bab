"""What a user installs: the sdist, the wheel built from it, and the locks.

Everything is built and installed in temporary folders; the work tree is only read. What the
installed command answers is tested elsewhere: here it only has to start.
"""

import email
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("build.lock", "dev.lock", "run.lock")
PACKAGES = {"trustfold", "trustfold_projections", "trustfold_schemas", "trustfold_streams"}

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[A-Za-z0-9.+!]+)(?: ; (?P<when>[^\\]+))? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def succeed(*command: str | Path, cwd: Path) -> str:
    """Run a command without standard input and return what it printed; fail with all of it."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def pins(lock: str) -> set[tuple[str, str]]:
    """Return name and version of everything that a lock pins."""
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    return {(pin["name"], pin["version"]) for pin in map(PIN.fullmatch, text.splitlines()) if pin}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of the work tree."""
    out = tmp_path_factory.mktemp("sdist")
    succeed(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", out, cwd=ROOT)
    [archive] = out.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the unpacked sdist and not from the work tree."""
    source = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    [unpacked] = source.iterdir()
    out = tmp_path_factory.mktemp("wheel")
    succeed(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, cwd=unpacked)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment with the base dependencies and the wheel."""
    home = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    lock = ROOT / "requirements" / "run.lock"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    succeed(*pip, "--require-hashes", "-r", lock, cwd=home)
    succeed(*pip, "--no-deps", "--no-index", wheel, cwd=home)
    return home / "bin"


def test_sdist_holds_what_its_own_make_targets_need(sdist: Path) -> None:
    """Whoever unpacks the sdist can run, test and check it: nothing of the house is left out."""
    with tarfile.open(sdist) as archive:
        names = {str(PurePosixPath(*PurePosixPath(n).parts[1:])) for n in archive.getnames()}
    needed = {
        ".ci/run",
        "LICENSE",
        "Makefile",
        "docs/decisions/0001-one-distribution-four-packages.md",
        "examples/first_month.jsonl",
        "pyproject.toml",
        "tests/test_distribution.py",
        *(f"requirements/{lock}" for lock in LOCKS),
        *(f"requirements/{source}" for source in ("build.in", "dev.in")),
    }
    assert needed - names == set()


def test_wheel_installs_four_packages_and_no_other_name(wheel: Path) -> None:
    """The wheel takes four names at the top level, none of them generic, and marks all as typed."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} - set(names) == set()


def test_base_needs_three_distributions(wheel: Path) -> None:
    """Without an extra the wheel asks for msgspec, click and rich, and for nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        wanted = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
    base = {re.split(r"[^a-z]", wish)[0] for wish in wanted if "extra ==" not in wish}
    assert base == {"click", "msgspec", "rich"}


def test_every_package_imports_with_the_base_alone(installed: Path) -> None:
    """The four packages can be imported where no extra is installed, from the wheel itself."""
    code = f"import {', '.join(sorted(PACKAGES))}; print(trustfold.__file__)"
    found = succeed(installed / "python", "-I", "-c", code, cwd=installed)
    assert Path(found.strip()).is_relative_to(installed.parent)


def test_command_starts_with_the_base_alone(installed: Path) -> None:
    """`trustfold --help` answers in an environment that holds the base dependencies only."""
    assert "Usage: trustfold" in succeed(installed / "trustfold", "--help", cwd=installed)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_pins_and_hashes_and_names_no_place(lock: str) -> None:
    """A lock holds exact versions with SHA-256 and names no registry, host, option or folder."""
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if not line.lstrip().startswith("#")]
    assert [line for line in code if not (PIN.fullmatch(line) or HASH.fullmatch(line))] == []
    remarks = " ".join(line for line in lines if line.lstrip().startswith("#"))
    assert [word for word in remarks.split() if "://" in word or word.startswith(("/", "~"))] == []


@pytest.mark.parametrize("lock", ["build.lock", "run.lock"])
def test_small_locks_are_cut_out_of_the_large_one(lock: str) -> None:
    """What is tested is what runs: every pin of a small lock is a pin of dev.lock."""
    assert pins(lock) != set()
    assert pins(lock) - pins("dev.lock") == set()
