// The engine in the browser: the same posterior, the same next question and the same verdict as the command line.
// Only mathematics: no document, no storage, no words. Runs in a page (window.PlaybookEngine) and in Node (require).
(function (root, factory) {
  if (typeof module === "object" && module.exports) module.exports = factory();
  else root.PlaybookEngine = factory();
})(typeof self === "undefined" ? this : self, function () {
  "use strict";

  // The numbers of a book, laid out for quick sums. `data` is the document of tables.js.
  function compile(data) {
    const signals = new Map();
    data.signals.forEach((signal) => {
      const spread = signal.cells.map((cell) => signal.rows[cell]);
      signals.set(signal.id, Object.assign({}, signal, { likelihood: spread }));
    });
    const members = data.classes.map(() => []);
    data.classOf.forEach((c, h) => members[c].push(h));
    const couples = new Set(data.couples.map(([i, j]) => i * data.causes.length + j));
    const roots = data.prior.map(Math.sqrt);
    return {
      k: data.constants,
      causes: data.causes,
      classes: data.classes,
      classOf: data.classOf,
      members,
      prior: data.prior,
      roots,
      couples: data.couples,
      named: (i, j) => couples.has(i * data.causes.length + j),
      coupleNorm: data.couples.reduce((sum, [i, j]) => sum + Math.sqrt(data.prior[i] * data.prior[j]), 0) || 1,
      pairNorm: (roots.reduce((a, b) => a + b, 0) ** 2 - 1) / 2,
      signals,
      fixes: data.fixes,
      precedents: network(data),
    };
  }

  // The second judgement of what is told, laid out: inputs by "signal outcome", outputs by class of the book.
  function network(data) {
    const net = data.precedents;
    if (!net) return null;
    const scaled = (row) => Float64Array.from(row, (x) => x / net.scale);
    return {
      inputs: new Map(net.features.map(([signal, outcome], k) => [`${signal} ${outcome}`, k])),
      outputs: data.classes.map((name) => net.classes.indexOf(name)),
      hidden: net.hidden.map(scaled),
      hiddenBias: scaled(net.hidden_bias),
      out: net.out.map(scaled),
      outBias: scaled(net.out_bias),
    };
  }

  // What precedents say of each class after what was told; NaN for a class that none has.
  function judge(net, said) {
    const active = Float64Array.from(net.hiddenBias);
    said.forEach((item) => {
      const confidence = item.confidence === undefined ? 1 : item.confidence;
      const outcomes = item.likelihood && item.likelihood.length ? item.likelihood : [[item.state, confidence]];
      outcomes.forEach(([outcome, weight]) => {
        const k = net.inputs.get(`${item.signal} ${outcome}`);
        if (k !== undefined) net.hidden[k].forEach((x, u) => (active[u] += weight * x));
      });
    });
    const odds = Float64Array.from(net.outBias);
    active.forEach((x, u) => {
      if (x > 0) net.out[u].forEach((y, c) => (odds[c] += x * y));
    });
    const top = odds.reduce((a, b) => Math.max(a, b), -Infinity);
    const view = net.outputs.map((c) => (c < 0 ? NaN : Math.exp(odds[c] - top)));
    const total = view.reduce((sum, x) => sum + (Number.isNaN(x) ? 0 : x), 0);
    return view.map((x) => x / total);
  }

  // What the pool of both judgements adds to the log mass of each class of the graph.
  function pool(k, view, graph) {
    const both = view.map((x) => !Number.isNaN(x));
    const sum = (row) => row.reduce((total, x, c) => total + (both[c] ? x : 0), 0);
    const share = sum(graph);
    const seen = sum(view);
    if (share <= 0 || seen <= 0) return view.map(() => 0);
    const log = (x, total) => Math.log(Math.max(x / total, k.poolLeast));
    const moved = view.map((x, c) => (both[c] ? k.poolPrecedents * log(x, seen) + (k.poolGraph - 1) * log(graph[c], share) : 0));
    const after = sum(graph.map((p, c) => p * Math.exp(moved[c])));
    return moved.map((x, c) => (both[c] ? x + Math.log(share / after) : 0));
  }

  // What was told, and the shape of the loss with it; empty where no more than that shape is.
  function saidOf(k, used) {
    const tells = (item) => k.tellers.includes(item.source);
    return used.some((item) => tells(item) && item.signal !== k.shape) ? used.filter((item) => tells(item) || item.signal === k.shape) : [];
  }

  // Weights over the outcomes of a signal: certain evidence is one outcome, unsure evidence is mixed with the background.
  function outcomeWeights(signal, item) {
    const confidence = item.confidence === undefined ? 1 : item.confidence;
    if (item.likelihood && item.likelihood.length) {
      const weights = signal.background.map(() => 0);
      item.likelihood.forEach(([outcome, weight]) => {
        const at = signal.outcomes.indexOf(outcome);
        if (at >= 0) weights[at] += weight;
      });
      const total = weights.reduce((a, b) => a + b, 0);
      return total > 0 ? weights.map((x) => x / total) : signal.background;
    }
    const at = signal.outcomes.indexOf(item.state);
    return signal.background.map((b, k) => (k === at ? confidence : 0) + (1 - confidence) * b);
  }

  // Evidence that the book can use, one item a signal (the last word on it), by name.
  function usable(tables, evidence) {
    const last = new Map();
    evidence.forEach((item) => {
      const signal = tables.signals.get(item.signal);
      if (signal && signal.outcomes.includes(item.state)) last.set(item.signal, item);
    });
    return [...last.keys()].sort(byName).map((name) => last.get(name));
  }

  function byName(a, b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function groupSizes(tables, names) {
    const sizes = new Map();
    names.forEach((name) => {
      const signal = tables.signals.get(name);
      if (signal) sizes.set(signal.group, (sizes.get(signal.group) || 0) + 1);
    });
    return sizes;
  }

  // Whether an outcome is known from what other signals say. `known`: Map of signal to its state.
  function told(signal, outcome, known) {
    return signal.toldBy[outcome].some(([name, state]) => known.get(name) === state);
  }

  // The belief after `evidence`: [{signal, state, source, confidence?, likelihood?}]; the order does not matter.
  function posterior(tables, evidence) {
    const used = usable(tables, evidence);
    const scores = scoresOf(tables, used);
    const said = tables.precedents ? saidOf(tables.k, used) : [];
    if (!said.length) return normed(tables, used, scores, null);
    const judged = judge(tables.precedents, said);
    const alone = normed(tables, said, said.length === used.length ? scores : scoresOf(tables, said), null);
    return Object.assign(normed(tables, used, scores, pool(tables.k, judged, alone.byClass)), { judged });
  }

  // What the graph says before it is normed: log mass of causes and pairs.
  function scoresOf(tables, used) {
    const { k, prior } = tables;
    const sizes = groupSizes(tables, used.map((e) => e.signal));
    const known = new Map(used.map((e) => [e.signal, e.state]));
    const weights = used.map((e) => {
      const signal = tables.signals.get(e.signal);
      const weight = sizes.get(signal.group) ** -k.discount / k.temperature;
      return told(signal, signal.outcomes.indexOf(e.state), known) ? weight * k.told : weight;
    });
    const likelihoods = used.map((item) => {
      const signal = tables.signals.get(item.signal);
      const mix = outcomeWeights(signal, item);
      return signal.likelihood.map((row) => {
        let sum = 0;
        for (let o = 0; o < mix.length; o++) sum += (row[o] / signal.background[o]) * mix[o];
        return Math.max(sum, k.impossible);
      });
    });
    const ratios = likelihoods.map((row, e) => row.map((x) => Math.log(x) * weights[e]));
    const possible = prior.map((_, h) => likelihoods.every((row) => row[h] > k.rulesOut));
    const rest = 1 - k.unknownPrior - k.authoredPairsPrior - k.otherPairsPrior;
    const logSingle = prior.map((p, h) => {
      if (!possible[h]) return -Infinity;
      let sum = 0;
      for (let e = 0; e < ratios.length; e++) sum += ratios[e][h];
      return Math.log(p * rest) + sum;
    });
    const pairs = candidatePairs(tables, logSingle, possible);
    const logPairs = pairs.map(([i, j]) => {
      const root = Math.sqrt(prior[i] * prior[j]);
      const p = tables.named(i, j)
        ? (k.authoredPairsPrior * root) / tables.coupleNorm
        : (k.otherPairsPrior * root) / Math.max(tables.pairNorm, 1e-12);
      let sum = 0;
      for (let e = 0; e < likelihoods.length; e++) sum += weights[e] * Math.log((likelihoods[e][i] + likelihoods[e][j]) / 2);
      return Math.log(p) + sum;
    });
    return { logSingle, pairs, logPairs, ratios, weights };
  }

  // The belief of these scores; `shift`, where it is given, is added to the log mass of each class.
  function normed(tables, used, scores, shift) {
    const { k } = tables;
    const n = tables.causes.length;
    const { pairs, ratios, weights } = scores;
    const own = tables.classOf.map((c) => (shift ? shift[c] : 0));
    const logSingle = scores.logSingle.map((x, h) => x + own[h]);
    const logPairs = scores.logPairs.map((x, p) => x + (own[pairs[p][0]] + own[pairs[p][1]]) / 2);
    const all = logSingle.concat(logPairs, [Math.log(k.unknownPrior)]);
    const top = all.reduce((a, b) => Math.max(a, b), -Infinity);
    const mass = all.map((x) => Math.exp(x - top));
    const total = mass.reduce((a, b) => a + b, 0);
    for (let m = 0; m < mass.length; m++) mass[m] /= total;
    const single = mass.slice(0, n);
    const marginal = single.slice();
    pairs.forEach(([i, j], p) => {
      marginal[i] += mass[n + p] / 2;
      marginal[j] += mass[n + p] / 2;
    });
    const named = pairs
      .map(([i, j], p) => [i, j, mass[n + p]])
      .sort((a, b) => b[2] - a[2])
      .slice(0, 20)
      .filter((pair) => pair[2] > 1e-3);
    return {
      single,
      pairs: named,
      marginal,
      unknown: mass[mass.length - 1],
      byClass: tables.members.map((hs) => hs.reduce((sum, h) => sum + marginal[h], 0)),
      ratios,
      weights,
      used,
    };
  }

  // Pairs worth a look: of the most probable single causes, and those that the book names together. Sorted.
  function candidatePairs(tables, logSingle, possible) {
    const n = tables.causes.length;
    const order = logSingle.map((_, h) => h).sort((a, b) => logSingle[b] - logSingle[a] || a - b);
    const near = order.slice(0, tables.k.pairCandidates).filter((h) => possible[h]);
    const keys = new Set();
    near.forEach((a, x) => near.slice(x + 1).forEach((b) => keys.add(Math.min(a, b) * n + Math.max(a, b))));
    tables.couples.forEach(([i, j]) => {
      if (possible[i] && possible[j]) keys.add(i * n + j);
    });
    return [...keys].sort((a, b) => a - b).map((key) => [Math.floor(key / n), key % n]);
  }

  // Of p from q in bits (Kullback and Leibler).
  function divergence(p, q) {
    let sum = 0;
    for (let c = 0; c < p.length; c++) sum += p[c] * (Math.log2(Math.max(p[c], 1e-300)) - Math.log2(Math.max(q[c], 1e-300)));
    return sum;
  }

  // The discount that a further signal of a group would have.
  function exponentOf(tables, known, signal) {
    return discount(tables.k, groupSizes(tables, known).get(signal.group) || 0);
  }

  function discount(k, others) {
    return (others + 1) ** -k.discount / k.temperature;
  }

  // Expected divergence of the classes after from before in bits for every signal that is not known: Map.
  function gains(tables, belief, known) {
    const { k } = tables;
    const before = [...belief.byClass, belief.unknown];
    const sizes = groupSizes(tables, known);
    const n = tables.causes.length;
    const found = new Map();
    const states = new Map(belief.used.map((e) => [e.signal, e.state]));
    tables.signals.forEach((signal, name) => {
      if (known.has(name)) return;
      const exponent = discount(k, sizes.get(signal.group) || 0);
      const tempered = signal.rows.map((row) => row.map((x) => x ** exponent));
      let bits = 0;
      for (let o = 0; o < signal.outcomes.length; o++) {
        const classes = new Float64Array(tables.classes.length + 1);
        let predictive = 0;
        let total = 0;
        for (let h = 0; h < n; h++) {
          const cell = signal.cells[h];
          predictive += belief.marginal[h] * signal.rows[cell][o];
          const joint = belief.marginal[h] * tempered[cell][o];
          classes[tables.classOf[h]] += joint;
          total += joint;
        }
        predictive += belief.unknown * signal.background[o];
        const outside = belief.unknown * signal.background[o] ** exponent;
        classes[tables.classes.length] = outside;
        total = Math.max(total + outside, 1e-300);
        bits += predictive * divergence(classes.map((x) => x / total), before);
      }
      const settled = signal.outcomes.some((_, o) => told(signal, o, states));
      found.set(name, Math.max(0, bits) * (settled ? k.otherThanTold : 1));
    });
    return found;
  }

  // Signals about something that this run does not have: Set.
  function moot(tables, used) {
    const known = new Map(used.filter((e) => (e.confidence === undefined ? 1 : e.confidence) >= tables.k.plain).map((e) => [e.signal, e.state]));
    const found = new Set();
    tables.signals.forEach((signal, name) => {
      if (signal.needs.some(([other, outcomes]) => known.has(other) && !outcomes.includes(known.get(other)))) found.add(name);
    });
    return found;
  }

  // A person's minutes and a run of `steps` on `gpus` GPUs, with the waiting for it. `size`: {gpus, stepSeconds}.
  function runCost(k, minutes, steps, gpus, size) {
    const hours = (steps * size.stepSeconds) / 3600;
    const waited = minutes + k.waitingWeight * hours * 60;
    const gpuHours = hours * gpus;
    return { minutes: waited, gpuHours, total: waited + gpuHours * k.minutesPerGpuHour };
  }

  // The price of one observation: {minutes, gpuHours, total}.
  function costOf(tables, signal, size, clustersDone) {
    const { k } = tables;
    if (signal.cluster && clustersDone.has(signal.cluster))
      return { minutes: k.readOffMinutes, gpuHours: 0, total: k.readOffMinutes + k.overheadMinutes };
    const run = runCost(k, signal.minutes, signal.steps, { none: 0, one: 1, all: size.gpus }[signal.gpus], size);
    const total = run.total + k.dangerMinutes[signal.danger] + k.overheadMinutes;
    return { minutes: round(run.minutes, 2), gpuHours: round(run.gpuHours, 3), total: round(total, 2) };
  }

  // Twelve digits, as in `value.options`.
  function tie(rate) {
    return Number(rate.toFixed(12));
  }

  // Rounds as Python does: the exact binary value decides, and a true tie goes to the even digit.
  function round(value, digits) {
    const exact = value.toFixed(digits + 60).split(".")[1].slice(digits);
    if (!/^50*$/.test(exact)) return Number(value.toFixed(digits));
    return (2 * Math.round((value * 10 ** digits) / 2)) / 10 ** digits;
  }

  // Every observation that could still be made, best first: [{signal, gain, cost, rate}].
  function options(tables, belief, known, closed, size, clustersDone) {
    const { k } = tables;
    const gain = gains(tables, belief, known);
    [...closed, ...moot(tables, belief.used)].forEach((name) => gain.delete(name));
    const clusters = new Map();
    gain.forEach((_, name) => {
      const cluster = tables.signals.get(name).cluster;
      if (cluster) clusters.set(cluster, (clusters.get(cluster) || []).concat(name));
    });
    const found = [];
    gain.forEach((bits, name) => {
      const signal = tables.signals.get(name);
      const cost = costOf(tables, signal, size, clustersDone);
      let worth = bits;
      if (signal.cluster && !clustersDone.has(signal.cluster)) {
        const others = clusters.get(signal.cluster).filter((other) => other !== name);
        worth += 0.5 * others.reduce((sum, other) => sum + gain.get(other), 0);
      }
      // A signal that few could tell is still worth asking for when it says much: hence the root.
      const chance = signal.answered ** 0.5;
      found.push({ signal: name, gain: bits * chance, cost, rate: (worth * chance) / cost.total });
    });
    // Rounded, so that near ties do not hang on the last bit of a sum: the same order as the command line.
    const trivial = (o) => tie(o.gain) < (tables.signals.get(o.signal).circumstance ? k.trivialCircumstance : k.trivial);
    return found.sort((a, b) => trivial(a) - trivial(b) || tie(b.rate) - tie(a.rate) || byName(a.signal, b.signal));
  }

  // The whole answer. evidence: as for `posterior`, each with `source`; closed, clustersDone: Sets; size: {gpus, stepSeconds}.
  function diagnose(tables, evidence, closed, size, clustersDone) {
    const { k } = tables;
    const run = size || { gpus: k.gpus, stepSeconds: k.stepSeconds };
    const belief = posterior(tables, evidence);
    const known = new Set(belief.used.map((e) => e.signal));
    const ranked = rank(tables, belief);
    const worth = options(tables, belief, known, closed || new Set(), run, clustersDone || new Set()).filter(
      (o) => o.gain >= k.idleGain && o.rate >= k.idleRate,
    );
    const shape = belief.used.find((e) => e.signal === k.shape);
    const told = belief.used.filter((e) => k.tellers.includes(e.source));
    const healthy = shape !== undefined && shape.state === "healthy" && !told.some((e) => tellsOfAFault(tables, e));
    const certain = ranked.length > 0 && ranked[0].probability >= k.certain;
    const [decided, why] = healthy ? [true, ""] : decide(tables, ranked, belief, worth);
    const plan = decided && !healthy ? worth.filter((o) => checks(tables, o.signal, ranked)) : worth;
    return {
      causes: healthy ? [] : ranked,
      coupled: healthy ? [] : belief.pairs.filter((p) => p[2] >= 0.02).map(([i, j, p]) => [tables.causes[i], tables.causes[j], p]),
      unknown: belief.unknown,
      decided,
      why,
      healthy,
      next: healthy || !plan.length || certain ? null : plan[0],
      plan: healthy ? [] : plan.slice(0, 8),
      firstAid: healthy ? [] : firstAid(tables, shape ? shape.state : null, belief, run),
      fixes: healthy ? [] : repairs(tables, belief, run),
      belief,
    };
  }

  // Whether a signal can confirm or upset the verdict; how a run is set up confirms nothing.
  function checks(tables, name, ranked) {
    const signal = tables.signals.get(name);
    return !signal.circumstance && ranked.slice(0, 1 + tables.k.rivals).some((r) => signal.linked.includes(r.index));
  }

  // Classes by probability; the most probable form stands for its class, the others are its variants.
  function rank(tables, belief) {
    return tables.classes
      .map((name, c) => {
        const forms = tables.members[c]
          .slice()
          .sort((a, b) => tie(belief.marginal[b]) - tie(belief.marginal[a]) || byName(tables.causes[a], tables.causes[b]));
        return {
          id: tables.causes[forms[0]],
          index: forms[0],
          class: name,
          probability: belief.byClass[c],
          variants: forms.map((h) => [tables.causes[h], belief.marginal[h]]),
        };
      })
      .sort((a, b) => tie(b.probability) - tie(a.probability) || byName(a.id, b.id));
  }

  function decide(tables, ranked, belief, plan) {
    const { k } = tables;
    if (!ranked.length) return [false, "noCauses"];
    if (belief.used.filter((e) => e.signal !== k.shape).length < k.decideEvidence) return [false, "tooLittle"];
    if (belief.used.some((e) => e.signal === k.shape && (e.confidence < k.incident || e.state === "healthy"))) return [false, "weakSymptom"];
    if (belief.unknown > ranked[0].probability) return [false, "nothingExplains"];
    if (ranked[0].probability < k.decide) return [false, plan.length ? "several" : "nothingLeft"];
    if (!hasReason(tables, belief, ranked[0].index)) return [false, "noReason"];
    if (contradiction(belief, ranked[0].index) > k.contradicted) return [false, "contradicts"];
    return [true, ""];
  }

  // Whether anything beside the shape of the loss and how the run is set up is a reason for a cause.
  function hasReason(tables, belief, index) {
    const mere = (name) => name === tables.k.shape || tables.signals.get(name).circumstance;
    return reasons(tables, belief, index)[0].some((r) => !mere(r.signal));
  }

  // What speaks against a cause as a share of what speaks for it.
  function contradiction(belief, index) {
    const weights = belief.ratios.map((row) => row[index]);
    const pro = weights.filter((x) => x > 0).reduce((a, b) => a + b, 0);
    const con = weights.filter((x) => x < 0).reduce((a, b) => a - b, 0);
    if (pro > 0) return con / pro;
    return con > 0 ? 1 : 0;
  }

  // A plain yes to a question about a fault, or an outcome that is unusual; how a run is set up is no fault.
  function tellsOfAFault(tables, item) {
    const signal = tables.signals.get(item.signal);
    if (item.signal === tables.k.shape || signal.setUp) return false;
    const usual = signal.background[signal.outcomes.indexOf(item.state)];
    return usual <= tables.k.unusual || (item.state === "yes" && usual <= 0.5);
  }

  function chance(tables, belief, fix) {
    return fix.treats.reduce((sum, name) => {
      const h = tables.causes.indexOf(name);
      return h < 0 ? sum : sum + belief.marginal[h];
    }, 0);
  }

  // Minutes, with the run that judges it and its GPU-hours weighed in.
  function fixCost(k, fix, size) {
    return runCost(k, fix.minutes, fix.gpuSteps, size.gpus, size).total + k.riskMinutes[fix.risk] + 1;
  }

  function repairs(tables, belief, size) {
    const { k } = tables;
    const scored = [];
    tables.fixes.forEach((fix) => {
      if (fix.kind !== "repair") return;
      const p = chance(tables, belief, fix);
      if (p < k.worthNaming) return;
      scored.push([-p / fixCost(k, fix, size) ** 0.5, fix.id]);
    });
    return scored.sort((a, b) => a[0] - b[0] || byName(a[1], b[1])).slice(0, k.mostRepairs).map((s) => s[1]);
  }

  // What is lost without first aid, in minutes, GPU-hours weighed in.
  function losses(k, size) {
    const state = runCost(k, 0, k.stateSteps, size.gpus, size).total;
    const burn = k.burnHours * size.gpus * k.minutesPerGpuHour;
    return { burn, scene: k.sceneMinutes, state, needless: state + k.riskMinutes.medium };
  }

  // By expected loss: what an observation calls for by itself, then what treats a likely cause too, then what only looks
  // and keeps, then what changes the run.
  function firstAid(tables, shape, belief, size) {
    const { k } = tables;
    const lost = losses(k, size);
    const seen = new Map(belief.used.map((e) => [e.signal, e.state]));
    const sure = new Map(belief.used.filter((e) => (e.confidence ?? 1) >= k.sureEnough).map((e) => [e.signal, e.state]));
    const holds = (rules, by = seen) => rules.some(([signal, outcomes]) => outcomes.includes(by.get(signal)));
    const likely = (fix) => (fix.treats.length ? chance(tables, belief, fix) : 1);
    const averted = (fix) => likely(fix) * fix.averts.reduce((sum, [kind, p]) => sum + p * lost[kind], 0) - fixCost(k, fix, size);
    return tables.fixes
      .filter((fix) => fix.kind === "first-aid" && (holds(fix.calledBy) || (shape !== null && fix.symptoms.includes(shape))))
      .filter((fix) => !holds(fix.unless, sure))
      .filter((fix) => !fix.treats.length || chance(tables, belief, fix) >= k.worthNaming)
      .map((fix) => [
        holds(fix.calledBy) ? 0 : 1,
        chance(tables, belief, fix) < k.likely ? 1 : 0,
        fix.risk === "safe" ? 0 : 1,
        Number((-averted(fix)).toFixed(9)),
        fix.id,
      ])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3] || byName(a[4], b[4]))
      .slice(0, k.mostAids)
      .map((row) => row[4]);
  }

  // (for, against) of one cause, strongest first: [{signal, state, weight}], weight in nats against the causes of all
  // other classes. Only what somebody who knows the cause would call a reason.
  function reasons(tables, belief, index) {
    const { k, prior, classOf } = tables;
    const rival = classOf.map((c) => c !== classOf[index]);
    const share = prior.reduce((sum, p, h) => sum + (rival[h] ? p : 0), 0);
    const sizes = groupSizes(tables, belief.used.map((e) => e.signal));
    const rows = belief.used.map((e, at) => {
      const signal = tables.signals.get(e.signal);
      const others = belief.ratios[at].reduce((sum, x, h) => sum + (rival[h] ? prior[h] * Math.exp(x / belief.weights[at]) : 0), 0);
      const mean = Math.max(others / Math.max(share, 1e-12), 1e-300);
      const weight = belief.ratios[at][index] - belief.weights[at] * Math.log(mean);
      const needed = signal.linked.includes(index) ? signal.reasonFrom : signal.circumstance ? Infinity : k.clear;
      const shared = sizes.get(signal.group) ** -k.discount;
      const pro = weight >= Math.max(needed * shared, k.objection);
      const con = -weight >= Math.max((needed - k.reason + k.objection) * shared, k.objection);
      return { signal: e.signal, state: e.state, weight, pro, con };
    });
    const strongest = (a, b) => Math.abs(b.weight) - Math.abs(a.weight) || byName(a.signal, b.signal);
    return [rows.filter((r) => r.pro).sort(strongest), rows.filter((r) => r.con).sort(strongest)];
  }

  return { compile, posterior, gains, options, costOf, diagnose, reasons, round, fixCost, exponentOf, tie, byName };
});
