// The files of a table as a treemap: a field per partition, as large as its bytes, as warm as its share of dead rows. A click
// opens the partition, whose fields are its files.

import { el, fill, onWidth, svg } from "./dom.js";
import { explorable } from "./chart.js";
import { dataTable, hint, meter } from "./parts.js";
import { addressOf, asker, place } from "./place.js";
import { get, saved } from "./server.js";
import { bytes, count, counted, joined, share } from "./words.js";

const HOT = 0.5; // the share of dead rows from which a field has the warmest colour
const STEPS = 6;

/** The view of a table's files: {node, refresh, moved}. */
export function filesView(name) {
  const ask = asker();
  const state = { sort: "", down: true };
  let data = null,
    asks = 0;
  const head = el("div", { class: "controls" }),
    picture = el("div"),
    list = el("div");
  const search = el("input", {
    type: "search",
    placeholder: "Filter partitions",
    "aria-label": "Filter partitions",
    on: {
      input: () => {
        clearTimeout(asks);
        asks = setTimeout(() => ask({ search: search.value }, { replaces: true }) ?? load(), 200);
      },
    },
  });
  const node = el("div", {}, head, picture, list);
  const redraw = onWidth(picture, drawPicture);

  async function load() {
    const { asked } = place();
    if (document.activeElement !== search) search.value = asked.search ?? "";
    const found = await get("map", { table: name, snapshot: asked.snapshot, partition: asked.partition, search: asked.search });
    if (found === data) return;
    data = found;
    draw();
  }

  function draw() {
    const inside = data.partition !== null,
      sums = inside ? data.inside : data.total;
    fill(
      head,
      inside && data.partitioned
        ? el(
            "a",
            { class: "button", href: addressOf(["table", name, "files"], { snapshot: place().asked.snapshot }) },
            "All partitions",
          )
        : null,
      !inside && data.partitioned && !saved ? search : null,
      el(
        "span",
        { class: "note" },
        inside && data.partition ? `${data.partition}: ` : null,
        joined([
          counted(sums.files, "file"),
          bytes(sums.bytes),
          `${share(sums.dead, sums.rows)} of ${counted(sums.rows, "row")} dead`,
          inside ? null : counted(data.partitions, "partition"),
        ]),
        place().asked.snapshot ? ` at snapshot ${data.snapshot}` : "",
      ),
      heatScale(),
    );
    redraw();
    drawList(inside);
  }

  function parts() {
    return [...data.parts, ...data.rest.map((group) => ({ ...group, name: null }))].filter((part) => part.bytes > 0);
  }

  function drawPicture(width) {
    if (!data) return;
    const height = width < 600 ? 300 : 380,
      items = parts();
    if (!items.length) {
      fill(picture, hint(data.search ? "No partition has this in its name." : "There are no files."));
      return;
    }
    const fields = squarified(items, width, height);
    const root = svg(
      "svg",
      {
        width,
        height,
        role: "img",
        tabindex: "0",
        class: "map",
        "aria-label": joined(
          [
            `Treemap of ${counted(items.length, data.partition === null ? "partition" : "file")} by size`,
            "the table below has the same",
            "arrow keys go through the fields",
          ],
          "; ",
        ),
      },
      fields.map(({ item, x, y, w, h }) =>
        svg(
          "g",
          { class: item.name === null ? "field rest" : `field heat${heat(item)}` },
          svg("rect", { x: x + 0.5, y: y + 0.5, width: Math.max(0, w - 1), height: Math.max(0, h - 1), rx: 2 }),
          w > 54 && h > 18 ? svg("text", { x: x + 6, y: y + 14 }, fitting(labelOf(item), w - 10)) : null,
          w > 54 && h > 34 ? svg("text", { x: x + 6, y: y + 29, class: "small" }, fitting(bytes(item.bytes), w - 10)) : null,
        ),
      ),
    );
    const near = (x, y) => fields.findIndex((one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + one.h);
    const shown = explorable(root, fields, {
      near,
      at: (field) => [field.x, field.w, field.y, field.h],
      about: ({ item }) => aboutPart(item),
      chosen: ({ item }) => open(item),
    });
    fill(picture, shown);
  }

  function open(item) {
    if (data.partition === null && data.partitioned && item.name !== null && !saved) ask({ partition: item.name, search: null });
  }

  function drawList(inside) {
    const columns = [
      {
        name: "name",
        label: inside || !data.partitioned ? "File" : "Partition",
        heads: true,
        wide: true,
        value: (row) => row.name,
        cell: (row) =>
          inside || !data.partitioned || saved
            ? row.name || "all files"
            : el(
                "a",
                {
                  href: addressOf(["table", name, "files"], { ...place().asked, partition: row.name, search: null }),
                  "data-key": `part ${row.name}`,
                },
                row.name,
              ),
      },
      inside
        ? { name: "bucket", label: "Bucket", number: true, value: (row) => row.bucket, cell: (row) => row.bucket ?? "–" }
        : null,
      inside
        ? { name: "level", label: "Level", number: true, value: (row) => row.level, cell: (row) => row.level ?? "–" }
        : { name: "files", label: "Files", number: true, value: (row) => row.files, cell: (row) => count(row.files) },
      { name: "bytes", label: "Size", number: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { name: "rows", label: "Rows", number: true, value: (row) => row.rows, cell: (row) => count(row.rows) },
      {
        name: "dead",
        label: "Dead",
        number: true,
        value: (row) => row.dead / Math.max(row.rows, 1),
        cell: (row) => (row.dead ? meter(row.dead, row.rows, "dead") : "–"),
      },
      inside
        ? {
            name: "keys",
            label: "Keys",
            wide: true,
            cell: (row) => (row.min === null || row.min === undefined ? "–" : `${row.min} … ${row.max}`),
          }
        : {
            name: "waiting",
            label: "Waiting",
            number: true,
            value: (row) => row.level0_rows,
            cell: (row) => (row.level0_rows ? meter(row.level0_rows, row.rows, "waiting", count(row.level0_rows)) : "–"),
          },
      !inside && data.partitioned && !saved
        ? {
            name: "tree",
            label: "Tree",
            cell: (row) =>
              el(
                "a",
                {
                  href: addressOf(["table", name, "tree"], { snapshot: place().asked.snapshot, partition: row.name }),
                  "aria-label": `LSM trees of ${row.name}`,
                },
                "tree",
              ),
          }
        : null,
    ].filter(Boolean);
    fill(
      list,
      dataTable({
        caption: inside ? "Files, the largest first" : "Partitions, the largest first",
        columns,
        rows: data.parts,
        state,
        key: (row) => row.name,
        most: 100,
        empty: "There are no files.",
      }),
      data.rest.length ? hint(`And ${count(data.rest.reduce((sum, group) => sum + group.count, 0))} smaller ones.`) : null,
    );
  }

  return { node, refresh: load, moved: load };
}

function titleOf(part) {
  return part.name === null ? `${count(part.count)} smaller ones` : part.name || "all files";
}

/** What is written in a field: of a file its place in the trees, because names of files are long. */
function labelOf(part) {
  return part.level === undefined ? titleOf(part) : `L${part.level}, bucket ${part.bucket}`;
}

function heat(part) {
  return part.dead ? Math.max(1, Math.min(STEPS, Math.ceil((part.dead / Math.max(part.rows, 1) / HOT) * STEPS))) : 0;
}

function heatScale() {
  return el(
    "span",
    {
      class: "heats",
      role: "img",
      "aria-label": "Colours: no dead rows on the left, half or more of the rows dead on the right",
    },
    el("span", { class: "note" }, "0 % dead"),
    Array.from({ length: STEPS + 1 }, (_, step) => el("span", { class: `swatch heat${step}` })),
    el("span", { class: "note" }, `≥ ${HOT * 100} %`),
  );
}

function aboutPart(part) {
  return [
    el("b", {}, titleOf(part)),
    el(
      "div",
      {},
      joined([
        part.files > 1 || part.level === undefined ? counted(part.files, "file") : `level ${part.level}, bucket ${part.bucket}`,
        bytes(part.bytes),
      ]),
    ),
    el(
      "div",
      {},
      joined([
        counted(part.rows, "row"),
        `${share(part.dead, part.rows)} dead`,
        part.level0_rows ? `${count(part.level0_rows)} at level 0` : null,
      ]),
    ),
  ];
}

/** The beginning of a text that fits, at about 6.6 pixels a character. */
function fitting(text, width) {
  const most = Math.floor(width / 6.6);
  return text.length <= most ? text : most > 2 ? `${text.slice(0, most - 1)}…` : "";
}

/** Rectangles with areas by bytes, as square as may be: rows of fields along the shorter side (Bruls, Huizing, van Wijk). */
function squarified(items, width, height) {
  const sorted = [...items].sort((one, other) => other.bytes - one.bytes);
  const scale = (width * height) / sorted.reduce((sum, item) => sum + item.bytes, 0);
  const placed = [];
  let [x, y, w, h] = [0, 0, width, height],
    row = [],
    area = 0;
  const worst = (sum, some, side) =>
    Math.max(...some.map((one) => Math.max((side * side * one) / (sum * sum), (sum * sum) / (side * side * one))));
  function lay() {
    const side = Math.min(w, h),
      thick = area / side;
    let at = 0;
    for (const [item, size] of row) {
      const long = size / thick;
      placed.push(w >= h ? { item, x, y: y + at, w: thick, h: long } : { item, x: x + at, y, w: long, h: thick });
      at += long;
    }
    if (w >= h) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
    [row, area] = [[], 0];
  }
  for (const item of sorted) {
    const size = item.bytes * scale,
      side = Math.min(w, h),
      sizes = row.map(([, one]) => one);
    if (row.length && worst(area, sizes, side) < worst(area + size, [...sizes, size], side)) lay();
    row.push([item, size]);
    area += size;
  }
  if (row.length) lay();
  return placed;
}
