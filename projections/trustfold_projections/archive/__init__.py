"""The archive: immutable Parquet segments of the log, their rollups, and a chained manifest.

`schema` says what a segment holds, `rows` turns facts and entries into its columns and back,
`segment` writes one with its rollup and digests, `manifest` is the truth about which ones count.
Needs the extra `duckdb`. What has a lock or a clock lives in `trustfold_streams.archiver`.
"""
