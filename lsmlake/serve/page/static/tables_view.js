// All tables: size, what waits at level 0, dead rows, the last commit, what is due.

import { el, fill } from "./dom.js";
import { chip, dataTable, figures, hint, meter } from "./parts.js";
import { addressOf } from "./place.js";
import { get } from "./server.js";
import { age, bytes, count, counted, share } from "./words.js";

const state = { sort: "name", down: false, search: "" };

/** The view: {node, refresh}. */
export function tablesView() {
  const top = el("div"),
    list = el("div");
  let data = null;
  const search = el("input", {
    type: "search",
    placeholder: "Filter by name",
    "aria-label": "Filter tables by name",
    value: state.search,
    on: {
      input: () => {
        state.search = search.value;
        draw();
      },
    },
  });
  const node = el("section", {}, el("h1", {}, "Tables"), top, el("div", { class: "controls" }, search), list);
  function draw() {
    const wanted = state.search.trim().toLowerCase();
    const rows = data.tables.filter((row) => row.name.toLowerCase().includes(wanted));
    const total = (name) => data.tables.reduce((sum, row) => sum + (row.error || row.branch ? 0 : row[name]), 0);
    const wrong = data.tables.filter((row) => row.problems.length || row.error).length;
    fill(
      top,
      figures([
        ["Tables", count(data.tables.filter((row) => !row.branch).length), counted(data.databases.length, "database")],
        ["Rows", count(total("rows"))],
        ["Size", bytes(total("bytes")), counted(total("files"), "file")],
        ["Waiting at level 0", count(total("level0_rows")), "rows that a fresh read merges", "waiting"],
        ["Dead rows", count(total("dead_rows")), share(total("dead_rows"), total("rows") + total("dead_rows")), "dead"],
        [
          "Due",
          counted(data.plan.length, "piece of work", "pieces of work"),
          wrong ? `${counted(wrong, "table")} with a problem` : "no problems",
          wrong ? "bad" : null,
        ],
      ]),
    );
    if (data.reading !== null) {
      fill(
        list,
        el("p", { class: "busy" }, `Reading: ${count(data.tables.length)} of ${counted(data.reading, "table")} so far…`),
        rows.length ? dataTable({ caption: "Tables read so far", columns, rows, state, key: (row) => row.name }) : null,
      );
      return;
    }
    if (!data.tables.length) {
      fill(
        list,
        hint(
          "There is no table yet. ",
          el("code", {}, "lsmlake load sales.orders FILE --create"),
          " makes one from a file, ",
          el("code", {}, "lsmlake demo"),
          " makes some to look at.",
        ),
      );
      return;
    }
    fill(
      list,
      dataTable({
        caption: "Tables of the warehouse",
        columns,
        rows,
        state,
        key: (row) => row.name,
        empty: "No table has this in its name.",
      }),
    );
  }
  return {
    node,
    title: "Tables",
    async refresh() {
      const found = await get("tables");
      if (found === data) return;
      data = found;
      draw();
    },
    soon: () => data !== null && data.reading !== null,
  };
}

const columns = [
  {
    name: "name",
    label: "Table",
    heads: true,
    wide: true,
    value: (row) => row.name,
    cell: (row) => [
      el("a", { href: addressOf(["table", row.name]), "data-key": `table ${row.name}` }, row.table),
      row.branch ? chip(`branch ${row.branch}`, "branch") : null,
      row.error
        ? el("span", { class: "trouble" }, row.error)
        : row.problems.map((text) => el("span", { class: "trouble" }, text)),
    ],
  },
  { name: "rows", label: "Rows", number: true, value: (row) => row.rows, cell: (row) => (row.error ? "–" : count(row.rows)) },
  {
    name: "bytes",
    label: "Size",
    number: true,
    value: (row) => row.bytes,
    cell: (row) => (row.error ? "–" : [bytes(row.bytes), el("span", { class: "note" }, counted(row.files, "file"))]),
  },
  {
    name: "waiting",
    label: "Waiting",
    number: true,
    value: (row) => row.level0_rows,
    cell: (row) => (row.level0_rows ? meter(row.level0_rows, row.rows, "waiting", count(row.level0_rows)) : "–"),
  },
  {
    name: "dead",
    label: "Dead",
    number: true,
    value: (row) => row.dead_share,
    cell: (row) => (row.dead_rows ? meter(row.dead_share, 1, "dead") : "–"),
  },
  { name: "commit", label: "Last commit", value: (row) => row.commit_ms, cell: (row) => age(row.commit_ms) },
  {
    name: "due",
    label: "Due",
    value: (row) => row.due.length,
    cell: (row) => (row.due.length ? row.due.map((work) => chip(work.kind.replaceAll("_", " "), "due", work.reason)) : "–"),
  },
];
