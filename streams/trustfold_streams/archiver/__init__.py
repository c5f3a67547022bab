"""The archiver: reads a log, in a file or on a broker, and writes an archive of it.

What is written, and in which order, is `trustfold_projections.archive`; here are the locks, the
clock, and the logs it reads. Needs the extra `duckdb`.
"""
