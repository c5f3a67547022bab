-- mantissas: those of the time weights; in step i and f/H of the way, m = low + step * f // H.
-- i: the step within a half-life of 30 days, 0 to 4095 (a 4096th each)
-- low: floor(2**(30 + i/4096))
-- step: the difference to the next one
CREATE OR REPLACE TABLE mantissas AS SELECT unnest(getvariable('mantissas'), recursive := true);
