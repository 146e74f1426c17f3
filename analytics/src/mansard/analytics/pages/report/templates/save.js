"use strict";
// Buttons under a chart that save it as it is shown, always in the light appearance.
const addSaveButtons = (() => {
  const PNG_SCALE = 3; // pixels of a PNG for each pixel of the chart
  const draw = async ({ spec, values }, config, form) => {
    const copy = structuredClone(spec);
    for (const param of copy.params || []) {
      if (param.name in values) param.value = values[param.name];
    }
    const options = { ast: true, renderer: "svg", mode: "vega-lite", config, actions: false };
    const { view } = await vegaEmbed(document.createElement("div"), copy, options);
    try {
      return await view.toImageURL(form, PNG_SCALE);
    } finally {
      view.finalize();
    }
  };
  // ``current`` returns the specification and the values of its parameters.
  return (plot, light, current) => {
    if (plot.parentElement.querySelector(".save")) return;
    const bar = document.createElement("p");
    bar.className = "save";
    bar.append("Save: ");
    for (const form of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = form.toUpperCase();
      button.setAttribute("aria-label", `Save this chart as ${button.textContent}`);
      button.addEventListener("click", async () => {
        const link = document.createElement("a");
        link.download = `mansard-${plot.dataset.spec}.${form}`;
        link.href = await draw(current(), { ...light, background: "#ffffff" }, form);
        link.click();
      });
      bar.append(button);
    }
    plot.after(bar);
  };
})();
