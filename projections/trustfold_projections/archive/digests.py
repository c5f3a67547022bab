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

_BYTES_AT_ONCE = 1 << 20


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
        _add_texts(digest, values)
    elif name.startswith("list"):
        items = values.to_pylist()
        digest.update(np.array([len(item) for item in items], dtype="<i8").tobytes())
        digest.update(np.array([one for item in items for one in item], dtype="<i8").tobytes())
    else:
        held = values.fill_null(False if name == "bool" else 0)
        fixed = cast("np.ndarray[Any, Any]", held.to_numpy(zero_copy_only=False))
        kind = np.dtype(np.uint8) if name == "bool" else fixed.dtype.newbyteorder("<")
        digest.update(np.ascontiguousarray(fixed.astype(kind)).tobytes())
    return digest.digest()


def _add_texts(digest: Any, values: pa.Array) -> None:
    texts = [
        b"" if text is None else text.encode() if isinstance(text, str) else text
        for text in values.to_pylist()
    ]
    digest.update(np.array([len(text) for text in texts], dtype="<i8").tobytes())
    for start in range(0, len(texts), 4096):
        digest.update(b"".join(texts[start : start + 4096]))
