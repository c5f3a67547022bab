"""The backtest: which past actions a policy would have let pass, and what became of those.

`history` reads a log into entries and actions by subject, `rules` are the policies, `reference`
the exact path that judges one action after the other, `tally` the counts that come out. For
millions of actions: `archived` reads an archive into `columns`, and `fast` judges them in `slices`.
"""
