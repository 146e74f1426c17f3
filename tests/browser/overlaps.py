"""Texts of a drawn chart that cover another text or a point, as the browser measures them."""

from __future__ import annotations

from typing import Any

# A box is turned with its text. What is measured is a whole line, with room above and below its
# letters: SLACK px of that at each side may be shared.
FIND = """
const SLACK = 1.5;
const quad = (element, slack) => {
  const { x, y, width, height } = element.getBBox(), to = element.getScreenCTM();
  return [[x + slack, y + slack], [x + width - slack, y + slack],
          [x + width - slack, y + height - slack], [x + slack, y + height - slack]]
    .map(([left, top]) => new DOMPoint(left, top).matrixTransform(to));
};
const apart = (one, other) => [one, other].some((shape) => shape.some((corner, at) => {
  const next = shape[(at + 1) % 4], axis = [next.y - corner.y, corner.x - next.x];
  const reach = (points) => {
    const values = points.map((each) => each.x * axis[0] + each.y * axis[1]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [low, high] = reach(one), [least, most] = reach(other);
  return high <= least || most <= low;
}));
const found = [];
for (const svg of document.querySelectorAll("[data-spec] svg.marks")) {
  const chart = svg.closest("[data-spec]").dataset.spec;
  if (arguments[0].length && !arguments[0].includes(chart)) continue;
  const seen = new Set(), texts = [];
  for (const element of svg.querySelectorAll("text")) {
    const { width, height } = element.getBBox();
    if (!element.textContent.trim() || !width || !height) continue;
    if (getComputedStyle(element).opacity === "0") continue;  // of an axis with less room
    const box = quad(element, SLACK);
    const key = `${element.textContent} ${Math.round(box[0].x)} ${Math.round(box[0].y)}`;
    if (seen.has(key)) continue;  // its halo
    seen.add(key);
    texts.push({ name: element.textContent, box });
  }
  const points = [...svg.querySelectorAll(".mark-symbol.role-mark path")]
    .filter((each) => each.getBBox().width > 2)
    .map((each) => ({ name: "a point", box: quad(each, SLACK) }));
  const frame = svg.getBoundingClientRect();
  texts.forEach((text, at) => {
    for (const other of [...texts.slice(at + 1), ...points]) {
      if (!apart(text.box, other.box)) {
        found.push(`${chart}: "${text.name}" covers "${other.name}"`);
      }
    }
    const isOut = ({ x, y }) => x < frame.left - 1 || x > frame.right + 1
      || y < frame.top - 1 || y > frame.bottom + 1;
    if (text.box.some(isOut)) found.push(`${chart}: "${text.name}" is cut`);
  });
}
return found;
"""


def overlaps(chromium: Any, *charts: str) -> list[str]:
    """What covers what in ``charts``, or in all of the page, in words."""
    return list(chromium.execute_script(FIND, list(charts)))
