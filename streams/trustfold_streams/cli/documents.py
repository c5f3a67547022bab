"""JSON of commands that are not events: read strictly, refused with the line and the path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import TypeVar

import click
import msgspec

from trustfold_schemas.amounts import MicroUsd, Ppm, micro_usd, ppm
from trustfold_schemas.errors import CallerError, EventRefused
from trustfold_schemas.facts import Stamp
from trustfold_schemas.instants import Instant, parse_instant
from trustfold_schemas.receipts import Document, Receipt
from trustfold_streams.cli.lines import open_sources
from trustfold_streams.store_port import Store

T = TypeVar("T")


def decoder(wanted: type[T]) -> Callable[[bytes], T]:
    """Reads one document of a type; money and shares are exact decimals."""
    made = msgspec.json.Decoder(wanted, dec_hook=_typed, float_hook=Decimal)

    def read(body: bytes) -> T:
        try:
            return made.decode(body)
        except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
            raise click.UsageError(str(error)) from None

    return read


def read_lines(files: Iterable[str], read: Callable[[bytes], T]) -> Iterator[T]:
    """What the lines of files say, `-` being standard input; a bad one is wrong use."""
    for source in open_sources(files, twice=False):
        for one in source.documents():
            try:
                yield read(one.body)
            except click.UsageError as error:
                raise click.UsageError(f"{one.origin}: {error.message}") from None
            except CallerError as error:
                raise click.UsageError(f"{one.origin}: {error}") from None


def publish(store: Store, body: bytes, stamp: Stamp) -> None:
    """Publish one event; durable when this returns. Raises EventRefused; the letter is kept."""
    receipts: list[Receipt] = []
    store.ingest([Document(body, "a command")], stamp, committed=receipts.extend)
    (receipt,) = receipts
    if receipt.reason is not None:
        raise EventRefused(receipt.reason, receipt.detail or "")


def _typed(wanted: type, got: object) -> object:
    if wanted is MicroUsd:
        return micro_usd(got)
    if wanted is Ppm:
        return ppm(got)
    if wanted is Instant:
        if not isinstance(got, str):
            raise ValueError("Expected an RFC 3339 time with a zone")
        return parse_instant(got)
    raise NotImplementedError(wanted)
