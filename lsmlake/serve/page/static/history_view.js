// The history of one table: a timeline of its commits, an outline of all of them if there are many, and the row changes of the
// commit that is chosen.

import { el, fill, onWidth, put, svg } from "./dom.js";
import { explorable, frame, grid, ticks } from "./chart.js";
import { cellTable, chip, dataTable, hint, legend, panel } from "./parts.js";
import { addressOf } from "./place.js";
import { get, saved } from "./server.js";
import { idAt, placeOf, totalOf } from "./snapshots.js";
import { age, clock, count, counted, localTime, writer } from "./words.js";

const KINDS = { APPEND: "append", COMPACT: "compact", OVERWRITE: "overwrite", ANALYZE: "analyze" };
const HEIGHT = 190,
  TOP = 34,
  BOTTOM = 22,
  LEFT = 52,
  OUTLINE = 56,
  THUMB = 8; // half the width of the thumb of a slider, by which its ends are inside

/** The view of a table's history: {node, refresh}. */
export function historyView(name) {
  const state = { sort: "", down: true };
  const older = [];
  let newest = null,
    chosen = null, // the answer with the commits up to the one that the slider names; null: the newest ones
    outline = null,
    wanted = 0;
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 0,
    step: 1,
    "aria-label": "The newest commit that the timeline shows",
    on: { input: drawOutline, change: () => moveTo(idAt(newest.ranges, Number(slider.value))) },
  });
  const strip = el("div", { class: "strip" });
  const whole = el("figure", { class: "outline", hidden: true }, el("figcaption", {}), strip, slider);
  const chart = el("div"),
    list = el("div"),
    marks = el("div"),
    more = el("div", { class: "controls" });
  const node = el("div", {}, whole, chart, marks, list, more);
  const redraw = onWidth(chart, drawChart),
    redrawOutline = onWidth(strip, drawOutline);

  function page() {
    return chosen ?? newest;
  }

  function rows() {
    const first = older.length ? older[0].snapshot : -1;
    return [...(page()?.rows ?? []).filter((row) => row.snapshot > first), ...older];
  }

  function draw() {
    redraw();
    drawWhole();
    const all = rows();
    fill(marks, markList(newest.marks));
    fill(
      list,
      dataTable({
        caption: "Commits, newest first",
        rows: all,
        state,
        key: (row) => row.snapshot,
        most: 50,
        empty: "Nothing was written yet.",
        columns: columns(name),
      }),
    );
    const last = all.at(-1);
    fill(
      more,
      last && !saved && (older.length ? moreBefore : page().older)
        ? [
            el("button", { type: "button", "data-key": "older", on: { click: showOlder } }, "Older commits"),
            ` ${counted(all.length, "commit")} of ${count(newest.count)} shown`,
          ]
        : null,
    );
  }

  let moreBefore = false;
  async function showOlder() {
    const mine = wanted;
    const all = rows();
    const found = await get("history", { table: name, before: all.at(-1).snapshot });
    if (mine !== wanted) return;
    older.splice(0, older.length, ...all, ...found.rows);
    moreBefore = found.older;
    draw();
  }

  // -- all commits

  async function moveTo(id) {
    const mine = (wanted += 1);
    const isNewest = id === idAt(newest.ranges, totalOf(newest.ranges) - 1);
    const found = isNewest ? null : await get("history", { table: name, before: id + 1 });
    if (mine !== wanted) return;
    chosen = found;
    older.length = 0;
    draw();
  }

  /** Shows the outline if the timeline does not show all commits. */
  function drawWhole() {
    whole.hidden = saved !== null || !(newest.older && outline);
    if (whole.hidden) return;
    const last = Math.max(0, totalOf(newest.ranges) - 1);
    put(slider, "max", last);
    slider.value = chosen?.rows.length ? placeOf(newest.ranges, chosen.rows[0].snapshot) : last;
    fill(whole.firstChild, `Rows in the table over all ${count(newest.count)} commits`);
    redrawOutline();
  }

  function drawOutline() {
    const width = strip.clientWidth,
      points = outline?.points ?? [];
    if (whole.hidden || !points.length || !width) return;
    const last = Math.max(1, totalOf(newest.ranges) - 1),
      most = Math.max(1, ...points.map((point) => point.rows));
    const x = (place) => THUMB + (place / last) * (width - 2 * THUMB);
    const line = points
      .map((point, number) => {
        const y = OUTLINE - 4 - ((OUTLINE - 10) * point.rows) / most;
        return `${number ? "L" : "M"}${x(placeOf(newest.ranges, point.snapshot)).toFixed(1)} ${y.toFixed(1)}`;
      })
      .join("");
    const end = Number(slider.value),
      from = Math.max(0, end - Math.max(1, rows().length) + 1);
    const nearest = points.findLast((point) => placeOf(newest.ranges, point.snapshot) <= end) ?? points[0];
    put(slider, "aria-valuetext", `snapshot ${idAt(newest.ranges, end)}, about ${localTime(nearest.time_ms)}`);
    fill(
      strip,
      svg(
        "svg",
        { width, height: OUTLINE, "aria-hidden": "true" },
        svg("rect", { class: "window", x: x(from), y: 0, width: Math.max(2, x(end) - x(from)), height: OUTLINE }),
        svg("path", { class: "line", d: line }),
      ),
    );
  }

  /** Asks for the outline again when a hundredth of the commits is new. */
  async function askOutline() {
    if (saved || !newest.older || (outline && Math.abs(newest.count - outline.count) * 100 < newest.count)) return;
    outline = await get("outline", { table: name });
  }

  function drawChart(width) {
    const items = binned(
      [...rows()].reverse().filter((row) => !row.error),
      Math.max(20, Math.floor((width - LEFT) / 4)),
    );
    fill(chart, items.length ? timeline(items, width, (item) => openChanges(name, item.rows.at(-1))) : null);
  }

  return {
    node,
    async refresh() {
      const found = await get("history", { table: name });
      if (found === newest) return;
      newest = found;
      await askOutline();
      draw();
    },
  };
}

/** At most `most` groups of neighbouring commits: {rows, written, total, kind, marks}. */
function binned(rows, most) {
  const size = Math.max(1, Math.ceil(rows.length / most));
  const bins = [];
  for (let at = 0; at < rows.length; at += size) {
    const some = rows.slice(at, at + size);
    const largest = some.reduce((one, other) => (other.written > one.written ? other : one));
    bins.push({
      rows: some,
      written: largest.written,
      total: some.at(-1).rows,
      kind: largest.kind,
      marks: some.flatMap((row) => row.marks),
    });
  }
  return bins;
}

function timeline(items, width, chosen) {
  const most = Math.max(...items.map((item) => item.written), 1),
    total = Math.max(...items.map((item) => item.total), 1);
  const step = (width - LEFT - 8) / items.length,
    bar = Math.max(1, Math.min(26, step - (step > 4 ? 2 : 0.5)));
  const x = (place) => LEFT + place * step + (step - bar) / 2;
  const bottom = HEIGHT - BOTTOM,
    scale = (value, max) => bottom - ((bottom - TOP) * value) / max;
  const numbers = ticks(most, 3).filter(Number.isInteger),
    top = numbers.at(-1);
  const line = items
    .map((item, place) => `${place ? "L" : "M"}${(x(place) + bar / 2).toFixed(1)} ${scale(item.total, total).toFixed(1)}`)
    .join("");
  const root = frame(
    "timeline",
    width,
    HEIGHT,
    [
      `Timeline of ${items.reduce((sum, item) => sum + item.rows.length, 0)} commits`,
      `up to ${count(total)} rows`,
      "arrow keys go through them, Enter shows the changes",
    ],
    grid(numbers, (value) => scale(value, top), LEFT, width - 8, count),
    items.map((item, place) => {
      const y = Math.min(scale(item.written, top), bottom - 2);
      return svg("rect", {
        class: `bar ${KINDS[item.kind] ?? ""}`,
        x: x(place),
        y,
        width: bar,
        height: bottom - y,
        rx: Math.min(2, bar / 3),
      });
    }),
    svg("path", { class: "line", d: line }),
    items.map((item, place) =>
      item.marks.length
        ? svg(
            "g",
            { class: "flag" },
            svg("line", { x1: x(place) + bar / 2, x2: x(place) + bar / 2, y1: 18, y2: bottom }),
            svg("path", { class: item.marks[0].kind, d: `M${x(place) + bar / 2 - 5} 6h10v7l-5 5l-5 -5z` }),
          )
        : null,
    ),
    svg("text", { class: "axis", x: LEFT, y: HEIGHT - 6 }, localTime(items[0].rows[0].time_ms)),
    width > 420
      ? svg(
          "text",
          { class: "axis", x: width - 8, y: HEIGHT - 6, "text-anchor": "end" },
          localTime(items.at(-1).rows.at(-1).time_ms),
        )
      : null,
  );
  const near = (at) => (at < LEFT ? -1 : Math.max(0, Math.min(items.length - 1, Math.floor((at - LEFT) / step))));
  const shown = explorable(root, items, {
    near,
    height: HEIGHT - BOTTOM,
    at: (item) => [LEFT + items.indexOf(item) * step, step],
    about: aboutBin,
    chosen,
  });
  return el(
    "figure",
    {},
    shown,
    el(
      "figcaption",
      {},
      legend([
        ["append", "rows written: append"],
        ["compact", "compaction"],
        ["overwrite", "overwrite"],
        ["analyze", "analysis"],
        ["line", "rows in the table, on a scale of their own"],
        ["tag", "tag"],
        ["branch", "branch"],
        ["consumer", "consumer"],
      ]),
    ),
  );
}

function aboutBin(item) {
  const [first, last] = [item.rows[0], item.rows.at(-1)];
  return [
    el("b", {}, first === last ? `Snapshot ${last.snapshot}, ${last.kind}` : `Snapshots ${first.snapshot} to ${last.snapshot}`),
    el(
      "div",
      {},
      `${count(item.written)} rows written${first === last ? "" : " by the largest"}, ${count(item.total)} in the table`,
    ),
    el("div", {}, localTime(last.time_ms), first === last ? ` by ${last.writer}` : ""),
    item.marks.slice(0, 5).map((mark) => el("div", {}, `${mark.kind} ${mark.name}`)),
  ];
}

function markList(marks) {
  if (!marks.length) return null;
  return el(
    "ul",
    { class: "marks", "aria-label": "Tags, branches and consumers" },
    marks
      .slice(0, 40)
      .map((mark) =>
        el(
          "li",
          {},
          chip(mark.kind, mark.kind),
          mark.name,
          el("span", { class: "note" }, mark.snapshot ? `at ${mark.snapshot}` : "before the first snapshot"),
        ),
      ),
    marks.length > 40 ? el("li", { class: "note" }, `and ${marks.length - 40} more`) : null,
  );
}

function columns(name) {
  return [
    {
      name: "snapshot",
      label: "Snapshot",
      heads: true,
      number: true,
      value: (row) => row.snapshot,
      cell: (row) =>
        saved || row.error
          ? row.snapshot
          : el(
              "button",
              {
                type: "button",
                class: "link",
                "data-key": `snapshot ${row.snapshot}`,
                title: "Show the changes",
                on: { click: () => openChanges(name, row) },
              },
              row.snapshot,
            ),
    },
    {
      name: "time",
      label: "Time",
      value: (row) => row.time_ms,
      cell: (row) => (row.error ? el("span", { class: "trouble" }, row.error) : clock(row.time_ms)),
    },
    {
      name: "kind",
      label: "Kind",
      value: (row) => row.kind,
      cell: (row) =>
        row.kind ? [chip(row.kind.toLowerCase(), KINDS[row.kind]), row.restores ? ` back to ${row.restores}` : null] : "–",
    },
    { name: "written", label: "Written", number: true, value: (row) => row.written, cell: (row) => count(row.written) },
    { name: "rows", label: "Rows", number: true, value: (row) => row.rows, cell: (row) => count(row.rows) },
    {
      name: "writer",
      label: "Writer",
      wide: true,
      value: (row) => row.writer,
      cell: (row) => [
        writer(row.writer),
        row.commit === null || row.commit === undefined ? null : el("span", { class: "note inline" }, `commit ${row.commit}`),
      ],
    },
    {
      name: "marks",
      label: "Tags, branches, consumers",
      wide: true,
      cell: (row) => (row.marks.length ? row.marks.map((mark) => chip(mark.name, mark.kind, mark.kind)) : "–"),
    },
    {
      name: "tree",
      label: "Tree",
      cell: (row) =>
        row.error
          ? "–"
          : el(
              "a",
              {
                href: addressOf(["table", name, "tree"], { snapshot: row.snapshot }),
                "aria-label": `LSM tree at snapshot ${row.snapshot}`,
              },
              "tree",
            ),
    },
  ];
}

function openChanges(name, row) {
  if (saved) return;
  panel(
    `Snapshot ${row.snapshot}`,
    get("changes", { table: name, snapshot: row.snapshot }).then((found) => {
      const commit = found.commit;
      const about =
        found.by === "diff"
          ? "Changes against the snapshot before."
          : "The snapshot before has expired, so these are the rows that the commit wrote.";
      return [
        el(
          "p",
          {},
          chip(commit.kind.toLowerCase(), KINDS[commit.kind]),
          " by ",
          el("b", {}, writer(commit.writer)),
          ", ",
          age(commit.time_ms),
          ". ",
          about,
        ),
        found.count
          ? cellTable({
              caption: `Changes of snapshot ${row.snapshot}${found.more ? `, the first ${found.count}` : ""}`,
              columns: found.columns,
              rows: found.rows,
              kinds: true,
            })
          : hint("No row changed: the commit only moved or merged files, or wrote metadata."),
      ];
    }),
  );
}
