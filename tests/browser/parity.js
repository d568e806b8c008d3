// Standard input: {tables, moments: [{evidence, closed, clusters, size}]}. Standard output: what the browser's engine says
// of every moment: {marginal, byClass, unknown, next, rate, plan, decided, why, healthy, firstAid, fixes, top, reasons, trial}.
"use strict";
const path = require("path");
const engine = require(process.argv[2]);
const { trial } = require(path.join(path.dirname(process.argv[2]), "trial.js"));
const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk));
process.stdin.on("end", () => {
  const input = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  const tables = engine.compile(input.tables);
  const answers = input.moments.map((m) => {
    const d = engine.diagnose(tables, m.evidence, new Set(m.closed), m.size, new Set(m.clusters));
    return {
      marginal: d.belief.marginal,
      byClass: d.belief.byClass,
      unknown: d.belief.unknown,
      next: d.next ? d.next.signal : null,
      plan: d.plan.map((o) => [o.signal, o.gain, o.rate, o.cost.minutes, o.cost.gpuHours, o.cost.total]),
      decided: d.decided,
      why: d.why,
      healthy: d.healthy,
      firstAid: d.firstAid,
      fixes: d.fixes,
      top: d.causes.slice(0, 5).map((c) => [c.id, c.probability]),
      reasons: d.causes.slice(0, 3).map((c) => engine.reasons(tables, d.belief, c.index).map((rows) => rows.map((r) => [r.signal, r.weight]))),
      coupled: d.coupled,
      trial: d.healthy ? null : trial(tables, d.belief, d.plan, m.size),
    };
  });
  process.stdout.write(JSON.stringify(answers));
});
