WITH "t4" AS (
  SELECT
    "t1"."step" AS "step",
    COUNT("t1"."x") AS "count",
    countIf("t1"."x", "t1"."bad") AS "nonfinite",
    quantileExactExclusive("t1"."y") AS "median",
    AVG("t1"."y") AS "mean",
    MIN("t1"."y") AS "low",
    MAX("t1"."y") AS "top",
    minIf("t1"."rank", "t1"."bad") AS "bad_rank"
  FROM (
    SELECT
      "t0"."step" AS "step",
      "t0"."rank" AS "rank",
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
      isNotNull("t0"."step") AND isNotNull("t0"."rank")
  ) AS "t1"
  GROUP BY
    "t1"."step"
)
SELECT
  "t6"."step" AS "step",
  "t6"."count" AS "count",
  "t6"."nonfinite" AS "nonfinite",
  "t6"."median" AS "median",
  "t6"."mean" AS "mean",
  "t6"."low" AS "low",
  "t6"."top" AS "top",
  "t12"."top_rank" AS "top_rank",
  "t6"."bad_rank" AS "bad_rank"
FROM "t4" AS "t6"
LEFT OUTER JOIN (
  SELECT
    "t10"."step" AS "step",
    MIN("t10"."rank") AS "top_rank"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        "t3"."step" AS "step",
        "t3"."rank" AS "rank",
        "t3"."x" AS "x",
        "t3"."good" AS "good",
        "t3"."bad" AS "bad",
        "t3"."y" AS "y",
        "t8"."top" AS "top"
      FROM (
        SELECT
          "t0"."step" AS "step",
          "t0"."rank" AS "rank",
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
          isNotNull("t0"."step")
          AND isNotNull("t0"."rank")
          AND COALESCE(ABS("t0"."value") < 1e+308, FALSE)
      ) AS "t3"
      INNER JOIN (
        SELECT
          "t5"."step" AS "step",
          "t5"."top" AS "top"
        FROM "t4" AS "t5"
      ) AS "t8"
        ON "t3"."step" = "t8"."step"
    ) AS "t9"
    WHERE
      "t9"."x" = "t9"."top"
  ) AS "t10"
  GROUP BY
    "t10"."step"
) AS "t12"
  ON "t6"."step" = "t12"."step"
