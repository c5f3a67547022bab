from collections.abc import Iterator, Sequence
from typing import Any

from pyarrow import RecordBatch, Schema, Table

class ParquetFile:
    schema_arrow: Schema
    metadata: Any
    def __init__(self, source: Any) -> None: ...
    def iter_batches(
        self, batch_size: int = ..., columns: Sequence[str] | None = ...
    ) -> Iterator[RecordBatch]: ...
    def read(self, columns: Sequence[str] | None = ...) -> Table: ...
    def close(self) -> None: ...

def write_table(
    table: Table,
    where: Any,
    row_group_size: int | None = ...,
    compression: str = ...,
    use_dictionary: bool | Sequence[str] = ...,
    write_statistics: bool = ...,
    store_schema: bool = ...,
) -> None: ...
def read_table(
    source: Any, columns: Sequence[str] | None = ..., schema: Schema | None = ...
) -> Table: ...
