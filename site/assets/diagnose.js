// The guided diagnosis: asks the engine's next question, shows how the causes move, keeps the answers in the address.
(function () {
  "use strict";
  const { el, addCopy } = window.PlaybookPage;
  const engine = window.PlaybookEngine;
  const trials = window.PlaybookTrial;
  const tables = engine.compile(window.PLAYBOOK_TABLES);
  const texts = window.PLAYBOOK_TEXTS;
  const say = texts.words;
  const shape = tables.k.shape;
  const up = document.body.dataset.up;
  const root = document.getElementById("diagnosis");
  const start = document.getElementById("start");
  const ask = root.querySelector(".dg-ask");
  const aid = root.querySelector(".dg-aid");
  const side = root.querySelector(".dg-causes");
  const verdict = root.querySelector(".dg-verdict");
  const trail = root.querySelector(".dg-trail");
  const SHOWN = 6; // causes
  const TRIED = "tried"; // a move that is no answer: a repair that did not help
  const MENDED = "mended"; // a repair that did; both have the fix as their state

  // The moves are the address: #loss-shape=instant-nan&precision=fp16&grad-norm-before=unknown
  let moves = [];
  function read() {
    moves = [];
    new URLSearchParams(location.hash.slice(1)).forEach((state, signal) => {
      if (signal === TRIED || signal === MENDED) {
        if (fixOf(state)) moves.push({ signal, state });
        return;
      }
      const entry = tables.signals.get(signal);
      const outcome = state.replace(/\?$/, "");
      if (entry && (outcome === tables.k.unknown || entry.outcomes.includes(outcome))) moves.push({ signal, state });
    });
  }
  function fixOf(id) {
    return tables.fixes.find((fix) => fix.id === id);
  }
  function tried() {
    return new Set(moves.filter((m) => m.signal === TRIED).map((m) => m.state));
  }
  function answers() {
    return moves.filter((m) => m.signal !== TRIED && m.signal !== MENDED);
  }
  function write() {
    const hash = moves.map((m) => `${encodeURIComponent(m.signal)}=${encodeURIComponent(m.state)}`).join("&");
    history.replaceState(null, "", hash ? "#" + hash : location.pathname.split("/").pop() || "diagnose.html");
    show(true);
  }

  function state() {
    const known = new Map();
    const closed = new Set();
    const clusters = new Set();
    answers().forEach(({ signal, state }) => {
      const outcome = state.replace(/\?$/, "");
      if (outcome === tables.k.unknown) {
        closed.add(signal);
        return;
      }
      closed.delete(signal);
      const confidence = state.endsWith("?") ? tables.k.unsure : 1;
      known.set(signal, { signal, state: outcome, source: "person", confidence });
      const cluster = tables.signals.get(signal).cluster;
      if (cluster) clusters.add(cluster);
    });
    return { evidence: [...known.values()], closed, clusters };
  }

  function answer(signal, outcome) {
    moves = moves.filter((m) => m.signal !== signal);
    moves.push({ signal, state: outcome });
    write();
  }

  function percent(share) {
    if (share <= 0) return "0 %";
    if (share < 0.01) return "< 1 %";
    return `${share < 0.9995 ? Math.min(99, Math.round(share * 100)) : 100} %`;
  }

  function price(cost) {
    const time =
      cost.minutes >= 90
        ? say.hours.replace("{n}", (cost.minutes / 60).toFixed(1).replace(/\.0$/, ""))
        : cost.minutes > 0 && cost.minutes < 1
          ? say.underMinute
          : say.minutes.replace("{n}", cost.minutes.toFixed(0));
    return cost.gpuHours >= 0.05 ? `${time} · ${say.gpuHours.replace("{n}", cost.gpuHours.toFixed(1))}` : time;
  }

  function bar(share) {
    const ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("class", "bar");
    svg.setAttribute("viewBox", "0 0 100 8");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    [["bar-bg", 100], ["bar-fg", share * 100]].forEach(([name, width]) => {
      const rect = document.createElementNS(ns, "rect");
      rect.setAttribute("class", name);
      rect.setAttribute("width", width);
      rect.setAttribute("height", 8);
      svg.append(rect);
    });
    return svg;
  }

  // One question with its answers as buttons; digits press them.
  function questionCard(name, option) {
    const text = texts.signals[name];
    const entry = tables.signals.get(name);
    const card = el("div", { class: "dg-card" }, el("h2", {}, text.question));
    if (option) {
      const meta = el("p", { class: "meta" }, el("span", {}, text.way), el("span", {}, price(option.cost)));
      meta.append(el("span", {}, say.tells.replace("{n}", option.gain.toFixed(2))));
      if (text.danger) meta.append(el("span", { class: "risk" }, text.danger));
      card.append(meta);
    }
    const answers = el("div", { class: "dg-answers" });
    entry.outcomes.forEach((outcome, k) => {
      answers.append(
        el(
          "button",
          { type: "button", "data-key": String(k + 1), onclick: () => answer(name, outcome) },
          el("kbd", {}, String(k + 1)),
          el("b", {}, outcome),
          el("span", {}, text.outcomes[outcome]),
        ),
      );
    });
    answers.append(
      el(
        "button",
        { type: "button", class: "weak", "data-key": "0", onclick: () => answer(name, tables.k.unknown) },
        el("kbd", {}, "0"),
        say.unknown,
      ),
    );
    card.append(answers);
    const how = el("details", { class: "fold" }, el("summary", {}, say.how), el("p", {}, text.how));
    if (text.run) {
      const figure = el("figure", { class: "cmd" }, el("pre", { tabindex: "0" }, el("code", {}, text.run)));
      addCopy(figure);
      how.append(figure);
    }
    how.append(el("p", {}, el("a", { href: `${up}signals/${name}.html` }, text.title)));
    card.append(how);
    return card;
  }

  // A repair that is better tried at once than asked about.
  function trialCard(t, d) {
    const fix = fixOf(t.fix);
    const line = say.tryLine
      .replace("{chance}", percent(t.chance))
      .replace("{minutes}", t.minutes.toFixed(0))
      .replace("{tried}", t.ifTried.toFixed(0))
      .replace("{asked}", t.ifAsked.toFixed(0));
    const seen = new Set(d.belief.used.map((e) => e.signal));
    const mended = () => (moves.push({ signal: MENDED, state: fix.id }), write());
    const vain = () => (moves.push(...trials.inVain(tables, fix, seen), { signal: TRIED, state: fix.id }), write());
    return el(
      "div",
      { class: "dg-card dg-try" },
      el("h3", {}, say.tryTitle),
      el("p", {}, el("a", { href: `${up}fixes/${fix.id}.html` }, texts.fixes[fix.id])),
      el("p", { class: "meta" }, line),
      el(
        "div",
        { class: "dg-tools" },
        el("button", { type: "button", onclick: mended }, say.itMended),
        el("button", { type: "button", onclick: vain }, say.itDidNot),
      ),
    );
  }

  function causeRow(label, share, below) {
    const row = el("li", {}, el("div", { class: "bar-row" }, el("span", { class: "bar-label" }, label), bar(share)));
    row.firstChild.append(el("span", { class: "bar-num" }, percent(share)));
    below.forEach((line) => row.append(el("p", { class: "bar-note" }, line)));
    return row;
  }

  function causeLink(id) {
    return el("a", { href: `${up}causes/${id}.html` }, texts.causes[id][0]);
  }

  function showCauses(d) {
    const list = el("ol", { class: "bars" });
    d.causes.slice(0, SHOWN).forEach((c, place) => {
      const below = [];
      if (place < 3) {
        const [pro, con] = engine.reasons(tables, d.belief, c.index);
        [[say.for, pro], [say.against, con]].forEach(([word, rows]) => {
          if (rows.length) below.push(`${word}: ${rows.slice(0, 3).map((r) => `${texts.signals[r.signal].title} = ${r.state}`).join("; ")}`);
        });
      }
      list.append(causeRow(causeLink(c.id), c.probability, below));
    });
    list.append(causeRow(say.notInBook, d.unknown, []));
    side.replaceChildren(list);
    if (d.coupled.length) {
      const pair = d.coupled[0];
      side.append(el("p", { class: "dim" }, `${say.together}: `, causeLink(pair[0]), " + ", causeLink(pair[1]), ` ${percent(pair[2])}`));
    }
    const told = d.belief.judged ? precedentLinks(d) : [];
    if (told.length) side.append(el("p", { class: "dim" }, `${say.precedents}: `, ...told));
  }

  // Classes by what published incidents that tell the same were; each leads to its most probable form.
  function precedentLinks(d) {
    const found = d.belief.judged
      .map((p, c) => [p, d.causes.find((row) => row.class === tables.classes[c])])
      .filter(([p, row]) => p >= tables.k.precedentNamed && row)
      .sort((a, b) => b[0] - a[0])
      .slice(0, tables.k.precedentsNamed);
    const link = (row) => el("a", { href: `${up}causes/${row.id}.html` }, texts.classes[row.class]);
    return found.flatMap(([p, row], place) => [place ? ", " : "", link(row), ` ${percent(p)}`]);
  }

  function links(title, ids, heading = "h3") {
    const list = el("ul", { class: "links" });
    ids.forEach((id) => list.append(el("li", {}, el("a", { href: `${up}fixes/${id}.html` }, texts.fixes[id]))));
    return [el(heading, {}, title), list];
  }

  const WHY = ["tooLittle", "weakSymptom", "nothingExplains", "several", "noReason", "contradicts", "nothingLeft"];

  function showVerdict(d) {
    verdict.replaceChildren();
    // Before the causes: it holds whatever the cause is.
    aid.replaceChildren(...(d.firstAid.length ? links(say.firstAid, d.firstAid.slice(0, 3), "h2") : []));
    if (d.healthy) {
      verdict.append(el("p", {}, say.healthy));
      return;
    }
    const word = d.decided ? say.decided : say.undecided;
    const why = d.decided || !WHY.includes(d.why) ? "" : ` — ${say[d.why]}`;
    verdict.append(el("p", {}, el("strong", {}, word), why));
    if (d.fixes.length) verdict.append(...links(say.fixes, d.fixes.slice(0, 4)));
  }

  function showTrail() {
    trail.replaceChildren(el("h2", {}, say.known));
    const list = el("ul", {});
    moves.forEach((m, k) => {
      const done = { [TRIED]: say.inVain, [MENDED]: say.itMended }[m.signal];
      const shown = done || (m.state === tables.k.unknown ? say.notKnown : m.state);
      const title = done ? texts.fixes[m.state] : texts.signals[m.signal].title;
      const page = done ? `fixes/${m.state}` : `signals/${m.signal}`;
      list.append(
        el(
          "li",
          {},
          el("span", {}, el("a", { href: `${up}${page}.html` }, title), " = ", el("b", {}, shown)),
          el(
            "button",
            {
              type: "button",
              "aria-label": `${say.remove}: ${title}`,
              onclick: () => {
                moves.splice(k, 1);
                write();
              },
            },
            say.remove,
          ),
        ),
      );
    });
    const tools = el("div", { class: "dg-tools" });
    tools.append(el("button", { type: "button", onclick: undo }, say.undo));
    tools.append(el("button", { type: "button", onclick: restart }, say.restart));
    const line = "playbook diagnose " + answers().map((m) => `--answer ${m.signal}=${m.state}`).join(" ");
    const figure = el("figure", { class: "cmd" }, el("figcaption", {}, el("span", { class: "badge" }, say.copyLine)));
    figure.append(el("pre", { tabindex: "0" }, el("code", {}, line)));
    addCopy(figure);
    trail.append(list, tools, el("details", { class: "fold" }, el("summary", {}, say.copyLine), figure));
  }

  // The last move; a trial goes with what it told.
  function undo() {
    const last = moves.pop();
    const told = last && last.signal === TRIED ? trials.inVain(tables, fixOf(last.state), new Set()) : [];
    const isTold = (m) => m !== undefined && told.some((t) => t.signal === m.signal && t.state === m.state);
    while (isTold(moves[moves.length - 1])) moves.pop();
    write();
  }

  function restart() {
    moves = [];
    write();
  }

  function show(moved) {
    const begun = moves.length > 0;
    root.hidden = !begun;
    start.hidden = begun;
    if (!begun) return;
    const { evidence, closed, clusters } = state();
    const d = engine.diagnose(tables, evidence, closed, null, clusters);
    window.PLAYBOOK_NOW = d; // for tests and for the curious
    ask.replaceChildren();
    const over = moves.find((m) => m.signal === MENDED);
    if (over) {
      const cause = trials.mended(tables, d.belief, fixOf(over.state));
      ask.append(el("p", { class: "notice" }, `${say.mended} `, cause ? causeLink(cause) : say.notInBook));
    } else if (d.next) {
      ask.append(el("p", { class: "caption" }, say.next), questionCard(d.next.signal, d.next));
    } else if (!d.healthy) {
      ask.append(el("p", { class: "notice" }, say.noNext));
    }
    const better = over || d.healthy ? null : trials.trial(tables, d.belief, d.plan, null, tried());
    if (better) ask.append(trialCard(better, d));
    const others = d.plan.filter((o) => !d.next || o.signal !== d.next.signal).slice(0, 5);
    if (others.length && !over) {
      const fold = el("details", { class: "fold dg-other" }, el("summary", {}, say.other));
      others.forEach((o) => {
        const line = el("details", { class: "fold" }, el("summary", {}, texts.signals[o.signal].question));
        line.addEventListener("toggle", () => {
          if (line.open && line.children.length === 1) line.append(questionCard(o.signal, o));
        });
        fold.append(line);
      });
      ask.append(fold);
    }
    showCauses(d);
    showVerdict(d);
    showTrail();
    if (moved) ask.querySelector("h2, .notice")?.scrollIntoView({ block: "nearest" });
  }

  // Cards of the first step answer in place.
  start.querySelectorAll(".card a").forEach((link) => {
    const name = link.getAttribute("href").split("/").pop().replace(".html", "");
    if (tables.signals.get(shape)?.outcomes.includes(name)) link.setAttribute("href", `#${shape}=${name}`);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "u") return undo();
    const knob = ask.querySelector(`.dg-ask > .dg-card button[data-key="${event.key}"]`);
    if (knob && /^[0-9]$/.test(event.key)) knob.click();
  });
  addEventListener("hashchange", () => {
    read();
    show(true);
  });
  read();
  show(false);
})();
