-- The chain of the last decision stands in `meta` as well, so that a log that was cut off shows.

INSERT INTO meta (name, value)
SELECT 'decisions', chain FROM decisions ORDER BY position DESC LIMIT 1;
