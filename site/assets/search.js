// The index is built here from plain documents: words with typing errors, ids, log lines, and Chinese by pairs of characters.
// A hit names the section that says it, shows the words around it and marks them.
(function () {
  "use strict";
  const CHINESE = /[\u3400-\u9fff\uf900-\ufaff]+/g;
  // Somebody in trouble looks for what it is before how it is mended or asked in a quiz.
  const WEIGHTS = { symptoms: 2.2, causes: 1.4, signals: 1.2, quiz: 0.5 };
  const FIELDS = ["url", "kind", "id", "title", "lead", "sections", "log"];
  const AROUND = 150; // characters of an excerpt

  // Latin words in lower case; of Chinese text every pair of neighbours (a lone character stays alone).
  function tokenize(text) {
    const tokens = [];
    const rest = text.toLowerCase().replace(CHINESE, (run) => {
      const characters = [...run];
      if (characters.length === 1) tokens.push(run);
      for (let k = 0; k + 1 < characters.length; k++) tokens.push(characters[k] + characters[k + 1]);
      return " ";
    });
    (rest.match(/[\p{L}\p{N}_]+/gu) || []).forEach((word) => {
      tokens.push(word);
      if (word.includes("_")) tokens.push(...word.split("_").filter(Boolean));
    });
    return tokens;
  }

  const isChinese = (term) => /[\u3400-\u9fff\uf900-\ufaff]/.test(term);
  const documents = (window.PLAYBOOK_SEARCH || []).map((row, k) => {
    const made = { key: k };
    FIELDS.forEach((name, at) => (made[name] = row[at]));
    made.body = made.sections.map(([, heading, text]) => `${heading}. ${text}`).join(" ");
    return made;
  });
  const index = new window.MiniSearch({
    idField: "key",
    fields: ["id", "title", "lead", "body", "log"],
    storeFields: [],
    tokenize,
    processTerm: (term) => term,
    searchOptions: {
      boost: { title: 4, id: 3, log: 2, lead: 1.5 },
      fuzzy: (term) => (isChinese(term) || term.length < 4 ? false : 0.2),
      prefix: (term) => !isChinese(term) && term.length > 1,
      combineWith: "AND",
      boostDocument: (key) => WEIGHTS[documents[key].url.split("/")[0]] || 1,
    },
  });
  index.addAll(documents);

  // Stretches [from, to) of a text that the words cover, in order, those that touch made one.
  function stretches(text, words) {
    const low = text.toLowerCase();
    const found = [];
    words.forEach((word) => {
      for (let at = low.indexOf(word); at >= 0; at = low.indexOf(word, at + 1)) {
        const inside = !isChinese(word) && at > 0 && /[\p{L}\p{N}]/u.test(low[at - 1]);
        if (!inside) found.push([at, at + word.length]);
      }
    });
    found.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    return found.reduce((merged, [from, to]) => {
      const last = merged[merged.length - 1];
      if (last && from <= last[1]) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
      return merged;
    }, []);
  }

  // Where a document says it: the lead, or the section with most of what was asked for. `hit.terms` are the words of
  // the document, several of which may stand for one word of the query (longer ones, those a letter off).
  function placeOf(row, hit) {
    const asked = (term) => hit.queryTerms.find((word) => term.startsWith(word)) || hit.queryTerms.find((word) => word[0] === term[0]);
    const tells = (text) => new Set(hit.terms.filter((term) => stretches(text, [term]).length).map(asked)).size;
    let best = { anchor: "", heading: "", text: row.lead };
    let most = tells(`${row.title} ${row.lead}`);
    row.sections.forEach(([anchor, heading, text]) => {
      const told = tells(`${row.title} ${heading} ${text}`);
      if (told > most) [best, most] = [{ anchor, heading, text }, told];
    });
    return best;
  }
  function excerpt(text, words) {
    const first = stretches(text, words)[0];
    if (!first || text.length <= AROUND * 1.3) return text.length > AROUND * 1.3 ? cut(text, 0, AROUND) : text;
    return cut(text, Math.max(0, first[0] - AROUND / 3), AROUND);
  }
  function cut(text, from, length) {
    const start = from && !isChinese(text[from]) ? text.indexOf(" ", from - 1) + 1 || from : from;
    const end = start + length >= text.length ? text.length : text.lastIndexOf(" ", start + length);
    return (start ? "… " : "") + text.slice(start, end > start ? end : start + length) + (end < text.length ? " …" : "");
  }

  // First what has every word; a long log line seldom has all of its words anywhere, so then what has the most.
  function query(text, most) {
    const all = index.search(text);
    const found = all.length ? all : index.search(text, { combineWith: "OR" });
    return found.slice(0, most).map((hit) => {
      const row = documents[hit.id];
      const place = placeOf(row, hit);
      const url = row.url + (place.anchor ? `#${place.anchor}` : "");
      return { url, kind: row.kind, title: row.title, heading: place.heading, text: excerpt(place.text, hit.terms), words: hit.terms };
    });
  }

  // A text as nodes, its words marked.
  function marked(text, words) {
    const { el } = window.PlaybookPage;
    const nodes = [];
    let at = 0;
    stretches(text, words).forEach(([from, to]) => {
      nodes.push(text.slice(at, from), el("mark", {}, text.slice(from, to)));
      at = to;
    });
    return [...nodes, text.slice(at)].filter((node) => node !== "");
  }

  // The page that a hit leads to marks the words too.
  function address(row, up) {
    const [path, anchor] = row.url.split("#");
    return `${up}${path}?h=${encodeURIComponent(row.words.join(" "))}${anchor ? `#${anchor}` : ""}`;
  }
  window.PlaybookSearch = { query, tokenize, marked, address, size: documents.length };

  const results = document.getElementById("results");
  if (!results) return;
  const { el } = window.PlaybookPage;
  const input = document.getElementById("q");
  const data = document.body.dataset;
  function show() {
    const text = input.value.trim();
    if (!text) return results.replaceChildren();
    const found = query(text, 60);
    const count = el("p", {}, found.length ? input.dataset.hits.replace("{n}", String(found.length)) : data.none);
    const list = el("ol", {});
    found.forEach((row) => {
      const link = el("a", { href: address(row, data.up) }, ...marked(row.title, row.words));
      const place = row.heading ? `${row.kind} › ${row.heading}` : row.kind;
      const item = el("li", {}, link, " ", el("span", { class: "dim" }, place));
      if (row.text) item.append(el("p", {}, ...marked(row.text, row.words)));
      list.append(item);
    });
    return results.replaceChildren(count, list);
  }
  input.value = new URLSearchParams(location.search).get("q") || "";
  input.addEventListener("input", show);
  show();
  if (!input.value) input.focus();
})();
