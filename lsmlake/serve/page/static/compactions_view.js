// What compactions did to a table: bytes read and written, and write amplification.

import { el, fill, onWidth, svg } from "./dom.js";
import { explorable, frame, grid, ticks } from "./chart.js";
import { chip, dataTable, figures, hint, legend } from "./parts.js";
import { get } from "./server.js";
import { bytes, clock, count, duration, localTime, times, writer } from "./words.js";

const HEIGHT = 220,
  TOP = 10,
  MIDDLE = 140,
  LEFT = 62,
  BOTTOM = 22;

/** The view of a table's compactions: {node, refresh}. */
export function compactionsView(name) {
  const state = { sort: "", down: true };
  let data = null;
  const top = el("div"),
    picture = el("div"),
    list = el("div");
  const redraw = onWidth(picture, (width) => data && fill(picture, shown().length ? worksChart(shown(), width) : null));
  function shown() {
    return data.works.filter((work) => !work.error && work.bytes_out !== null && (work.bytes_in || work.bytes_out));
  }
  function draw() {
    fill(
      top,
      figures([
        ["Write amplification", times(data.amplification), "rows written to files per row that was upserted or appended"],
        ["Bytes read", bytes(data.bytes_in)],
        ["Bytes written", bytes(data.bytes_out)],
        [
          "Works",
          count(data.works.length),
          `of the newest ${count(data.looked)} of ${count(data.snapshots)} snapshots, and of maintainers`,
        ],
      ]),
    );
    redraw();
    fill(
      list,
      data.works.length
        ? dataTable({
            caption: "Compactions and other work, newest first",
            columns: workColumns(false),
            rows: [...data.works].reverse(),
            state,
            key: null,
            most: 50,
          })
        : hint("Nothing was compacted yet."),
    );
  }
  return {
    node: el("div", {}, top, picture, list),
    async refresh() {
      const found = await get("compactions", { table: name });
      if (found === data) return;
      data = found;
      draw();
    },
  };
}

/** The columns of a list of works; with the table if `named`. */
export function workColumns(named) {
  return [
    { name: "end", label: "Ended", heads: true, value: (row) => row.end_ms, cell: (row) => clock(row.end_ms) },
    named ? { name: "table", label: "Table", wide: true, value: (row) => row.table, cell: (row) => row.table } : null,
    {
      name: "kind",
      label: "Work",
      wide: true,
      value: (row) => row.kind,
      cell: (row) => [
        chip(row.kind.replaceAll("_", " "), row.error ? "bad" : "compact"),
        row.reason ? el("span", { class: "note" }, row.reason) : null,
        row.error ? el("span", { class: "trouble" }, row.error) : null,
      ],
    },
    {
      name: "took",
      label: "Took",
      number: true,
      value: (row) => (row.start_ms === null ? null : row.end_ms - row.start_ms),
      cell: (row) => (row.start_ms === null ? "–" : duration(row.end_ms - row.start_ms)),
    },
    {
      name: "in",
      label: "Read",
      number: true,
      value: (row) => row.bytes_in,
      cell: (row) => [
        bytes(row.bytes_in),
        row.files_in === null ? null : el("span", { class: "note" }, `${count(row.files_in)} files`),
      ],
    },
    {
      name: "out",
      label: "Written",
      number: true,
      value: (row) => row.bytes_out,
      cell: (row) => [
        bytes(row.bytes_out),
        row.files_out === null ? null : el("span", { class: "note" }, `${count(row.files_out)} files`),
      ],
    },
    {
      name: "amplification",
      label: "Amplification",
      number: true,
      value: (row) => row.amplification,
      cell: (row) => times(row.amplification),
    },
    { name: "who", label: "By", wide: true, value: (row) => row.who, cell: (row) => writer(row.who) },
  ].filter(Boolean);
}

function worksChart(works, width) {
  const items = works.slice(-Math.max(10, Math.floor((width - LEFT) / 5)));
  const most = Math.max(1, ...items.map((work) => Math.max(work.bytes_in ?? 0, work.bytes_out))),
    factor = Math.max(2, ...items.map((work) => work.amplification ?? 0));
  const step = (width - LEFT - 8) / items.length,
    bar = Math.max(1, Math.min(14, step / 2 - 1));
  const sizes = ticks(most, 3, 1024),
    factors = ticks(factor, 2),
    bottom = HEIGHT - BOTTOM;
  const y = (value) => MIDDLE - 22 - ((MIDDLE - 22 - TOP) * value) / sizes.at(-1),
    z = (value) => bottom - ((bottom - MIDDLE) * value) / factors.at(-1);
  const middle = (place) => LEFT + (place + 0.5) * step;
  const root = frame(
    "works",
    width,
    HEIGHT,
    [
      `Bytes read and written, and write amplification, of ${items.length} compactions`,
      "the table below has the same",
      "arrow keys go through them",
    ],
    grid(sizes, y, LEFT, width - 8, bytes),
    grid(factors, z, LEFT, width - 8, times),
    items.map((work, place) => [
      svg("rect", {
        class: "read",
        x: middle(place) - bar,
        width: bar,
        y: Math.min(y(work.bytes_in ?? 0), MIDDLE - 23),
        height: Math.max(1, MIDDLE - 22 - y(work.bytes_in ?? 0)),
      }),
      svg("rect", {
        class: "written",
        x: middle(place),
        width: bar,
        y: Math.min(y(work.bytes_out), MIDDLE - 23),
        height: Math.max(1, MIDDLE - 22 - y(work.bytes_out)),
      }),
      work.amplification === null
        ? null
        : svg("circle", {
            class: "factor",
            cx: middle(place),
            cy: z(work.amplification),
            r: Math.max(1.5, Math.min(4, step / 3)),
          }),
    ]),
    svg("text", { class: "axis", x: LEFT, y: HEIGHT - 5 }, localTime(items[0].end_ms)),
    width > 420
      ? svg("text", { class: "axis", x: width - 8, y: HEIGHT - 5, "text-anchor": "end" }, localTime(items.at(-1).end_ms))
      : null,
  );
  const near = (at) => (at < LEFT ? -1 : Math.max(0, Math.min(items.length - 1, Math.floor((at - LEFT) / step))));
  const about = (work) => [
    el("b", {}, `${work.kind.replaceAll("_", " ")}${work.snapshot ? `, snapshot ${work.snapshot}` : ""}`),
    el("div", {}, `${bytes(work.bytes_in)} read, ${bytes(work.bytes_out)} written, ${times(work.amplification)} amplification`),
    el("div", {}, localTime(work.end_ms)),
  ];
  return el(
    "figure",
    {},
    explorable(root, items, { near, height: bottom, at: (work) => [LEFT + items.indexOf(work) * step, step], about }),
    el(
      "figcaption",
      {},
      legend([
        ["read", "bytes read"],
        ["written", "bytes written"],
        [
          "factor",
          "write amplification: bytes written per byte taken from level 0, or rows per row of the write that they are a part of",
        ],
      ]),
    ),
  );
}
