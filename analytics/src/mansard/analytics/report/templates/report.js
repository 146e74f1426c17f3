"use strict";
// Draws every chart, sets in all of them what the page's controls say, and redraws when the
// appearance changes. A click on a mode picks it wherever modes are drawn.
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const themes = read("themes");
  const pool = read("datasets");
  const tables = read("tables");
  const { chosen, starts } = read("choice");
  const plots = Array.from(document.querySelectorAll("[data-spec]"));
  const bar = document.getElementById("controls");
  const views = new Map();

  // Each chart has rows of its own: Vega marks those that it holds.
  const rows = ({ n, columns }) => {
    const entries = Object.entries(columns).map(([name, column]) => [
      name,
      column.words ? column.at.map((at) => column.words[at]) : column,
    ]);
    return Array.from({ length: n }, (_, row) =>
      Object.fromEntries(entries.map(([name, column]) => [name, column[row]])));
  };
  const cache = new Map();
  const rowsOf = (name) => {
    if (!cache.has(name)) cache.set(name, rows(pool[name]));
    return cache.get(name);
  };

  // What a choice shows of some rows, and the network and the precision that stand in for none:
  // the same as figures/selection.py.
  const resolve = ({ rows: name, by, first, within }) => {
    const own = { ...chosen };
    let found = rowsOf(name);
    for (const [key, how] of Object.entries(by)) {
      if (own[key] === "" && (how === "first" || how === "main")) {
        const main = how === "main" ? found.filter((row) => row.is_main) : found;
        const there = [...new Set((main.length ? main : found).map((row) => row[key]))].sort();
        own[key] = there.includes(first) ? first : there[0] || "";
      }
      const value = own[key];
      found = how === "all"
        ? found.filter((row) => value === "" || row[key] === "" || row[key] === value)
        : found.filter((row) => row[key] === value);
    }
    for (const [key, most] of Object.entries(within)) found = found.filter((row) => row[key] <= most);
    return { own, found };
  };

  const plurals = { batch: "batch sizes" };
  const words = (template, found, own) => template.replace(/\{(\w+)\}/g, (_, name) => {
    const values = [...new Set(found.map((row) => row[name]))].filter((value) => value != null);
    if (values.length > 3) return `${values.length} ${plurals[name] || `${name}s`}`;
    return values.filter((value) => value !== "").join(" and ") || own[name] || `any ${name}`;
  });

  const specOf = (plot) => {
    const spec = read(`${plot.dataset.spec}-spec`);
    spec.datasets = Object.fromEntries(spec.datasets.map((name) => [name, rows(pool[name])]));
    return spec;
  };
  const rules = new Map(plots.map((plot) => [plot, read(`${plot.dataset.spec}-spec`).usermeta]));

  const hasSignal = (view, name) =>
    name in view.getState({ signals: (found) => found === name }).signals;

  const drawn = ".mark-symbol.role-mark path, .mark-rect.role-mark path, " +
    ".mark-line.role-mark:not([class*=ground]) path";
  const hasMarks = (panel) => Array.from(panel.querySelectorAll(drawn)).some((path) => {
    const d = path.getAttribute("d");
    return d && !d.startsWith("M0,0h0v0h0");
  });
  // One of several panels without a mark says so.
  const fillPanels = (plot) => {
    for (const old of plot.querySelectorAll("text.none")) old.remove();
    for (const panel of plot.querySelectorAll("g.role-scope[class*=concat_]:not([class*=pathgroup]) > g")) {
      const frame = panel.querySelector("path.background");
      if (!frame || hasMarks(panel) || panel.querySelector(".mark-text.role-mark text")) continue;
      const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      const { width, height } = frame.getBBox();
      text.setAttribute("class", "none");
      text.setAttribute("x", width / 2);
      text.setAttribute("y", height / 2);
      text.textContent = "unknown for this choice";
      panel.append(text);
    }
  };

  const embed = async (plot, values, theme) => {
    const spec = specOf(plot);
    for (const each of spec.params || []) {
      if (each.name in values) each.value = values[each.name];
    }
    const { view } = await vegaEmbed(plot, spec, {
      ast: true,
      renderer: "svg",
      mode: "vega-lite",
      config: themes[theme],
      tooltip: { theme },
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: `mansard-${plot.dataset.spec}`,
    });
    views.set(plot, view);
    if (hasSignal(view, "picked")) {
      view.addEventListener("click", (_, item) => {
        if (item && item.datum && item.datum.mode) pick(item.datum.mode);
      });
    }
  };

  const set = async (view, values) => {
    let changed = false;
    for (const [name, value] of Object.entries(values)) {
      if (hasSignal(view, name) && view.signal(name) !== value) {
        view.signal(name, value);
        changed = true;
      }
    }
    // Other labels take other room: without it they would be cut off.
    if (changed) await view.resize().runAsync();
  };

  // A chart as the choice shows it, or the words that stand in its place: an axis without a point
  // has no extent.
  const show = async (plot, theme) => {
    const rule = rules.get(plot);
    let values = chosen;
    if (rule) {
      const { own, found } = resolve(rule.rule);
      const none = plot.closest("figure").querySelector("p.none");
      none.textContent = found.length ? "" : words(none.dataset.words, found, own);
      none.hidden = found.length > 0;
      for (const each of plot.parentElement.children) {
        if (each !== none) each.hidden = found.length === 0;
      }
      if (!found.length) return;
      values = { ...own, heading: words(rule.heading, found, own) };
    }
    try {
      if (views.has(plot)) await set(views.get(plot), values);
      else await embed(plot, values, theme);
      fillPanels(plot);
    } catch (error) {
      plot.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(error);
      root.dataset.failed = plot.dataset.spec;
    }
  };

  // ``form`` is Python's: ",.4g", "+.3g", "d".
  const cellText = (value, form) => {
    if (value == null || value === "") return "unknown";
    if (!form || typeof value !== "number") return String(value);
    const digits = Number((form.match(/\.(\d+)/) || ["", "15"])[1]);
    const sign = form.startsWith("+") ? "always" : "auto";
    return value.toLocaleString("en-US", { maximumSignificantDigits: digits, signDisplay: sign });
  };
  const fillTable = ({ name, caption, columns, order, rule }) => {
    const { own, found } = resolve(rule);
    const key = (row) => (row[order] == null ? Infinity : row[order]);
    if (order) found.sort((one, other) => (key(one) === key(other) ? 0 : key(one) - key(other)));
    const few = found.slice(0, 200);
    let title = words(caption, found, own) + (found.length ? "" : ": none are known");
    if (few.length < found.length) {
      title += `, the first ${few.length} of ${found.length.toLocaleString("en-US")} rows`;
    }
    for (const table of document.querySelectorAll(`table[data-live="${name}"]`)) {
      table.caption.textContent = title;
      table.tHead.hidden = !found.length;
      table.parentElement.setAttribute("aria-label", title);
      table.tBodies[0].replaceChildren(...few.map((row) => {
        const line = document.createElement("tr");
        columns.forEach(([field, form], at) => {
          const cell = document.createElement(at ? "td" : "th");
          if (!at) cell.scope = "row";
          cell.textContent = cellText(row[field], form);
          line.append(cell);
        });
        return line;
      }));
    }
  };

  // One update after the other: a choice made meanwhile is taken up by the next.
  let busy = Promise.resolve();
  const update = (again) => {
    busy = busy.then(async () => {
      const theme = dark.matches ? "dark" : "light";
      if (again) {
        for (const view of views.values()) view.finalize();
        views.clear();
      }
      const started = performance.now();
      if (again) for (const plot of plots) await show(plot, theme);
      else {
        await Promise.all(plots.map((plot) => show(plot, theme)));
        tables.forEach(fillTable);
      }
      if (again) {
        root.dataset.theme = theme;
        root.dataset.milliseconds = String(Math.round(performance.now() - started));
        root.dataset.drawn = String(plots.length);
      }
      root.dataset.shown = JSON.stringify(chosen);
    });
  };

  const options = (name) =>
    bar ? Array.from(bar.querySelectorAll(`[name=${name}] option, input[name=${name}]`)) : [];
  const select = (name, value) => {
    const option = options(name).find((each) => each.value === value);
    if (!option) return false;
    if (option.tagName === "OPTION") option.selected = true;
    else option.checked = true;
    return true;
  };

  // Only the modes of the chosen device can be chosen.
  const narrow = () => {
    for (const option of options("mode")) {
      const other = Boolean(option.dataset.device) && option.dataset.device !== chosen.device;
      option.hidden = option.disabled = other;
      if (option.tagName !== "OPTION") option.parentElement.hidden = other;
    }
  };

  const choose = (values) => {
    Object.assign(chosen, values);
    update(false);
  };

  // A mode that has a roof becomes the mode of every chart; another is only picked.
  const pick = (mode) => {
    const there = select("mode", mode);
    choose(there ? { mode, picked: mode } : { picked: chosen.picked === mode ? "" : mode });
  };

  if (bar) {
    bar.addEventListener("submit", (event) => event.preventDefault());
    bar.addEventListener("input", () => {
      const values = Object.fromEntries(new FormData(bar));
      if ("device" in values && values.device !== chosen.device) {
        Object.assign(values, starts[values.device]);
        chosen.device = values.device;
        narrow();
        select("mode", values.mode);
      } else if (values.mode !== chosen.mode) values.picked = values.mode;
      choose(values);
    });
    narrow();
  }
  dark.addEventListener("change", () => update(true));
  update(true);
})();
