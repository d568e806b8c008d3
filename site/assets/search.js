// The index is built here from plain documents: words with typing errors, ids, log lines, and Chinese by pairs of characters.
(function () {
  "use strict";
  const CHINESE = /[\u3400-\u9fff\uf900-\ufaff]+/g;
  // Somebody in trouble looks for what it is before how it is mended or asked in a quiz.
  const WEIGHTS = { symptoms: 1.8, causes: 1.4, signals: 1.2, quiz: 0.5 };
  const FIELDS = ["url", "kind", "id", "title", "lead", "body", "log"];

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
    return made;
  });
  const index = new window.MiniSearch({
    idField: "key",
    fields: ["id", "title", "lead", "body", "log"],
    storeFields: ["url", "kind", "title", "lead"],
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

  // First what has every word; a long log line seldom has all of its words anywhere, so then what has the most.
  function query(text, most) {
    const all = index.search(text);
    const found = all.length ? all : index.search(text, { combineWith: "OR" });
    return found.slice(0, most);
  }
  window.PlaybookSearch = { query, tokenize, size: documents.length };

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
      const item = el("li", {}, el("a", { href: data.up + row.url }, row.title), " ", el("span", { class: "dim" }, row.kind));
      if (row.lead) item.append(el("p", {}, row.lead));
      list.append(item);
    });
    return results.replaceChildren(count, list);
  }
  input.value = new URLSearchParams(location.search).get("q") || "";
  input.addEventListener("input", show);
  show();
  if (!input.value) input.focus();
})();
