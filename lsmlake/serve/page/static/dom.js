// Makes elements. Everything that comes from a table becomes text: no function here reads text as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. `properties`: attributes, of which those that are null are left out; `on`: listeners by event. Children:
 * nodes, texts, lists of them; null is left out.
 */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An SVG element, as `el`. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) put(node, name, value);
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  node.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map(asNode),
  );
  return node;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** Sets an attribute; null, undefined and false remove it. */
export function put(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

/**
 * Replaces the children of a node. The focus goes to the new element that stands for the one that had it: with the same
 * `data-key`, or alike and as many before it. A text that a reader has begun to type stays.
 */
export function fill(node, ...children) {
  const active = document.activeElement;
  const inside = active && active !== node && node.contains(active);
  const had = inside ? { key: keyOf(active), number: alike(node, active).indexOf(active) } : null;
  node.replaceChildren(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map(asNode),
  );
  if (had) refocus(node, active, had);
  return node;
}

const REACHED = "a[href], button, input, select, textarea, summary, [tabindex]";

function keyOf(element) {
  const looks = ["class", "href", "name", "value"].map((one) => element.getAttribute(one));
  return element.dataset.key ?? [element.tagName, ...looks].join(" ");
}

function alike(node, element, key = keyOf(element)) {
  return [...node.querySelectorAll(REACHED)].filter((one) => keyOf(one) === key);
}

function refocus(node, active, { key, number }) {
  const same = alike(node, active, key);
  let again = node.contains(active) ? active : (same[number] ?? same.at(-1));
  if (again?.disabled) again = [...node.querySelectorAll(REACHED)].find((one) => !one.disabled);
  if (!again) return;
  again.focus({ preventScroll: true });
  if (again !== active && again.type === "search" && active.value !== active.defaultValue) {
    again.value = active.value;
    again.setSelectionRange(active.selectionStart, active.selectionEnd); // a text that gets the focus may select itself
  }
}

/** Calls `draw(width)` now and whenever the width of the node changes. Returns a function that draws again. */
export function onWidth(node, draw) {
  let width = 0;
  const again = () => width > 0 && draw(width);
  new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found !== width && found > 0) {
      width = found;
      again();
    }
  }).observe(node);
  return again;
}
