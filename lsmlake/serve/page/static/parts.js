// Parts that several views share: figures, messages, tables that can be sorted, meters, tabs and the panel at the side.

import { el, fill, put } from "./dom.js";
import { share } from "./words.js";

const NONE = "–"; // a cell without a value, which a narrow page leaves out

/** Figures: a list of [label, value, note]. */
export function figures(items) {
  return el(
    "dl",
    { class: "figures" },
    items
      .filter(Boolean)
      .map(([label, value, note, kind]) =>
        el(
          "div",
          { class: kind ?? null },
          el("dt", {}, label),
          el("dd", {}, value, note ? el("span", { class: "note" }, note) : null),
        ),
      ),
  );
}

/** A bar of a share, with its text. `kind`: dead or waiting. */
export function meter(part, whole, kind, text = share(part, whole)) {
  const filled = el("span", { class: `filled ${kind}` });
  filled.style.setProperty("width", `${whole ? Math.min(100, Math.max(part ? 3 : 0, (100 * part) / whole)) : 0}%`);
  return el(
    "span",
    { class: "meter" },
    el("span", { class: "text" }, text),
    el("span", { class: "rail", "aria-hidden": "true" }, filled),
  );
}

/** A message about an error of the server, with what to do. */
export function problem(error) {
  const parts = error.parts ?? { what: error.message };
  const details = [
    ["where", parts.where],
    ["expected", parts.expected],
    ["found", parts.found],
  ].filter(([, value]) => value);
  return el(
    "div",
    { class: "message bad", role: "alert" },
    el("strong", {}, sentence(parts.what ?? parts.message ?? String(error))),
    details.length
      ? el(
          "dl",
          {},
          details.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
        )
      : null,
    parts.cure ? el("p", {}, el("b", {}, "What to do: "), parts.cure) : null,
  );
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A message that is no error. */
export function hint(...text) {
  return el("p", { class: "message" }, text);
}

/**
 * A table that can be sorted by its heads.
 *
 * `columns`: {name, label, cell(row), value(row), number, wide}. `value` makes a column sortable. `state`: {sort, down}, kept by
 * the caller.
 */
export function dataTable({ caption, columns, rows, state, key, most = 500, empty = "Nothing here yet." }) {
  const body = el("tbody");
  const heads = columns.map((column) => head(column));
  const more = el("p", { class: "more" });
  let shown = most;
  function head(column) {
    const cell = el("th", { scope: "col", class: column.number ? "number" : null });
    if (!column.value) cell.append(column.label);
    else
      cell.append(
        el(
          "button",
          { type: "button", class: "sort", "data-key": `sort ${column.name}`, on: { click: () => sortBy(column) } },
          column.label,
        ),
      );
    return cell;
  }
  function sortBy(column) {
    state.down = state.sort === column.name ? !state.down : Boolean(column.number);
    state.sort = column.name;
    draw();
  }
  function ordered() {
    const column = columns.find((one) => one.name === state.sort && one.value);
    if (!column) return rows;
    const sign = state.down ? -1 : 1;
    return [...rows].sort((one, other) => sign * compare(column.value(one), column.value(other)));
  }
  function draw() {
    heads.forEach((cell, place) =>
      put(cell, "aria-sort", columns[place].name === state.sort ? (state.down ? "descending" : "ascending") : null),
    );
    const all = ordered();
    fill(
      body,
      all.slice(0, shown).map((row) =>
        el(
          "tr",
          { "data-row": key ? key(row) : null },
          columns.map((column) => bodyCell(column, column.cell(row))),
        ),
      ),
      all.length ? null : el("tr", {}, el("td", { colspan: columns.length, class: "empty" }, empty)),
    );
    fill(
      more,
      all.length > shown
        ? [
            `${shown.toLocaleString("en-US")} of ${all.length.toLocaleString("en-US")} rows. `,
            el(
              "button",
              {
                type: "button",
                class: "quiet",
                "data-key": "more",
                on: {
                  click: () => {
                    shown += 1000;
                    draw();
                  },
                },
              },
              "Show more",
            ),
          ]
        : null,
    );
  }
  draw();
  return el(
    "div",
    { class: "tabled" },
    el(
      "div",
      { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption },
      el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), body),
    ),
    more,
  );
}

function bodyCell(column, content) {
  const kinds = [column.number && "number", column.wide && "wide", content === NONE && "none"].filter(Boolean);
  return el(
    column.heads ? "th" : "td",
    { scope: column.heads ? "row" : null, class: kinds.join(" ") || null, "data-label": column.label },
    content,
  );
}

function compare(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  return one < other ? -1 : 1;
}

/** Rows of a table or of a query, as texts: null is shown as a word of its own. */
export function cellTable({ caption, columns, rows, kinds = false }) {
  return el(
    "div",
    { class: "scrolls rows", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          columns.map((column) =>
            el(
              "th",
              { scope: "col", class: column.number ? "number" : null },
              column.name,
              el("span", { class: "type" }, column.type),
            ),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            { class: kinds ? kindOf(row[0]) : null },
            row.map((value, place) =>
              el(
                "td",
                { class: columns[place].number ? "number" : null },
                value === null ? el("span", { class: "null" }, "NULL") : value,
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

function kindOf(text) {
  return { "+I": "inserted", "-U": "before", "+U": "updated", "-D": "deleted" }[text] ?? null;
}

/** Links that look like tabs. `items`: {name, label, address}. */
export function tabs(items, current, label) {
  const links = items.map((item) =>
    el(
      "a",
      { href: item.address, "aria-current": item.name === current ? "page" : null, "data-key": `tab ${item.name}` },
      item.label,
    ),
  );
  requestAnimationFrame(() =>
    links.find((link) => link.hasAttribute("aria-current"))?.scrollIntoView({ block: "nearest", inline: "nearest" }),
  );
  return el("nav", { class: "tabs", "aria-label": label }, links);
}

/**
 * A panel at the side, closed by Escape. `content` may be a promise. The focus returns to where it was; if that was drawn again
 * meanwhile, to what has its `data-key`.
 */
export function panel(title, content) {
  const before = document.activeElement;
  const inside = el("div", { class: "inside" }, el("p", { class: "busy" }, "Reading…"));
  const dialog = el(
    "dialog",
    { class: "panel", "aria-label": title },
    el(
      "header",
      {},
      el("h2", {}, title),
      el("button", { type: "button", class: "quiet icon", "aria-label": "Close", on: { click: () => dialog.close() } }, "✕"),
    ),
    inside,
  );
  dialog.addEventListener("close", () => {
    dialog.remove(); // close() has given the focus back; it may have moved on
    if (document.activeElement !== document.body || before.isConnected || !before.dataset.key) return;
    [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === before.dataset.key)?.focus();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  Promise.resolve(content).then(
    (made) => fill(inside, made),
    (error) => fill(inside, problem(error)),
  );
  return dialog;
}

/** A choice between a few values, as radio buttons that look like one control. `choices`: [[value, label], ...]. */
export function choice(name, choices, current, chosen) {
  return el(
    "fieldset",
    { class: "choice" },
    el("legend", {}, name),
    choices.map(([value, label]) =>
      el(
        "label",
        {},
        el("input", { type: "radio", name, value, checked: value === current, on: { change: () => chosen(value) } }),
        el("span", {}, label),
      ),
    ),
  );
}

/** A legend: [[class, text], ...]. */
export function legend(items) {
  return el(
    "ul",
    { class: "legend" },
    items.map(([kind, text]) => el("li", {}, el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)),
  );
}

/** A chip with the kind of a commit or of a work. */
export function chip(text, kind, title) {
  return el("span", { class: `chip ${kind ?? ""}`, title: title ?? null }, text);
}
