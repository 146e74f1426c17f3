"""Operates every control of a page as a reader could, and says what is wrong after each step.

The steps run inside the page, so that hundreds of them take seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser import pages

MOST_PAIRS = 60  # of the two controls with most options
STEPS = """
const [mostPairs, done] = arguments;
const root = document.documentElement;
const bar = document.getElementById("controls");
const faults = new Map();
const wrong = (what, step) => { if (!faults.has(what)) faults.set(what, step); };
const NONE = /(^|[^\\w])(null|undefined|NaN|nan|Infinity)([^\\w]|$)/;
const controls = () =>
  bar ? [...new Set([...bar.elements].map((each) => each.name).filter(Boolean))] : [];
const isOpen = (e) => !e.hidden && !e.disabled && !e.closest("[hidden]");
const optionsOf = (name) =>
  [...bar.querySelectorAll(`[name="${name}"] option, input[name="${name}"]`)].filter(isOpen);
const valueOf = (name) => new FormData(bar).get(name);
const textOf = (e) => (e.tagName === "OPTION" ? e.text : e.parentElement.textContent).trim();
const nextShown = (before) => new Promise((resolve) => {
  const started = performance.now();
  const look = () => {
    const late = performance.now() - started > (before === undefined ? 250 : 3000);
    if (late || (before !== undefined && root.dataset.shown !== before)) resolve();
    else setTimeout(look, 4);
  };
  look();
});
const set = async (name, value) => {
  if (valueOf(name) === value) return;
  const before = root.dataset.shown;
  const option = optionsOf(name).find((each) => each.value === value);
  if (option.tagName === "OPTION") option.selected = true; else option.checked = true;
  const control = option.tagName === "OPTION" ? option.parentElement : option;
  for (const kind of ["input", "change"]) control.dispatchEvent(new Event(kind, {bubbles: true}));
  await nextShown(before);
};

// A drawing of no size is none.
const isDrawn = (path) => {
  const d = path.getAttribute("d");
  return d && !/^M0,0h0v0h0Z?$/.test(d) && !d.includes("NaN");
};
const MARKS = [".mark-symbol", ".mark-line", ".mark-rect"].map(
  (kind) => `${kind}.role-mark:not([class*=ground]) path`).join(",");
const checkChart = (plot, step) => {
  const name = plot.dataset.spec, figure = plot.closest("figure");
  const words = figure.querySelector(".none:not([hidden])");
  const svg = plot.querySelector("svg.marks");
  if (words && words.textContent.trim()) return;
  if (!svg) { wrong(`${name}: not drawn`, step); return; }
  const inside = [...svg.querySelectorAll(
    "g.role-scope[class*=concat_]:not([class*=pathgroup]) > g, g.role-scope.cell > g")];
  const panels = inside.length ? inside : [svg];
  for (const panel of panels) {
    const told = [...panel.querySelectorAll(".mark-text.role-mark text, text.none")]
      .some((text) => /unknown|no /i.test(text.textContent));
    if (!told && ![...panel.querySelectorAll(MARKS)].some(isDrawn)) {
      wrong(`${name}: an empty frame`, step);
    }
  }
  if (NONE.test(svg.textContent)) wrong(`${name}: no number in its text`, step);
  for (const mark of svg.querySelectorAll("[aria-label]")) {
    const told = mark.getAttribute("aria-label").match(NONE);
    if (told) { wrong(`${name}: ${told[2]} in a tooltip`, step); break; }
  }
};
const checkCaptions = (step) => {
  if (!bar) return;
  const captions = [...document.querySelectorAll(
    "figure caption, #roofline caption, figure svg .role-title-text text")]
    .filter((caption) => !caption.closest("[hidden]"));
  for (const name of ["mode", "network"].filter((each) => controls().includes(each))) {
    const chosen = optionsOf(name).find((each) => each.value === valueOf(name));
    const others = optionsOf(name).filter((each) => each !== chosen && each.value);
    for (const caption of captions) {
      // A column that is the same in every row is told of the rows, not of what was chosen.
      const words = ` ${caption.textContent.split("; in every row:")[0]} `;
      const named = (each) =>
        words.includes(` ${textOf(each)} `) || words.includes(` ${textOf(each)},`);
      if (chosen && chosen.value && !named(chosen) && others.some(named)) {
        const figure = caption.closest("figure");
        const of = figure ? figure.querySelector("[data-spec]").dataset.spec : "a table";
        wrong(`${of}: "${caption.textContent}" is of another ${name}`, step);
      }
    }
  }
};
const check = (step) => {
  for (const plot of document.querySelectorAll("[data-spec]")) checkChart(plot, step);
  for (const cell of document.querySelectorAll("td, th, caption, figcaption, dd, li, p, option")) {
    if (NONE.test(cell.textContent)) wrong(`"${cell.textContent.slice(0, 80)}" is not text`, step);
  }
  checkCaptions(step);
};
const liveTables = () => [...document.querySelectorAll("table[data-live]")].map((table) =>
  [table.caption, ...table.tBodies[0].rows].map((each) => each.textContent.trim()).slice(0, 4)
    .concat(table.tBodies[0].rows.length).join("; "));
// What a chart shows, or the words in its place.
const drawings = () => Object.fromEntries([...document.querySelectorAll("[data-spec]")].map(
  (plot) => [plot.dataset.spec, plot.hidden
    ? plot.closest("figure").querySelector(".none").textContent
    : [...plot.querySelectorAll(".role-mark path, .role-mark text, .role-title text")]
      .map((each) => each.getAttribute("d") + each.textContent).join()]));
const modesOf = () => optionsOf("mode").map((each) => each.value).join();
const chosenText = () => bar ? controls().map((name) => valueOf(name)).join(" | ") : "";
const operate = async () => {
  let steps = 0;
  const step = () => { steps += 1; check(chosenText()); };
  step();
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const link of document.querySelectorAll("nav a, main p a[href^='#']")) {
    if (!document.querySelector(link.getAttribute("href"))) wrong(`${link.href} leads nowhere`, "");
    link.click();
  }
  for (const plot of document.querySelectorAll("[data-spec]")) {
    if (plot.hidden) continue; // words are in its place
    const buttons = plot.parentElement.querySelectorAll(".save button").length;
    if (buttons !== 2) wrong(`${buttons} buttons save ${plot.dataset.spec}`, "");
  }
  if (bar) {
    const first = Object.fromEntries(new FormData(bar)), written = liveTables();
    for (const name of controls()) {
      for (const value of optionsOf(name).map((each) => each.value)) {
        const before = {value: valueOf(name), drawn: drawings(), modes: modesOf()};
        await set(name, value);
        step();
        if (name !== "device" || before.value === value) continue;
        for (const [chart, drawn] of Object.entries(drawings())) {
          if (drawn === before.drawn[chart]) wrong(`${chart}: stays as it was`, chosenText());
        }
        if (before.modes === modesOf()) wrong("the modes of another device", chosenText());
      }
      const isThere = optionsOf(name).some((each) => each.value === first[name]);
      if (isThere) await set(name, first[name]);
    }
    // The tables as Mansard wrote them, and as the page wrote them again.
    liveTables().forEach((table, at) => {
      if (table !== written[at]) wrong(`"${written[at]}" became "${table}"`, "");
    });
    const devices =
      controls().includes("device") ? optionsOf("device").map((each) => each.value) : [null];
    const others = controls().filter((name) => name !== "device" && name !== "mode")
      .sort((one, other) => optionsOf(other).length - optionsOf(one).length);
    let left = mostPairs;
    for (const device of devices) {
      if (device !== null) { await set("device", device); step(); }
      if (!others.length || !controls().includes("mode")) continue;
      for (const mode of optionsOf("mode").map((each) => each.value)) {
        await set("mode", mode);
        for (const value of optionsOf(others[0]).map((each) => each.value)) {
          if (left-- <= 0) break;
          await set(others[0], value);
          step();
        }
      }
    }
  }
  return [steps, [...faults].map(([what, where]) => `${what} [${where}]`)];
};
operate().then(done, (error) => done([0, [String(error.stack)]]));
"""


def operate(chromium: Any, page: Path, n_charts: int) -> tuple[int, list[str]]:
    """Open ``page``, operate all of it: how many steps were checked, and every fault once.

    What the console says, warnings too, is a fault.
    """
    pages.load(chromium, page, n_charts)
    chromium.set_script_timeout(600)
    n_steps, faults = chromium.execute_async_script(STEPS, MOST_PAIRS)
    said = sorted({f"console: {entry['message']}" for entry in chromium.get_log("browser")})
    return int(n_steps), [*faults, *said]
