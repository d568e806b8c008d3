// Opens pages of a built site in headless Chromium, offline, and says what is wrong with them.
// Arguments: node_modules folder, chromium. Standard input and output: JSON, {work, base, ...} and what was found.
"use strict";
const path = require("path");
const modules = process.argv[2];
const { chromium } = require(path.join(modules, "playwright-core"));
const axe = require("fs").readFileSync(path.join(modules, "axe-core", "axe.min.js"), "utf8");
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

async function open(browser, options, faults) {
  // The page's own policy forbids foreign scripts, and axe is one: it is let in for the test only.
  const context = await browser.newContext({ ...options, offline: true });
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.on("console", (line) => ["error", "warning"].includes(line.type()) && faults.push(`console: ${line.text()}`));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) faults.push(`request: ${request.url()}`);
  });
  return page;
}

async function look(browser, input) {
  const found = [];
  for (const scheme of input.schemes)
    for (const width of input.widths) {
      const faults = [];
      const page = await open(browser, { colorScheme: scheme, viewport: { width, height: 800 } }, faults);
      for (const name of input.pages) {
        await page.goto(input.base + name);
        await page.waitForLoadState();
        await page.evaluate(() => document.querySelectorAll("details").forEach((fold) => (fold.open = true)));
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        if (wide > width) faults.push(`${name}: ${wide} px wide in ${width}`);
        await page.evaluate(axe);
        const result = await page.evaluate(() =>
          window.axe.run(document, { preload: false, runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
        );
        result.violations.forEach((v) =>
          faults.push(`${name} ${scheme} ${width}: ${v.id} (${v.impact}) ${v.nodes.slice(0, 2).map((n) => n.target.join(" ")).join(" | ")}`),
        );
      }
      found.push(...faults);
      await page.context().close();
    }
  return found;
}

// The engine as the page has it, on moments of walks: the same sums as under Node, in the other runtime.
async function diagnose(browser, input) {
  const faults = [];
  const page = await open(browser, {}, faults);
  await page.goto(input.base + "en/diagnose.html");
  const answers = await page.evaluate((moments) => {
    const tables = window.PlaybookEngine.compile(window.PLAYBOOK_TABLES);
    return moments.map((m) => {
      const d = window.PlaybookEngine.diagnose(tables, m.evidence, new Set(m.closed), m.size, new Set(m.clusters));
      return { marginal: d.belief.marginal, unknown: d.belief.unknown, next: d.next ? d.next.signal : null };
    });
  }, input.moments);
  await page.context().close();
  return { answers, faults };
}

// Walks a reader takes: keys, search with a typing error and in Chinese, a diagnosis, folds, themes, ticks.
async function use(browser, input) {
  const faults = [];
  const page = await open(browser, { viewport: { width: 1280, height: 800 } }, faults);
  const said = {};
  await page.goto(input.base + "index.html");
  await page.keyboard.press("/");
  said.focused = await page.evaluate(() => document.activeElement.id);
  await page.keyboard.type(input.typo);
  await page.waitForSelector(".hits a");
  said.typo = await page.$$eval(".hits a", (rows) => rows.map((row) => row.getAttribute("href")));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => !url.href.endsWith("/index.html"));
  said.arrived = page.url().slice(input.base.length);
  if (input.chinese) {
    await page.goto(input.base + "zh/search.html?q=" + encodeURIComponent(input.chinese));
    await page.waitForSelector("#results li");
    said.chinese = await page.$$eval("#results li", (rows) => rows.length);
  }
  await page.goto(input.base + "en/diagnose.html");
  said.hiddenFirst = await page.$eval("#diagnosis", (part) => part.hidden);
  await page.click(".card a");
  await page.waitForSelector(".dg-card");
  await page.keyboard.press("1");
  said.address = new URL(page.url()).hash;
  await page.keyboard.press("u");
  said.undone = new URL(page.url()).hash;
  await page.click(".theme");
  await page.click(".theme");
  said.theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await page.reload();
  said.kept = await page.evaluate(() => document.documentElement.dataset.theme);
  const still = await browser.newContext({ javaScriptEnabled: false, offline: true });
  const bare = await still.newPage();
  await bare.goto(input.base + "en/" + input.symptom);
  said.bare = await bare.$eval("main", (main) => main.innerText.length);
  await still.close();
  await page.context().close();
  return { said, faults };
}

(async () => {
  const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const browser = await chromium.launch({ executablePath: process.argv[3], args: FLAGS });
  try {
    const work = { look, diagnose, use }[input.work];
    process.stdout.write(JSON.stringify(await work(browser, input)));
  } finally {
    await browser.close();
  }
})();
