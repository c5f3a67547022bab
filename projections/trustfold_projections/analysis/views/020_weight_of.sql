-- weight_of(moment_us, relative_to_us): g(moment) / g(relative_to), a double from exact integers.
CREATE OR REPLACE MACRO era_of(moment_us) AS
    ((greatest(moment_us, 1577836800000000) - 1577836800000000) // 2592000000000)::INTEGER;
CREATE OR REPLACE MACRO in_era(moment_us) AS
    (greatest(moment_us, 1577836800000000) - 1577836800000000) % 2592000000000;
CREATE OR REPLACE MACRO mantissa_of(moment_us) AS (
    SELECT low + step * (in_era(moment_us) * 4096 % 2592000000000) // 2592000000000
    FROM mantissas WHERE i = in_era(moment_us) * 4096 // 2592000000000
);
CREATE OR REPLACE MACRO weight_of(moment_us, relative_to_us) AS
    mantissa_of(moment_us)::DOUBLE / mantissa_of(relative_to_us)::DOUBLE
    * pow(2.0::DOUBLE, (era_of(moment_us) - era_of(relative_to_us))::DOUBLE);
