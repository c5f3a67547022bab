-- people: who is asked most, and what they say.
-- by_id: who answers
-- answers: answers given
-- granted: granted
-- denied: denied
-- expired: not answered in time
-- traces: traces they were asked about
-- answers_a_day_max: most answers on one day
-- first: their first answer, UTC
-- last: their last answer, UTC
CREATE OR REPLACE VIEW people AS
WITH by_day AS (
    SELECT by_id, occurred::DATE AS day, count(*) AS answers FROM approvals
    WHERE by_kind = 'human' GROUP BY ALL
), busiest AS (SELECT by_id, max(answers) AS answers_a_day_max FROM by_day GROUP BY by_id)
SELECT by_id, count(*) AS answers, count(*) FILTER (decision = 'granted') AS granted,
       count(*) FILTER (decision = 'denied') AS denied,
       count(*) FILTER (decision = 'expired') AS expired, count(DISTINCT trace_id) AS traces,
       any_value(answers_a_day_max) AS answers_a_day_max, min(occurred) AS first,
       max(occurred) AS last
FROM approvals JOIN busiest USING (by_id) WHERE by_kind = 'human'
GROUP BY by_id ORDER BY answers DESC, by_id;
