// Small charts in SVG: axes, and a box that says what is under the pointer or chosen by the arrow keys.

import { el, fill, put, svg } from "./dom.js";
import { joined } from "./words.js";

/** About `most` round numbers from 0 to at least `max`; with a `base` of 1024, round in the unit of the largest. */
export function ticks(max, most = 4, base = 0) {
  if (!(max > 0)) return [0];
  if (base && max >= base) return ticks(max / base, most, base).map((one) => one * base);
  const raw = max / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw);
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, place) => place * step);
}

/** Horizontal lines with their numbers. `y` gives the place of a number. */
export function grid(numbers, y, left, right, text) {
  return numbers.map((number) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { x1: left, x2: right, y1: y(number), y2: y(number) }),
      svg("text", { x: left - 6, y: y(number) + 4, "text-anchor": "end" }, text(number)),
    ),
  );
}

/** The SVG of a chart that takes the focus. `about`: what a reader who cannot see it is told, in parts. */
export function frame(kind, width, height, about, ...shapes) {
  const told = { role: "img", tabindex: "0", "aria-label": joined(about, "; ") };
  return svg("svg", { width, height, class: kind, ...told }, ...shapes);
}

/**
 * Lets a reader go through the items of a chart by pointer and by arrow keys.
 *
 * `root`: the SVG, which takes the focus. `near(x, y)`: the number of the item at a place, or -1. `at(item)`: its
 * [left, width], or [left, width, top, height]. `about(item)`: nodes for the box. `chosen(item)`: called for a click or Enter.
 */
export function explorable(root, items, { near, at, about, chosen, height = 0 }) {
  const box = el("div", { class: "tip", hidden: true });
  const mark = svg("rect", { class: "mark", visibility: "hidden" });
  root.append(mark);
  let current = -1;
  function show(place, x, y) {
    current = place;
    if (place < 0 || place >= items.length) {
      box.hidden = true;
      put(mark, "visibility", "hidden");
      return;
    }
    const [left, width, top = 0, high = height] = at(items[place]);
    for (const [side, value] of [
      ["x", left],
      ["width", Math.max(width, 1)],
      ["y", top],
      ["height", high],
    ])
      put(mark, side, value);
    put(mark, "visibility", "visible");
    fill(box, about(items[place]));
    box.hidden = false;
    const room = root.clientWidth;
    box.style.setProperty(
      "left",
      `${Math.max(0, Math.min(room - box.offsetWidth, (x ?? left + width / 2) - box.offsetWidth / 2))}px`,
    );
    box.style.setProperty("top", `${y ?? Math.min(top + 8, Math.max(0, root.clientHeight - box.offsetHeight))}px`);
  }
  root.addEventListener("pointermove", (event) => {
    const from = root.getBoundingClientRect();
    const place = near(event.clientX - from.left, event.clientY - from.top);
    show(place, event.clientX - from.left, 8 + (place >= 0 && at(items[place]).length > 2 ? event.clientY - from.top + 8 : 0));
  });
  root.addEventListener("pointerleave", () => show(-1));
  root.addEventListener("blur", () => show(-1));
  root.addEventListener("click", () => current >= 0 && chosen?.(items[current]));
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -items.length, End: items.length, PageUp: -10, PageDown: 10 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      show(Math.max(0, Math.min(items.length - 1, (current < 0 ? (step < 0 ? items.length : -1) : current) + step)));
    } else if (event.key === "Enter" && current >= 0) {
      event.preventDefault(); // or Enter would press the button that gets the focus
      chosen?.(items[current]);
    } else if (event.key === "Escape") show(-1);
  });
  return el("div", { class: "chart" }, root, box);
}

/** The hatching of dead rows, once per SVG. `name` must be unique on the page. */
export function hatching(name) {
  return svg(
    "defs",
    {},
    svg(
      "pattern",
      { id: name, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { class: "hatch-ground", width: 5, height: 5 }),
      svg("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 5 }),
    ),
  );
}
