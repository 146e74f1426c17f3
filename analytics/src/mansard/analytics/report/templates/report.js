"use strict";
// Draws every chart, sets in all of them what the page's controls say, and redraws when the
// appearance changes. A click on a mode picks it wherever modes are drawn.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const themes = read("themes");
  const pool = read("datasets");
  const plots = Array.from(document.querySelectorAll("[data-spec]"));
  const bar = document.getElementById("controls");
  const chosen = bar ? Object.fromEntries(new FormData(bar)) : {};
  let views = [];
  let round = 0;

  // Each chart has rows of its own: Vega marks those that it holds.
  const rows = ({ n, columns }) => {
    const entries = Object.entries(columns).map(([name, column]) => [
      name,
      column.words ? column.at.map((at) => column.words[at]) : column,
    ]);
    return Array.from({ length: n }, (_, row) =>
      Object.fromEntries(entries.map(([name, column]) => [name, column[row]])));
  };

  const specOf = (plot) => {
    const spec = read(`${plot.dataset.spec}-spec`);
    spec.datasets = Object.fromEntries(spec.datasets.map((name) => [name, rows(pool[name])]));
    return spec;
  };

  const hasSignal = (view, name) =>
    name in view.getState({ signals: (found) => found === name }).signals;

  const apply = (view) => {
    let changed = false;
    for (const [name, value] of Object.entries(chosen)) {
      if (hasSignal(view, name) && view.signal(name) !== value) {
        view.signal(name, value);
        changed = true;
      }
    }
    // Other labels take other room: without it they would be cut off.
    return changed ? view.resize().runAsync() : view;
  };

  const choose = (values) => {
    Object.assign(chosen, values);
    views.forEach(apply);
  };

  const options = (name) =>
    bar ? Array.from(bar.querySelectorAll(`[name=${name}] option, input[name=${name}]`)) : [];

  // A mode that has a roof becomes the mode of every chart; another is only picked.
  const pick = (mode) => {
    const option = options("mode").find((each) => each.value === mode);
    if (option) {
      if (option.tagName === "OPTION") option.selected = true;
      else option.checked = true;
    }
    choose(option ? { mode, picked: mode } : { picked: chosen.picked === mode ? "" : mode });
  };

  const draw = async () => {
    const mine = ++round;
    const started = performance.now();
    const theme = dark.matches ? "dark" : "light";
    for (const view of views) view.finalize();
    views = [];
    for (const plot of plots) {
      try {
        const { view } = await vegaEmbed(plot, specOf(plot), {
          ast: true,
          renderer: "svg",
          mode: "vega-lite",
          config: themes[theme],
          tooltip: { theme },
          actions: { export: true, source: false, compiled: false, editor: false },
          downloadFileName: `mansard-${plot.dataset.spec}`,
        });
        if (mine !== round) return;
        views.push(view);
        await apply(view);
        if (hasSignal(view, "picked")) {
          view.addEventListener("click", (_, item) => {
            if (item && item.datum && item.datum.mode) pick(item.datum.mode);
          });
        }
      } catch (error) {
        plot.textContent = `This chart could not be drawn: ${error.message}`;
        console.error(error);
      }
    }
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.milliseconds = String(Math.round(performance.now() - started));
    document.documentElement.dataset.drawn = String(views.length);
  };

  if (bar) {
    bar.addEventListener("submit", (event) => event.preventDefault());
    bar.addEventListener("input", () => {
      const values = Object.fromEntries(new FormData(bar));
      choose(values.mode === chosen.mode ? values : { ...values, picked: values.mode });
    });
  }
  dark.addEventListener("change", draw);
  draw();
})();
