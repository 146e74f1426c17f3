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
  const wording = read("wording");
  const plots = Array.from(document.querySelectorAll("[data-spec]"));
  const bar = document.getElementById("controls");
  const views = new Map();
  const specs = new Map();
  const rooms = new Map();

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

  // The rows that the reader's choice shows, with the network and the precision that stand in where
  // none is chosen: as ``Shown.resolve`` of figures/parameters.py has them for the first choice.
  const resolve = ({ rows: name, by, first, within }) => {
    const choice = { ...chosen };
    let matching = rowsOf(name);
    for (const [key, how] of Object.entries(by)) {
      if (choice[key] === "" && (how === "first" || how === "main")) {
        const main = how === "main" ? matching.filter((row) => row.is_main) : matching;
        const there = [...new Set((main.length ? main : matching).map((row) => row[key]))].sort();
        choice[key] = there.includes(first) ? first : there[0] || "";
      }
      const value = choice[key];
      matching = how === "all"
        ? matching.filter((row) => value === "" || row[key] === "" || row[key] === value)
        : matching.filter((row) => row[key] === value);
    }
    for (const [key, most] of Object.entries(within)) matching = matching.filter((row) => row[key] <= most);
    return { choice, matching };
  };

  const words = (template, matching, choice) => template.replace(/\{(\w+)\}/g, (_, name) => {
    const values = [...new Set(matching.map((row) => row[name]))].filter((value) => value != null);
    if (values.length > wording.most_named) return `${values.length} ${wording.plurals[name]}`;
    return values.filter((value) => value !== "").join(" and ") || choice[name] || wording.any[name];
  });

  const specOf = (plot) => {
    const spec = read(`${plot.dataset.spec}-spec`);
    spec.datasets = Object.fromEntries(spec.datasets.map((name) => [name, rows(pool[name])]));
    return spec;
  };
  const rules = new Map(plots.map((plot) => [plot, read(`${plot.dataset.spec}-spec`).usermeta]));

  const hasSignal = (view, name) =>
    name in view.getState({ signals: (signal) => signal === name }).signals;

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

  // A chart takes the room that it has, at one size of type: its panels become narrower, or stand
  // one under the other, and the legend takes fewer columns.
  const PANEL_PX = 300;
  const LEAST_PX = 70;
  const MOST_GROWTH = 1.25;
  const roomOf = (plot) => plot.clientWidth || plot.closest("section").clientWidth;
  const fitted = (part, room, columns) => {
    if (Array.isArray(part)) return part.map((item) => fitted(item, room, columns));
    if (part === null || typeof part !== "object") return part;
    const copy = Object.fromEntries(
      Object.entries(part).map(([name, value]) => [name, fitted(value, room, columns)]));
    if (copy.hconcat && room < PANEL_PX * copy.hconcat.length) {
      copy.vconcat = copy.hconcat;
      delete copy.hconcat;
    }
    if (columns && copy.legend) {
      copy.legend.columns = columns;
      if (copy.legend.gradientLength) copy.legend.gradientLength = 120;
    }
    return copy;
  };
  const panelsAcross = (spec) => (spec.hconcat ? spec.hconcat.length : 1);
  // A title in lines that fit above its panel; before it stand a few words of the chart's own.
  const LETTER_PX = 7.5, OWN_WORDS = 24;
  const inLines = (heading, plot) => {
    const spec = read(`${plot.dataset.spec}-spec`), room = roomOf(plot);
    const isSide = spec.hconcat && room >= PANEL_PX * spec.hconcat.length;
    const most = room / (isSide ? spec.hconcat.length : 1) / LETTER_PX;
    if (heading.length + OWN_WORDS <= most) return heading;
    const lines = [""];
    for (const word of heading.split(" ")) {
      const last = lines[lines.length - 1];
      if (last && `${last} ${word}`.length > most) lines.push(word);
      else lines[lines.length - 1] = last ? `${last} ${word}` : word;
    }
    return ["", ...lines].join("\n");
  };
  const widthOf = (plot) => Number(plot.querySelector("svg.marks").getAttribute("width"));
  const fit = async (plot, view, spec) => {
    const natural = parseFloat(getComputedStyle(plot.closest("figure")).getPropertyValue("--natural"));
    const most = Math.min(roomOf(plot), Math.max(natural, PANEL_PX) * MOST_GROWTH);
    const isWidth = (name) => /(^|_)(width|childWidth)$/.test(name);
    for (let turn = 0; turn < 5; turn += 1) {
      const more = (most - widthOf(plot)) / panelsAcross(spec);
      if (Math.abs(more) < 1) return;
      const { signals } = view.getState({ signals: isWidth, data: () => false });
      for (const [name, value] of Object.entries(signals)) {
        if (value > 0) view.signal(name, Math.max(LEAST_PX, Math.floor(value + more)));
      }
      await view.resize().runAsync();
    }
  };

  const embed = async (plot, values, theme) => {
    const room = roomOf(plot);
    rooms.set(plot, room);
    const whole = specOf(plot);
    for (const param of whole.params || []) {
      if (param.name in values) param.value = values[param.name];
    }
    const draw = async (columns) => {
      const spec = fitted(whole, room, columns);
      if (views.has(plot)) views.get(plot).finalize();
      const legend = { ...themes[theme].legend, ...(columns ? { columns } : {}) };
      const { view } = await vegaEmbed(plot, spec, {
        ast: true,
        renderer: "svg",
        mode: "vega-lite",
        config: { ...themes[theme], legend },
        tooltip: { theme },
        actions: false,
      });
      views.set(plot, view);
      specs.set(plot, spec);
      await fit(plot, view, spec);
      return view;
    };
    let view = await draw(0);
    for (const columns of [3, 2, 1]) {
      if (widthOf(plot) > room + 1) view = await draw(columns);
    }
    addSaveButtons(plot, themes.light, () => {
      const shown = specs.get(plot);
      const names = (shown.params || []).map((param) => param.name).filter((name) => hasSignal(views.get(plot), name));
      return { spec: shown, values: Object.fromEntries(names.map((name) => [name, views.get(plot).signal(name)])) };
    });
    if (hasSignal(view, "picked")) {
      view.addEventListener("click", (_, item) => {
        if (item && item.datum && item.datum.mode) pick(item.datum.mode);
      });
    }
  };

  const set = async (plot, values) => {
    const view = views.get(plot);
    let changed = false;
    for (const [name, value] of Object.entries(values)) {
      if (hasSignal(view, name) && String(view.signal(name)) !== String(value)) {
        view.signal(name, value);
        changed = true;
      }
    }
    // Other labels take other room: without it they would be cut off.
    if (!changed) return;
    await view.resize().runAsync();
    await fit(plot, view, specs.get(plot));
  };

  // More than two values, equal within 1 %.
  const areEqual = (values) => values.length > 2 &&
    values.every((value) => value !== null && Math.abs(value / values[0] - 1) < 0.01);

  // Text in `backticks` is a command.
  const withCode = (text) => text.split("`").map((part, at) =>
    (at % 2 ? cell("code", "", part) : document.createTextNode(part)));

  // A chart as the choice shows it, or the words that stand in its place: an axis without a point
  // has no extent.
  const show = async (plot, theme) => {
    const rule = rules.get(plot);
    let values = chosen;
    if (rule) {
      const { choice, matching } = resolve(rule.rule);
      const none = plot.closest("figure").querySelector("p.none");
      const instead = !matching.length ? none.dataset.words
        : rule.equal && areEqual(matching.map((row) => row[rule.equal[0]])) ? rule.equal[1] : "";
      // The rows are equal: the first fills in the words.
      const few = matching.slice(0, 1).map((row) => Object.fromEntries(Object.entries(row).map(
        ([name, value]) => [name, typeof value === "number" ? Number(value.toPrecision(3)) : value])));
      none.replaceChildren(...withCode(instead ? words(instead, few, choice) : ""));
      none.hidden = !instead;
      // Without rows nothing is shown; of equal rows the table is.
      for (const child of plot.parentElement.children) {
        if (child !== none) child.hidden = Boolean(instead) &&
          (!matching.length || child === plot || child.tagName === "FIGCAPTION" || child.className === "save");
      }
      if (instead) return;
      values = { ...choice, heading: inLines(words(rule.heading, matching, choice), plot) };
      for (const key of rule.keys) {
        values[`shown_${key}`] = [...new Set(matching.map((row) => row[key]))].sort();
      }
    }
    try {
      if (views.has(plot)) await set(plot, values);
      else await embed(plot, values, theme);
      fillPanels(plot);
    } catch (error) {
      plot.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(error);
      root.dataset.failed = plot.dataset.spec;
    }
  };

  const cellText = (value, format, per) => {
    if (value == null || value === "") return wording.unknown;
    return format ? (value / per).toLocaleString("en-US", format) : String(value);
  };
  // Of a table that is wider than its place the cells of a row stand under each other, each after
  // its column's title.
  const isWide = (table) => table.parentElement.scrollWidth > table.parentElement.clientWidth + 1;
  const stack = (tables) => {
    for (const table of tables) table.classList.remove("stacked");
    for (const table of tables.filter(isWide)) {
      const titles = Array.from(table.tHead.rows[0].cells, (heading) => heading.textContent);
      for (const row of table.tBodies[0].rows) {
        Array.from(row.cells).forEach((cell, at) => { cell.dataset.title = titles[at]; });
      }
      table.classList.add("stacked");
    }
  };
  const stackAll = () => stack(Array.from(document.querySelectorAll("main .scroll > table")));

  // Columns that say nothing or the same in all rows of the choice go; the caption has the latter.
  const condensed = (columns, lines) => {
    if (!lines.length) return { shown: columns, same: "" };
    const texts = (at) => [...new Set(lines.map((line) => line[at]))];
    const isGone = (at) => texts(at).every((text) => wording.silent.includes(text)) ||
      (lines.length > 1 && texts(at).length === 1);
    const isSaid = (at) => !texts(at).every((text) => wording.empty.includes(text));
    const gone = [...columns.keys()].filter(isGone)
      .slice(0, Math.max(0, columns.length - wording.least_columns));
    return {
      shown: columns.filter((_, at) => !gone.includes(at)),
      same: gone.filter(isSaid)
        .map((at) => `${columns[at].within_sentence} ${lines[0][at]}`).join(", "),
    };
  };
  const cell = (tag, scope, text) => {
    const made = document.createElement(tag);
    if (scope) made.scope = scope;
    made.textContent = text;
    return made;
  };
  const fillTable = ({ name, caption, columns, order, rule }) => {
    const { choice, matching } = resolve(rule);
    const key = (row) => (row[order] == null ? Infinity : row[order]);
    if (order) matching.sort((one, other) => (key(one) === key(other) ? 0 : key(one) - key(other)));
    const few = matching.slice(0, wording.most_rows);
    let title = words(caption, matching, choice) + (matching.length ? "" : wording.none_known);
    if (few.length < matching.length) {
      title += wording.first_rows.replace("{few}", few.length)
        .replace("{all}", matching.length.toLocaleString("en-US"));
    }
    const lines = few.map((row) => columns.map(({ field, format, per }) => cellText(row[field], format, per)));
    const { shown, same } = condensed(columns, lines);
    if (same) title += wording.in_every_row.replace("{same}", () => same);
    for (const table of document.querySelectorAll(`table[data-live="${name}"]`)) {
      table.caption.textContent = title;
      table.tHead.hidden = !matching.length;
      table.parentElement.setAttribute("aria-label", title);
      table.className = shown.flatMap(({ is_numeric }, at) => (is_numeric ? [`n${at + 1}`] : [])).join(" ");
      table.tHead.rows[0].replaceChildren(...shown.map(({ title }) => cell("th", "col", title)));
      table.tBodies[0].replaceChildren(...lines.map((texts) => {
        const row = document.createElement("tr");
        row.append(...texts.filter((_, at) => shown.includes(columns[at])).map((text, at) =>
          at ? cell("td", "", text) : cell("th", "row", text)));
        return row;
      }));
      stack([table]);
    }
  };

  // A list of networks beside a chart of one of them: it says which one, and chooses for all charts.
  const mirrors = Array.from(document.querySelectorAll("select[data-mirrors]"));
  const fillMirror = (mirror) => {
    const plot = plots.find((one) => one.dataset.spec === mirror.dataset.of);
    mirror.value = resolve(rules.get(plot).rule).choice[mirror.dataset.mirrors];
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
      mirrors.forEach(fillMirror);
      root.dataset.shown = JSON.stringify(chosen);
    });
  };

  const options = (name) =>
    bar ? Array.from(bar.querySelectorAll(`[name=${name}] option, input[name=${name}]`)) : [];
  const select = (name, value) => {
    const option = options(name).find((one) => one.value === value);
    if (!option) return false;
    if (option.tagName === "OPTION") option.selected = true;
    else option.checked = true;
    return true;
  };

  // Only the modes of the chosen device can be chosen.
  const limitModes = () => {
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
        limitModes();
        select("mode", values.mode);
      } else if (values.mode !== chosen.mode) values.picked = values.mode;
      choose(values);
    });
    limitModes();
  }
  for (const mirror of mirrors) {
    mirror.closest("[hidden]").hidden = false;
    mirror.addEventListener("input", () => {
      const { mirrors: name } = mirror.dataset;
      select(name, mirror.value);
      choose({ [name]: mirror.value });
    });
  }
  dark.addEventListener("change", () => update(true));
  stackAll();
  // Drawn again where another width leaves other room, but not for paper.
  let width = root.clientWidth, waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (root.clientWidth === width || window.matchMedia("print").matches) return;
      width = root.clientWidth;
      stackAll();
      update(true);
    }, 200);
  });
  // Charts and tables in closed details have no width: they are fitted once these open.
  for (const details of document.querySelectorAll("main details")) {
    details.addEventListener("toggle", () => {
      if (!details.open) return;
      stack(Array.from(details.querySelectorAll(".scroll > table")));
      const inside = plots.filter((plot) => details.contains(plot) && plot.clientWidth &&
        rooms.get(plot) !== roomOf(plot));
      busy = busy.then(async () => {
        for (const plot of inside) {
          if (views.has(plot)) views.get(plot).finalize();
          views.delete(plot);
          await show(plot, root.dataset.theme);
        }
      });
    });
  }
  update(true);
})();
