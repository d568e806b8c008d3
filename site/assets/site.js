// What a script adds to a page that reads without one: copying, keys, theme, ticks, filters, zoom, search as you type.
(function () {
  "use strict";
  const body = document.body;
  const data = body.dataset;

  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    Object.entries(attributes || {}).forEach(([name, value]) => {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    });
    made.append(...children);
    return made;
  }

  const store = {
    get(key) {
      try {
        return localStorage.getItem(key);
      } catch (error) {
        return null;
      }
    },
    set(key, value) {
      try {
        if (value === null) localStorage.removeItem(key);
        else localStorage.setItem(key, value);
      } catch (error) {
        // Opened from a file with storage shut: nothing is kept.
      }
    },
  };
  window.PlaybookPage = { el, store };

  // Theme: as the system, light, dark, in turn.
  const button = document.querySelector(".theme");
  if (button) {
    const marks = { auto: "\u25d0", light: "\u25cb", dark: "\u25cf" };
    const now = () => document.documentElement.dataset.theme || "auto";
    const label = () => {
      const word = { auto: data.themeAuto, light: data.themeLight, dark: data.themeDark }[now()];
      button.textContent = marks[now()];
      button.setAttribute("aria-label", word);
      button.title = word;
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      const next = { auto: "light", light: "dark", dark: "auto" }[now()];
      if (next === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = next;
      store.set("playbook-theme", next === "auto" ? null : next);
      label();
    });
    label();
  }

  // Copy.
  function copyText(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = el("textarea", { class: "sr", "aria-hidden": "true" });
    area.value = text;
    body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error("copy"));
  }
  function addCopy(figure) {
    const code = figure.querySelector("pre code");
    if (!code || figure.querySelector(".copy")) return;
    const knob = el("button", { type: "button", class: "copy" }, data.copy);
    knob.addEventListener("click", () => {
      copyText(code.textContent).then(() => {
        knob.textContent = data.copied;
        setTimeout(() => (knob.textContent = data.copy), 1500);
      });
    });
    let caption = figure.querySelector("figcaption");
    if (!caption) {
      caption = el("figcaption", {}, el("span", {}));
      figure.prepend(caption);
    }
    caption.append(knob);
  }
  document.querySelectorAll(".cmd").forEach(addCopy);
  window.PlaybookPage.addCopy = addCopy;

  // The other language keeps the place.
  document.querySelectorAll("a.lang").forEach((link) => {
    link.addEventListener("click", () => {
      link.href = link.getAttribute("href").split("#")[0].split("?")[0] + location.search + location.hash;
    });
  });

  // A link into a fold opens it.
  function openTarget() {
    let id = location.hash.slice(1);
    try {
      id = decodeURIComponent(id);
    } catch (error) {
      return;
    }
    const target = id && document.getElementById(id);
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target && target.closest("details")) target.scrollIntoView();
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  // The words that a search has led here by are marked; the address loses them again.
  const sought = (new URLSearchParams(location.search).get("h") || "").split(" ").filter((word) => word.length > 1);
  if (sought.length) {
    const pattern = new RegExp(
      sought
        .map((word) => word.replace(/[^\p{L}\p{N}]/gu, "\\$&"))
        .map((word) => (/^[a-z0-9_]/.test(word) ? `(?<![\\p{L}\\p{N}])${word}` : word))
        .join("|"),
      "giu",
    );
    const walker = document.createTreeWalker(document.getElementById("main"), NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("svg, .toc")) texts.push(walker.currentNode);
    texts.forEach((node) => {
      const parts = [];
      let at = 0;
      for (const found of node.data.matchAll(pattern)) {
        parts.push(node.data.slice(at, found.index), el("mark", {}, found[0]));
        at = found.index + found[0].length;
      }
      if (parts.length) node.replaceWith(...parts, node.data.slice(at));
    });
    try {
      history.replaceState(null, "", location.pathname + location.hash);
    } catch (error) {
      // The address keeps them: no harm.
    }
  }

  // The list of sections says where the reader is.
  const spied = [...document.querySelectorAll(".toc a")].map((link) => [
    link,
    document.getElementById(link.getAttribute("href").slice(1)),
  ]);
  if (spied.length) {
    const spy = () => {
      const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
      const passed = spied.filter(([, section]) => section.getBoundingClientRect().top < innerHeight * 0.25);
      const here = atEnd && scrollY ? spied[spied.length - 1] : passed[passed.length - 1] || spied[0];
      spied.forEach((pair) => {
        if (pair === here) pair[0].setAttribute("aria-current", "true");
        else pair[0].removeAttribute("aria-current");
      });
    };
    let waiting = false;
    addEventListener(
      "scroll",
      () => {
        if (!waiting) requestAnimationFrame(() => (waiting = false, spy()));
        waiting = true;
      },
      { passive: true },
    );
    spy();
  }

  // Print everything, folds too.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((fold) => (fold.open = true));
  });
  addEventListener("afterprint", () => opened.forEach((fold) => (fold.open = false)));

  // Ticks of a checklist stay ticked on this machine.
  document.querySelectorAll(".ticks").forEach((list) => {
    const key = "playbook-ticks-" + list.dataset.list;
    const ticked = new Set((store.get(key) || "").split(" ").filter(Boolean));
    list.querySelectorAll("input").forEach((box) => {
      box.checked = ticked.has(box.value);
      box.addEventListener("change", () => {
        if (box.checked) ticked.add(box.value);
        else ticked.delete(box.value);
        store.set(key, ticked.size ? [...ticked].join(" ") : null);
      });
    });
  });

  // Filter of a long list.
  document.querySelectorAll(".filter").forEach((line) => {
    line.hidden = false;
    const input = line.querySelector("input");
    const groups = [...document.querySelectorAll(".group")];
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      groups.forEach((group) => {
        let any = false;
        group.querySelectorAll(".list > li").forEach((row) => {
          const text = (row.textContent + " " + (row.querySelector("a").getAttribute("href") || "")).toLowerCase();
          row.hidden = !words.every((word) => text.includes(word));
          any = any || !row.hidden;
        });
        group.hidden = !any;
      });
    });
  });

  // Zoom of a curve: buttons, wheel with Ctrl, drag to choose a stretch.
  document.querySelectorAll("svg.plot").forEach((svg) => {
    const world = svg.querySelector(".world");
    const ticks = svg.querySelector(".xticks");
    const labels = [...svg.querySelectorAll(".mark-label")];
    const low = Number(svg.dataset.low);
    const high = Number(svg.dataset.high);
    const width = 720;
    const whole = ticks.innerHTML;
    let from = 0;
    let to = width;
    function show() {
      const scale = width / (to - from);
      world.setAttribute("transform", `translate(${-from * scale} 0) scale(${scale} 1)`);
      labels.forEach((label) => {
        const x = (Number(label.dataset.x) - from) * scale;
        const end = label.getAttribute("text-anchor") === "end";
        label.setAttribute("x", x + (end ? -4 : 4));
      });
      if (scale === 1) {
        ticks.innerHTML = whole;
        return;
      }
      ticks.replaceChildren();
      const step = (high - low) / width;
      for (let k = 0; k <= 4; k++) {
        const x = (width * k) / 4;
        const value = low + (from + (x / width) * (to - from)) * step;
        const path = document.createElementNS(svg.namespaceURI, "path");
        path.setAttribute("d", `M${x} 220v5`);
        const text = document.createElementNS(svg.namespaceURI, "text");
        text.setAttribute("x", x);
        text.setAttribute("y", 238);
        const sign = svg.dataset.relative && Math.round(value) > 0 ? "+" : "";
        text.textContent = sign + Math.round(value).toLocaleString("en");
        ticks.append(path, text);
      }
    }
    function move(a, b) {
      const span = Math.min(width, Math.max(4, b - a));
      from = Math.min(Math.max(0, a), width - span);
      to = from + span;
      show();
    }
    const zoomBy = (factor, at) => move(at - (at - from) * factor, at + (to - at) * factor);
    const middle = () => (from + to) / 2;
    const actions = [
      ["+", data.zoomIn, () => zoomBy(0.5, middle())],
      ["\u2212", data.zoomOut, () => zoomBy(2, middle())],
      ["\u2190", data.zoomLeft, () => move(from - (to - from) / 3, to - (to - from) / 3)],
      ["\u2192", data.zoomRight, () => move(from + (to - from) / 3, to + (to - from) / 3)],
      ["\u21ba", data.zoomReset, () => move(0, width)],
    ];
    const bar = el("div", { class: "zoom" });
    actions.forEach(([mark, word, act]) => {
      bar.append(el("button", { type: "button", title: word, "aria-label": word, onclick: act }, mark));
    });
    svg.parentElement.append(bar);
    function place(event) {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return from + (Math.min(width, Math.max(0, point.x)) / width) * (to - from);
    }
    svg.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        zoomBy(event.deltaY < 0 ? 0.8 : 1.25, place(event));
      },
      { passive: false },
    );
    let start = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) start = place(event);
    });
    addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = place(event);
      if (Math.abs(end - start) > (to - from) * 0.02) move(Math.min(start, end), Math.max(start, end));
      start = null;
    });
    svg.addEventListener("dblclick", () => move(0, width));
  });

  // Search: `/` goes there; scripts and documents are loaded when somebody first types.
  const form = document.querySelector(".find");
  const input = form.querySelector("input");
  let loading = null;
  function script(path) {
    return new Promise((resolve, reject) => {
      document.head.append(el("script", { src: data.root + path, onload: resolve, onerror: reject }));
    });
  }
  function load() {
    if (window.PlaybookSearch) return Promise.resolve();
    loading =
      loading ||
      Promise.all([script("assets/minisearch.js"), script(`data/search.${data.lang}.js`)]).then(() =>
        script("assets/search.js"),
      );
    return loading;
  }
  const hits = el("div", { class: "hits", role: "listbox", id: "hits", hidden: "", "aria-label": data.all });
  form.append(hits);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", "hits");
  input.setAttribute("aria-expanded", "false");
  input.setAttribute("aria-autocomplete", "list");
  let chosen = -1;
  function close() {
    hits.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    chosen = -1;
  }
  function choose(index) {
    const rows = [...hits.querySelectorAll("a")];
    if (!rows.length) return;
    chosen = (index + rows.length) % rows.length;
    rows.forEach((row, k) => row.setAttribute("aria-selected", String(k === chosen)));
    input.setAttribute("aria-activedescendant", rows[chosen].id);
    rows[chosen].scrollIntoView({ block: "nearest" });
  }
  function suggest() {
    const text = input.value.trim();
    if (!text) return close();
    return load().then(() => {
      if (input.value.trim() !== text) return;
      const found = window.PlaybookSearch.query(text, 8);
      hits.replaceChildren(
        ...found.map((row, k) =>
          el(
            "a",
            {
              href: window.PlaybookSearch.address(row, data.up),
              role: "option",
              id: `hit-${k}`,
              tabindex: "-1",
              "aria-selected": "false",
            },
            ...window.PlaybookSearch.marked(row.title, row.words),
            el("small", {}, row.heading ? `${row.kind} \u203a ${row.heading}` : row.kind),
            row.text ? el("span", {}, ...window.PlaybookSearch.marked(row.text, row.words)) : "",
          ),
        ),
      );
      if (!found.length) hits.append(el("p", {}, data.none));
      hits.hidden = false;
      input.setAttribute("aria-expanded", "true");
      chosen = -1;
    });
  }
  input.addEventListener("focus", load);
  input.addEventListener("input", suggest);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      location.href = hits.querySelectorAll("a")[chosen].href;
    } else if (event.key === "Escape") {
      if (hits.hidden) input.blur();
      close();
    }
  });
  document.addEventListener("click", (event) => {
    if (!form.contains(event.target)) close();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
})();
