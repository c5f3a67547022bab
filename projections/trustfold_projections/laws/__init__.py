"""The laws: pure functions of the log.

No I/O, no clock, no random, no environment, no sums of floats.
"""
