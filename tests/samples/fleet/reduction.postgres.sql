WITH "t4" AS (
  SELECT
    "t1"."step",
    COUNT("t1"."x") AS "count",
    COUNT("t1"."x") FILTER(WHERE
      "t1"."bad") AS "nonfinite",
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY
      "t1"."y") AS "median",
    AVG("t1"."y") AS "mean",
    MIN("t1"."y") AS "low",
    MAX("t1"."y") AS "top",
    MIN("t1"."rank") FILTER(WHERE
      "t1"."bad") AS "bad_rank"
  FROM (
    SELECT
      "t0"."step",
      "t0"."rank",
      "t0"."value" AS "x",
      COALESCE(ABS("t0"."value") < 1e+308, FALSE) AS "good",
      NOT (
        COALESCE(ABS("t0"."value") < 1e+308, TRUE)
      ) AS "bad",
      CASE
        WHEN COALESCE(ABS("t0"."value") < 1e+308, FALSE)
        THEN "t0"."value"
        ELSE NULL
      END AS "y"
    FROM "playbook_fleet" AS "t0"
    WHERE
      "t0"."step" IS NOT NULL AND "t0"."rank" IS NOT NULL
  ) AS "t1"
  GROUP BY
    1
)
SELECT
  "t6"."step",
  "t6"."count",
  "t6"."nonfinite",
  "t6"."median",
  "t6"."mean",
  "t6"."low",
  "t6"."top",
  "t12"."top_rank",
  "t6"."bad_rank"
FROM "t4" AS "t6"
LEFT OUTER JOIN (
  SELECT
    "t10"."step",
    MIN("t10"."rank") AS "top_rank"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        "t3"."step",
        "t3"."rank",
        "t3"."x",
        "t3"."good",
        "t3"."bad",
        "t3"."y",
        "t8"."top"
      FROM (
        SELECT
          "t0"."step",
          "t0"."rank",
          "t0"."value" AS "x",
          COALESCE(ABS("t0"."value") < 1e+308, FALSE) AS "good",
          NOT (
            COALESCE(ABS("t0"."value") < 1e+308, TRUE)
          ) AS "bad",
          CASE
            WHEN COALESCE(ABS("t0"."value") < 1e+308, FALSE)
            THEN "t0"."value"
            ELSE NULL
          END AS "y"
        FROM "playbook_fleet" AS "t0"
        WHERE
          "t0"."step" IS NOT NULL
          AND "t0"."rank" IS NOT NULL
          AND COALESCE(ABS("t0"."value") < 1e+308, FALSE)
      ) AS "t3"
      INNER JOIN (
        SELECT
          "t5"."step",
          "t5"."top"
        FROM "t4" AS "t5"
      ) AS "t8"
        ON "t3"."step" = "t8"."step"
    ) AS "t9"
    WHERE
      "t9"."x" = "t9"."top"
  ) AS "t10"
  GROUP BY
    1
) AS "t12"
  ON "t6"."step" = "t12"."step"
