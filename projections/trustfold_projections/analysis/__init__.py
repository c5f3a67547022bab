"""Analysis: an archive asked in SQL, exactly, as it was known at any moment.

`as_of` sums, `exact` turns sums into scores without a loop, `views` is what an analyst sees,
`verify` proves an archive. Nothing here reads a clock or writes into an archive.
"""
