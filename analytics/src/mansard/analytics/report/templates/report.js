"use strict";
// Draws every chart, keeps their power modes in step, and redraws when the appearance changes.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const plots = Array.from(document.querySelectorAll("[data-spec]"));
  const chosen = {};
  let views = [];
  let round = 0;

  const follow = (view) => {
    const state = view.getState({ signals: (name) => name === "mode" || name === "network" });
    for (const name of Object.keys(state.signals)) {
      view.addSignalListener(name, (_, value) => {
        chosen[name] = value;
        for (const other of views) {
          if (other !== view && hasSignal(other, name) && other.signal(name) !== value) {
            other.signal(name, value).runAsync();
          }
        }
      });
    }
  };

  const hasSignal = (view, name) =>
    name in view.getState({ signals: (found) => found === name }).signals;

  const draw = async () => {
    const mine = ++round;
    const theme = dark.matches ? "dark" : "light";
    for (const view of views) view.finalize();
    views = [];
    for (const plot of plots) {
      const spec = JSON.parse(document.getElementById(`${plot.dataset.spec}-spec`).textContent);
      try {
        const { view } = await vegaEmbed(plot, spec, {
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
        for (const [name, value] of Object.entries(chosen)) {
          if (hasSignal(view, name)) view.signal(name, value);
        }
        await view.runAsync();
        follow(view);
      } catch (error) {
        plot.textContent = `This chart could not be drawn: ${error.message}`;
        console.error(error);
      }
    }
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.drawn = String(views.length);
  };

  dark.addEventListener("change", draw);
  draw();
})();
