"""Options and arguments that several commands share."""

from __future__ import annotations

import contextlib
import functools
import getpass
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from msgspec import Struct

from trustfold_schemas.errors import SubjectError
from trustfold_schemas.facts import OWNER, Role, Stamp
from trustfold_schemas.instants import format_instant, parse_instant
from trustfold_schemas.subject import Subject, subject_of
from trustfold_streams.archiver.extra import require_extra as require_duckdb
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.database import Mode
from trustfold_streams.kafka import settings as kafka
from trustfold_streams.kafka.extra import require_extra
from trustfold_streams.policy_port import PolicyStore
from trustfold_streams.store_port import Store

if TYPE_CHECKING:
    from trustfold_streams.archiver.store import ArchiveStore

DEFAULT_STORE = "trust.db"
STORE_HELP = (
    "The store: a file (default: trust.db), kafka://HOST:PORT[,HOST:PORT], or archive:DIR to read."
)
ARCHIVE = "archive:"
ROLES = click.Choice(["runtime", "human", "operator", "reader"])
CONFIG_HELP = "What there is to know of a broker, TOML (default: the file TRUSTFOLD_CONFIG names)."

F = TypeVar("F", bound=Callable[..., Any])


class Settings(Struct):
    """What the options before and after the command come to."""

    store: str | None = None
    role: str | None = None
    config: Path | None = None

    @property
    def kafka_settings(self) -> kafka.KafkaSettings:
        """The broker that `--store kafka://HOST:PORT[,HOST:PORT]` or the configuration names."""
        return kafka.load(self.store, self.config)

    @property
    def path(self) -> Path:
        """The store's file."""
        name = DEFAULT_STORE if self.store is None else self.store
        if not name:
            raise click.UsageError("--store names nothing: is a variable empty?")
        if re.match(r"[a-z]+:", name) and not Path(name).exists():
            raise click.UsageError(
                f"--store {name}: a store is a file, named without a scheme, "
                "kafka://HOST:PORT[,HOST:PORT], or archive:DIR"
            )
        return Path(name)

    @property
    def stamp(self) -> Stamp:
        """As whom this command speaks."""
        return OWNER if self.role is None else Stamp(cast("Role", self.role))

    @property
    def on_kafka(self) -> bool:
        """Whether the store is on a broker."""
        return self.store is not None and self.store.startswith(kafka.SCHEME)

    @property
    def on_archive(self) -> bool:
        """Whether the store is an archive of one."""
        return self.store is not None and self.store.startswith(ARCHIVE)

    def open(self, mode: Mode) -> Store:
        """Open the store, in a file, on a broker or in an archive.

        Raises StreamsExtraError, DuckdbExtraError.
        """
        if self.on_archive:
            return self.open_archive()
        if not self.on_kafka:
            return self.open_file(mode)
        settings = self.kafka_settings
        require_extra()
        from trustfold_streams.kafka.command_store import KafkaStore

        return KafkaStore.open(settings, self.stamp)

    @property
    def archive_folder(self) -> Path:
        """The folder that `--store archive:DIR` names. Raises DuckdbExtraError."""
        if not self.on_archive or self.store is None:
            raise click.UsageError(
                f"this command works on an archive: --store {ARCHIVE}DIR "
                "(`trustfold archive DIR` makes one of a store)"
            )
        name = self.store.removeprefix(ARCHIVE)
        if not name:
            raise click.UsageError(f"--store {ARCHIVE} names no folder")
        folder = Path(name)
        if folder.is_file():
            raise click.UsageError(
                f"--store {self.store}: {name} is a file; an archive is a folder"
            )
        require_duckdb()
        return folder

    def open_archive(self) -> ArchiveStore:
        """Open that archive. Raises DuckdbExtraError, NoArchiveError, ArchiveDamagedError."""
        folder = self.archive_folder
        from trustfold_streams.archiver.store import ArchiveStore

        return ArchiveStore.open(folder)

    def open_file(self, mode: Mode) -> EmbeddedStore:
        """Open a store in a file, for what only a file can do."""
        if self.on_kafka or self.on_archive:
            raise click.UsageError(
                "this command works on a store in a file, not on a broker or an archive"
            )
        return EmbeddedStore.open(self.path, mode, stamp=self.stamp)

    @contextlib.contextmanager
    def open_policy(self, mode: Mode) -> Generator[PolicyStore]:
        """Open the policy of the store, in a file or on a broker. Raises StreamsExtraError."""
        if self.on_archive:
            raise click.UsageError(
                "this command asks a policy: give the store that the archive was made from"
            )
        if not self.on_kafka:
            with self.open_file(mode) as store:
                yield store.policy
            return
        settings = self.kafka_settings
        require_extra()
        from trustfold_streams.kafka.policy_commands import KafkaPolicyStore

        with KafkaPolicyStore.open(settings, self.stamp) as policy:
            yield policy

    def open_as_of(self, moment: int | None) -> Store:
        """Open the store to read it as of a moment.

        For reading, if the log has settled by then; else a file is opened for writing, so that it
        can be told to record later. A broker's log settles by itself, an archive's has.
        """
        if self.on_kafka or self.on_archive:
            return self.open("read")
        store = self.open_file("read")
        if moment is None or store.settled(moment):
            return store
        store.close()
        return self.open_file("write")


def _store_after(context: click.Context, _: click.Parameter, value: str | None) -> None:
    settings = context.find_object(Settings)
    if value is not None and settings is not None:
        settings.store = value


def _role_after(context: click.Context, _: click.Parameter, value: str | None) -> None:
    settings = context.find_object(Settings)
    if value is not None and settings is not None:
        settings.role = value


def _config_after(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    settings = context.find_object(Settings)
    if value is not None and settings is not None:
        settings.config = value


def store_option(command: F) -> F:
    """`--store`, `--config`, `--as` after the command, where they say the same as before it."""
    # Not in each command's help: few ever speak in another role.
    command = click.option(
        "--as",
        "role",
        type=ROLES,
        expose_value=False,
        hidden=True,
        callback=_role_after,
    )(command)
    command = click.option(
        "--config",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        expose_value=False,
        callback=_config_after,
        help=CONFIG_HELP,
    )(command)
    return click.option(
        "--store", metavar="STORE", expose_value=False, callback=_store_after, help=STORE_HELP
    )(command)


def json_option(command: F) -> F:
    """`--json`: one object, or one a line, for programs."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON: one object, or one a line."
    )(command)


class Moment(click.ParamType):
    """A moment: RFC 3339 with a zone, or a day, which means its first moment in UTC."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a moment into microseconds since 1970."""
        if isinstance(value, int):
            return value
        day = re.fullmatch(r"\d{4}-\d\d-\d\d", value)
        try:
            return parse_instant(f"{value}T00:00:00Z" if day else value)
        except ValueError as error:
            self.fail(f"{error}; a day such as 2026-04-22 will do too", param, ctx)


def moment_options(command: F) -> F:
    """`--as-of` and `--at`."""
    for option in (
        click.option(
            "--at",
            type=Moment(),
            metavar="T",
            help="Read the score at this moment: it halves per 30 days without clean evidence "
            "(default: now, or the moment of --as-of).",
        ),
        click.option(
            "--as-of",
            type=Moment(),
            metavar="T",
            help="Count only what was recorded at or before this moment.",
        ),
    ):
        command = option(command)
    return command


def top_option(command: F) -> F:
    """`--top`: how much of a leaderboard a person wants to see."""
    return click.option(
        "--top",
        type=click.IntRange(min=1),
        metavar="N",
        default=25,
        show_default=True,
        help="So many subjects in the table; --json prints all.",
    )(command)


def subject_arguments(command: F) -> F:
    """`TOOL EFFECT [--scope S]`, given to the command as `subject`."""

    @functools.wraps(command)
    def with_subject(*settings: Any, tool: str, effect: str, scope: str, **others: Any) -> Any:
        try:
            subject = subject_of(scope, tool, effect)
        except SubjectError as error:
            raise click.UsageError(str(error)) from None
        return command(*settings, subject=subject, **others)

    for argument in (
        click.option(
            "--scope", default="", metavar="S", help="The subject's scope (default: none)."
        ),
        click.argument("effect"),
        click.argument("tool"),
    ):
        with_subject = argument(with_subject)
    return cast("F", with_subject)


class Author(Struct, frozen=True):
    """Who takes something back, and why: kept for ever beside what was done."""

    by: str
    why: str


def author_options(command: F) -> F:
    """`--why` and `--by`, given to the command as `author`."""

    @functools.wraps(command)
    def with_author(*settings: Any, by: str, why: str, **others: Any) -> Any:
        if not why.strip():
            raise click.UsageError("--why must say something")
        return command(*settings, author=Author(by, why), **others)

    for option in (
        click.option(
            "--by",
            default=getpass.getuser,
            show_default="your login name",
            metavar="WHO",
            help="Who decided it.",
        ),
        click.option("--why", required=True, metavar="WHY", help="The reason, in words."),
    ):
        with_author = option(with_author)
    return cast("F", with_author)


def why_options(command: F) -> F:
    """`--why` and `--by` of a command that only shows without them; `author` is None then."""

    @functools.wraps(command)
    def with_author(*settings: Any, by: str, why: str | None, **others: Any) -> Any:
        if why is not None and not why.strip():
            raise click.UsageError("--why must say something")
        author = None if why is None else Author(by, why)
        return command(*settings, author=author, **others)

    for option in (
        click.option("--by", default=getpass.getuser, metavar="WHO", help="Who decided it."),
        click.option("--why", metavar="WHY", help="The reason, in words."),
    ):
        with_author = option(with_author)
    return cast("F", with_author)


def shown(subject: Subject) -> str:
    """A subject as it is typed on the command line."""
    scope = f" --scope {subject.scope!r}" if subject.scope else ""
    return f"{subject.tool} {subject.effect!r}{scope}"


def moment_text(moment: int | None) -> str | None:
    """An instant for JSON."""
    return None if moment is None else format_instant(moment)
