// Ask first or try a repair: the same computation as the engine's `trial`, in expected minutes until the run is mended.
// Only mathematics. Runs in a page (window.PlaybookTrial) and in Node (require).
(function (root, factory) {
  if (typeof module === "object" && module.exports) module.exports = factory(require("./engine.js"));
  else root.PlaybookTrial = factory(root.PlaybookEngine);
})(typeof self === "undefined" ? this : self, function (engine) {
  "use strict";

  const { tie, byName } = engine; // near ties do not hang on the last bit of a sum

  // The place of the largest, the first one of equals.
  function largest(values) {
    let best = 0;
    for (let f = 1; f < values.length; f++) if (values[f] > values[best]) best = f;
    return best;
  }

  // Repairs that treat one of `causes` (indices): [{id, minutes, harmless, treats: [columns of causes]}], by id.
  function repairsOf(tables, causes, size, tried) {
    const place = new Map(causes.map((h, column) => [tables.causes[h], column]));
    return tables.fixes
      .filter((fix) => fix.kind === "repair" && !(tried && tried.has(fix.id)) && fix.treats.some((cause) => place.has(cause)))
      .sort((a, b) => byName(a.id, b.id))
      .map((fix) => ({
        id: fix.id,
        minutes: engine.fixCost(tables.k, fix, size),
        harmless: tables.k.harmless.includes(fix.risk),
        treats: [...new Set(fix.treats.filter((cause) => place.has(cause)).map((cause) => place.get(cause)))].sort((a, b) => a - b),
      }));
  }

  function chanceOf(repair, weights) {
    return repair.treats.reduce((sum, c) => sum + weights[c], 0);
  }

  // Expected minutes until mended; what is missing to 1 in `weights` no repair of the book treats.
  function minutesToMend(k, repairs, weights) {
    const left = weights.slice();
    let rest = 1;
    let total = 0;
    while (repairs.length) {
      const chance = repairs.map((repair) => chanceOf(repair, left));
      const best = largest(chance.map((p, f) => tie(p / repairs[f].minutes)));
      if (chance[best] * k.handOnMinutes <= repairs[best].minutes * rest) break;
      total += repairs[best].minutes * rest;
      repairs[best].treats.forEach((c) => (left[c] = 0));
      rest -= chance[best];
    }
    return total + k.handOnMinutes * Math.max(rest, 0);
  }

  // Minutes from the failure of a trial on, times the chance that it fails.
  function ifFailed(k, repairs, weights, f) {
    const left = weights.slice();
    repairs[f].treats.forEach((c) => (left[c] = 0));
    const fails = 1 - chanceOf(repairs[f], weights);
    return fails > 1e-9 ? fails * minutesToMend(k, repairs, left.map((p) => p / fails)) : 0;
  }

  // Minutes when one question is asked first (and the answer may not be had).
  function ifAsked(tables, belief, known, option, repairs, causes, now) {
    const signal = tables.signals.get(option.signal);
    const exponent = engine.exponentOf(tables, known, signal);
    let after = 0;
    for (let o = 0; o < signal.outcomes.length; o++) {
      let chance = belief.unknown * signal.background[o];
      let total = belief.unknown * signal.background[o] ** exponent;
      const joint = belief.marginal.map((p, h) => {
        const likely = signal.likelihood[h][o];
        chance += p * likely;
        const weight = p * likely ** exponent;
        total += weight;
        return weight;
      });
      const divisor = Math.max(total, 1e-300);
      after += chance * minutesToMend(tables.k, repairs, causes.map((h) => joint[h] / divisor));
    }
    const had = signal.answered ** 0.5;
    return option.cost.total + had * after + (1 - had) * now;
  }

  // The repair that is better tried than anything asked: {fix, chance, minutes, ifTried, ifAsked}, or null.
  // `plan` is the plan of `diagnose`; tried: a Set of repairs that did not mend it.
  function trial(tables, belief, plan, size, tried) {
    const { k } = tables;
    const run = size || { gpus: k.gpus, stepSeconds: k.stepSeconds };
    const causes = [];
    belief.marginal.forEach((p, h) => p >= k.negligible && causes.push(h));
    const repairs = repairsOf(tables, causes, run, tried);
    if (!plan.length || !repairs.length) return null;
    const weights = causes.map((h) => belief.marginal[h]);
    const worth = repairs
      .map((repair, f) => ({ f, chance: chanceOf(repair, weights) }))
      .filter(({ f, chance }) => repairs[f].harmless && chance >= k.trialLikely)
      .sort((a, b) => tie(b.chance / repairs[b.f].minutes) - tie(a.chance / repairs[a.f].minutes) || a.f - b.f);
    if (!worth.length) return null;
    const known = belief.used.map((e) => e.signal);
    const now = minutesToMend(k, repairs, weights);
    const asked = Math.min(...plan.slice(0, k.trialAsked).map((o) => ifAsked(tables, belief, known, o, repairs, causes, now)));
    const minutes = worth.map(({ f }) => repairs[f].minutes + ifFailed(k, repairs, weights, f));
    const best = largest(minutes.map((m) => -Number(m.toFixed(9))));
    if (minutes[best] > (1 - k.trialSaves) * asked) return null;
    const { f, chance } = worth[best];
    return { fix: repairs[f].id, chance, minutes: repairs[f].minutes, ifTried: minutes[best], ifAsked: asked };
  }

  // What a trial in vain tells: [{signal, state}], the other way round where a signal is a plain yes or no. What was seen
  // stays: a repair that fails does not unsee it.
  function inVain(tables, fix, seen) {
    const other = { yes: "no", no: "yes" };
    return fix.tests
      .filter(([signal]) => !seen.has(signal) && [...tables.signals.get(signal).outcomes].sort().join() === "no,yes")
      .map(([signal, outcome]) => ({ signal, state: other[outcome] }));
  }

  // The most probable cause that a fix treats.
  function mended(tables, belief, fix) {
    const treated = tables.causes.map((_, h) => h).filter((h) => fix.treats.includes(tables.causes[h]));
    return treated.length ? tables.causes[treated.reduce((a, b) => (belief.marginal[b] > belief.marginal[a] ? b : a))] : null;
  }

  return { trial, inVain, mended };
});
