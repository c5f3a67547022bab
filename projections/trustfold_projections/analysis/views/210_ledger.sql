-- ledger: every entry that ever moved a score; amounts and weights are signed and not yet weighed.
-- partition: partition of the ledger
-- offset: place in the partition
-- idx: number within its record
-- recorded: when the log took the fact that made it, UTC
-- recorded_us: the same, us since 1970
-- occurred: when it happened, UTC
-- occurred_us: the same, us since 1970
-- kind: evidence, correction, brake, self_play, initial, rollback or rollback_lifted
-- scope: scope of the subject
-- tool: tool of the subject; runtime for whole traces by outcome
-- effect: effect class of the subject
-- subject: key of the subject, the JSON array of the three
-- trace_id: its trace; NULL where it is of none
-- event_id: the event that made it
-- source: that event's source
-- revision: number of the entry of this trace and subject, from 1
-- tool_success_ppm: amount, millionths
-- human_approval_rate_ppm: amount, millionths
-- cost_efficiency_ppm: amount, millionths
-- constitution_clean_ppm: amount, millionths
-- undo_rate_ppm: amount, millionths
-- tool_success_weight: weight
-- human_approval_rate_weight: weight
-- cost_efficiency_weight: weight
-- constitution_clean_weight: weight
-- undo_rate_weight: weight
-- self_play_ppm: amount of self-play, millionths
-- self_play_weight: weight of self-play
-- n_samples: traces that it counts
-- clean: whether it can make a score fresh
-- bad_at: the moment that brakes the subject, UTC
-- grant_at: the moment of a human grant, UTC
-- median_usd: the median of cost it was measured by, micro-USD
-- rolled_back_to: where a rollback goes back to, UTC
-- rollback_id: a rollback's own id, or that of the one lifted
-- era: half-lives of 30 days since 2020-01-01, floored
-- m: its time weight is g = m * 2**era
-- chain: earlier recorded moments of this trace and subject, us since 1970
-- formula: the law its amounts were made for
CREATE OR REPLACE VIEW ledger AS
SELECT partition, "offset", idx,
       make_timestamp(recorded_us) AS recorded, recorded_us,
       make_timestamp(occurred_us) AS occurred, occurred_us,
       ['evidence', 'correction', 'brake', 'self_play', 'initial', 'rollback',
        'rollback_lifted'][kind] AS kind,
       subject::JSON ->> 0 AS scope, subject::JSON ->> 1 AS tool, subject::JSON ->> 2 AS effect,
       subject, trace_id, event_id, source, rev AS revision,
       a0 AS tool_success_ppm, a1 AS human_approval_rate_ppm, a2 AS cost_efficiency_ppm,
       a3 AS constitution_clean_ppm, a4 AS undo_rate_ppm,
       w0 AS tool_success_weight, w1 AS human_approval_rate_weight, w2 AS cost_efficiency_weight,
       w3 AS constitution_clean_weight, w4 AS undo_rate_weight,
       sp_a AS self_play_ppm, sp_w AS self_play_weight, n AS n_samples, clean,
       make_timestamp(bad_at) AS bad_at, make_timestamp(grant_at) AS grant_at, median_usd,
       make_timestamp(to_us) AS rolled_back_to, rollback_id, era, m, chain, formula
FROM raw_ledger WHERE recorded_us <= getvariable('settled');
