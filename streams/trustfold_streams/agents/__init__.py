"""Faust agents with tables, for what is low in rate and harmless when it is done again.

Here: the synapse weights and the watch over scores. The ledger is none of this: its stages are
transactional tasks in `trustfold_streams.kafka`, since Faust counts events twice at a rebalance.
"""
