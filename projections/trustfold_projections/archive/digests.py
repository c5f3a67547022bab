"""Digests: of a file's bytes, and of its rows whatever wrote, sorted or compressed them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from trustfold_projections.archive.schema import SCHEMAS, Topic

DERIVED: Final = frozenset({"seg_max"})
"""Columns that say something of the file, not of the log: a merge changes them."""


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def rows_digest(topic: Topic, table: pa.Table) -> str:
    """The SHA-256 of rows in the order of their offsets; the table must be in that order.

    Per column of the schema, without the derived ones, the SHA-256 of its name, its type, a byte
    a row of validity, and the values little-endian: fixed ones with 0 for NULL, booleans as
    bytes, texts and lists as their lengths in int64 and then what they hold. Then the SHA-256 of
    those digests in order.
    """
    every = hashlib.sha256()
    for column in SCHEMAS[topic]:
        if column.name not in DERIVED:
            values = table.column(column.name).combine_chunks()
            every.update(_column_digest(column, values))
    return every.hexdigest()


def in_log_order(topic: Topic, table: pa.Table) -> pa.Table:
    """Rows of one place in the order in which they stand in it."""
    keys = [("offset", "ascending")]
    if topic == "ledger":
        keys.append(("idx", "ascending"))
    return table.sort_by(keys)


def _column_digest(column: pa.Field, values: pa.Array) -> bytes:
    digest = hashlib.sha256(f"{column.name}\n{column.type}\n{len(values)}\n".encode())
    valid = cast("np.ndarray[Any, Any]", values.is_valid().to_numpy(zero_copy_only=False))
    digest.update(valid.astype(np.uint8).tobytes())
    name = str(column.type)
    if name in ("string", "binary"):
        _add_texts(digest, values.fill_null("" if name == "string" else b""))
    elif name.startswith("list"):
        digest.update(_lengths(values).astype("<i8").tobytes())
        digest.update(values.flatten().to_numpy().astype("<i8").tobytes())
    else:
        held = values.fill_null(False if name == "bool" else 0)
        fixed = cast("np.ndarray[Any, Any]", held.to_numpy(zero_copy_only=False))
        kind = np.dtype(np.uint8) if name == "bool" else fixed.dtype.newbyteorder("<")
        digest.update(np.ascontiguousarray(fixed.astype(kind)).tobytes())
    return digest.digest()


def _add_texts(digest: Any, values: pa.Array) -> None:
    lengths = _lengths(values)
    digest.update(lengths.astype("<i8").tobytes())
    data = values.buffers()[2]
    if data is not None:
        first = int(_offsets(values)[0])
        held = np.frombuffer(cast("Any", data), np.uint8)[first : first + int(lengths.sum())]
        digest.update(held.data)


def _offsets(values: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Where each text or list begins, and the last one ends."""
    offsets = values.buffers()[1]
    assert offsets is not None
    every = np.frombuffer(cast("Any", offsets), np.int32)
    return every[values.offset : values.offset + len(values) + 1]


def _lengths(values: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.diff(_offsets(values).astype(np.int64))
