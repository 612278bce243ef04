// Maintenance: what is due in all tables, and what maintainers did.

import { el, fill } from "./dom.js";
import { workColumns } from "./compactions_view.js";
import { chip, dataTable, figures } from "./parts.js";
import { addressOf } from "./place.js";
import { get } from "./server.js";
import { bytes, count, counted } from "./words.js";

const plan = { sort: "", down: true },
  log = { sort: "", down: true };

/** The view: {node, title, refresh}. */
export function maintenanceView() {
  const top = el("div"),
    due = el("div"),
    done = el("div");
  let data = null;
  function draw() {
    fill(
      top,
      figures([
        [
          "Due",
          counted(data.plan.length, "piece of work", "pieces of work"),
          `${count(data.plan.filter((work) => work.waits).length)} wait`,
        ],
        ["To read and write", bytes(data.plan.reduce((sum, work) => sum + work.cost, 0)), "as estimated"],
        ["Done", counted(data.logged, "piece of work", "pieces of work"), "that maintainers recorded"],
      ]),
    );
    fill(
      due,
      dataTable({
        caption: "Due, the most useful first",
        rows: data.plan,
        state: plan,
        key: null,
        most: 100,
        empty: "Nothing is due.",
        columns: dueColumns,
      }),
    );
    fill(
      done,
      dataTable({
        caption: data.logged > data.log.length ? `Done, the newest ${data.log.length} works` : "Done, the newest first",
        rows: data.log,
        state: log,
        key: null,
        most: 100,
        empty: [
          "No maintainer has recorded any work. ",
          el("code", {}, "lsmlake maintain"),
          " does what is due; ",
          el("code", {}, "lsmlake serve --maintain"),
          " does it beside this page.",
        ],
        columns: workColumns(true),
      }),
    );
  }
  return {
    node: el("section", {}, el("h1", {}, "Maintenance"), top, due, done),
    title: "Maintenance",
    soon: () => data !== null && data.reading !== null,
    async refresh() {
      const found = await get("tables");
      if (found === data) return;
      data = found;
      draw();
    },
  };
}

const dueColumns = [
  {
    name: "table",
    label: "Table",
    heads: true,
    wide: true,
    value: (row) => row.table,
    cell: (row) =>
      el("a", { href: addressOf(["table", row.table]), "data-key": `due ${row.table} ${row.kind} ${row.reason}` }, row.table),
  },
  { name: "kind", label: "Work", value: (row) => row.kind, cell: (row) => chip(row.kind.replaceAll("_", " "), "due") },
  { name: "reason", label: "Why", wide: true, cell: (row) => row.reason },
  { name: "benefit", label: "Benefit", number: true, value: (row) => row.benefit, cell: (row) => bytes(row.benefit) },
  { name: "cost", label: "Cost", number: true, value: (row) => row.cost, cell: (row) => bytes(row.cost) },
  { name: "waits", label: "Waits", wide: true, value: (row) => row.waits ?? "", cell: (row) => row.waits ?? "–" },
];
