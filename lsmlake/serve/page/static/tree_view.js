// The LSM trees of one partition: buckets, their sorted runs, files as bars; a slider goes through the snapshots, so that one
// sees runs arrive, split and merge.

import { el, fill, onWidth, put, svg } from "./dom.js";
import { hatching } from "./chart.js";
import { choice, dataTable, hint, legend, problem } from "./parts.js";
import { asker, place } from "./place.js";
import { get, saved } from "./server.js";
import { idAt, placeOf, totalOf } from "./snapshots.js";
import { age, bytes, count, counted, joined, share, writer } from "./words.js";

const LABEL = 30,
  GAP = 4,
  STEP_MS = 900;
let hatch = 0;

/** The view of a table's trees: {node, refresh, moved, closed}. */
export function treeView(name) {
  const ask = asker();
  const state = { by: "size", trees: null, ranges: [], playing: 0, wanted: 0 };
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 0,
    step: 1,
    "aria-label": "Snapshot",
    on: { input: () => moveTo(idAt(state.ranges, Number(slider.value))) },
  });
  const play = el("button", { type: "button", class: "icon", on: { click: () => (state.playing ? pause() : start()) } });
  const back = stepButton("‹", "One snapshot earlier", -1),
    on = stepButton("›", "One snapshot later", 1);
  const newest = el("button", { type: "button", on: { click: () => moveTo(null) } }, "Newest");
  const about = el("p", { class: "about", "aria-live": "polite" }),
    where = el("div", { class: "controls" });
  const panels = el("div", { class: "buckets" }),
    pages = el("div", { class: "controls" }),
    detail = el("p", { class: "detail", "aria-live": "polite" });
  const table = el("details", {}, el("summary", {}, "The same data as a table"), el("div"));
  const trouble = el("div");
  const node = el(
    "div",
    {},
    el("div", { class: "slides" }, play, back, slider, on, newest),
    about,
    where,
    trouble,
    panels,
    detail,
    pages,
    legend([
      ["level0", "level 0: waits to be merged"],
      ["deep", "level 1 and deeper"],
      ["dead", "dead rows"],
      ["came", "added by this snapshot"],
      ["moved", "moved by it to another level"],
    ]),
    table,
  );
  const drawn = new Map();
  onWidth(panels, () => state.trees && drawPanels());
  table.addEventListener("toggle", () => state.trees && drawTable());

  // -- which snapshot

  function total() {
    return totalOf(state.ranges);
  }

  function moveTo(id) {
    if (id !== null && id === idAt(state.ranges, total() - 1)) id = null;
    ask({ snapshot: id }, { replaces: true });
    load();
  }

  function stepButton(sign, label, step) {
    return el(
      "button",
      {
        type: "button",
        class: "icon",
        "aria-label": label,
        title: label,
        on: { click: () => moveTo(idAt(state.ranges, Math.max(0, Math.min(total() - 1, Number(slider.value) + step)))) },
      },
      sign,
    );
  }

  function start() {
    if (Number(slider.value) >= total() - 1) moveTo(idAt(state.ranges, Math.max(0, total() - 30)));
    state.playing = setInterval(() => {
      if (Number(slider.value) >= total() - 1) pause();
      else moveTo(idAt(state.ranges, Number(slider.value) + 1));
    }, STEP_MS);
    drawPlay();
  }

  function pause() {
    clearInterval(state.playing);
    state.playing = 0;
    drawPlay();
  }

  function drawPlay() {
    play.textContent = state.playing ? "❚❚" : "▶";
    put(play, "aria-label", state.playing ? "Pause" : "Play from here");
    put(play, "title", state.playing ? "Pause" : "Play from here");
  }

  // -- data

  async function load() {
    const { asked } = place();
    const wanted = (state.wanted += 1);
    const id = asked.snapshot ?? null;
    slider.value = id === null ? total() - 1 : placeOf(state.ranges, Number(id));
    try {
      const found = await get("tree", { table: name, snapshot: id, partition: asked.partition, first: asked.first });
      if (wanted !== state.wanted) return;
      fill(trouble);
      if (found !== state.trees) draw(found);
    } catch (error) {
      if (wanted === state.wanted) fill(trouble, problem(error));
    }
  }

  function draw(trees) {
    state.trees = trees;
    const { change } = trees;
    if (trees.snapshot === null) {
      fill(about, hint("Nothing was written yet."));
      return;
    }
    const parts = [
      [change.came, "came"],
      [change.moved, "moved"],
      [change.went, "went"],
    ]
      .filter(([number]) => number)
      .map(([number, verb]) => `${counted(number, "file")} ${verb}`);
    fill(
      about,
      el("b", {}, `Snapshot ${trees.snapshot}`),
      ` · ${trees.kind.toLowerCase()} by `,
      writer(trees.writer),
      " · ",
      age(trees.time_ms),
      " · ",
      !change.known ? "the snapshot before has expired" : parts.length ? parts.join(", ") : "no file of this partition changed",
    );
    put(slider, "aria-valuetext", `snapshot ${trees.snapshot}, ${trees.kind.toLowerCase()}`);
    fill(
      where,
      partitionPicker(trees),
      trees.append_only
        ? null
        : choice(
            "Bars by",
            [
              ["size", "size"],
              ["keys", "keys"],
            ],
            state.by,
            (value) => {
              state.by = value;
              drawPanels();
            },
          ),
    );
    drawPanels();
    drawPages(trees);
    if (table.open) drawTable();
  }

  function partitionPicker(trees) {
    if (saved && trees.partition !== null)
      return el("span", { class: "note" }, `Partition ${trees.partition}, the largest of ${count(trees.partitions)}`);
    if (trees.partition === null) return null;
    const list = el("datalist", { id: "partitions" });
    const input = el("input", {
      type: "search",
      list: "partitions",
      value: trees.partition,
      "data-key": "partition",
      spellcheck: "false",
      on: {
        input: () => offer(input.value, list),
        focus: () => {
          input.select();
          offer("", list);
        },
        change: () => input.value && ask({ partition: input.value, first: null }),
      },
    });
    return el("label", { class: "named" }, `Partition, of ${count(trees.partitions)}`, input, list);
  }

  async function offer(text, list) {
    try {
      const found = await get("map", { table: name, snapshot: place().asked.snapshot, search: text });
      fill(
        list,
        found.parts.slice(0, 60).map((part) => el("option", { value: part.name })),
      );
    } catch {
      fill(list); // the picker works without suggestions; the view itself shows the error
    }
  }

  function drawPages(trees) {
    const shown = trees.buckets.length,
      last = trees.first + shown;
    if (shown === trees.bucket_count || saved) {
      fill(
        pages,
        shown < trees.bucket_count
          ? el("span", { class: "note" }, `The first ${shown} of ${counted(trees.bucket_count, "bucket")}`)
          : null,
      );
      return;
    }
    const page = (first, label) =>
      el(
        "button",
        {
          type: "button",
          "data-key": label,
          disabled: first < 0 || first >= trees.bucket_count,
          on: { click: () => ask({ first: first || null }) },
        },
        label,
      );
    fill(
      pages,
      page(trees.first - 24 < 0 && trees.first > 0 ? 0 : trees.first - 24, "Earlier buckets"),
      ` ${trees.first + 1} to ${last} of ${counted(trees.bucket_count, "bucket")} `,
      page(last, "Later buckets"),
    );
  }

  // -- pictures

  function drawPanels() {
    const known = new Set(state.trees.buckets.map((bucket) => bucket.bucket));
    for (const [number, one] of drawn) {
      if (known.has(number)) continue;
      one.node.remove();
      drawn.delete(number);
    }
    for (const bucket of state.trees.buckets) {
      if (drawn.has(bucket.bucket)) continue;
      drawn.set(bucket.bucket, bucketPanel(showBar));
      const later = state.trees.buckets.find((one) => one.bucket > bucket.bucket && drawn.has(one.bucket));
      panels.insertBefore(drawn.get(bucket.bucket).node, later ? drawn.get(later.bucket).node : null);
    }
    // now all are there, which sets their widths
    for (const bucket of state.trees.buckets) drawn.get(bucket.bucket).draw(bucket, state.trees, state.by);
    const empty = panels.querySelector(".message");
    if (state.trees.buckets.length) empty?.remove();
    else if (!empty)
      panels.append(
        hint(
          state.trees.partition === null
            ? "There are no files at this snapshot."
            : `Partition ${state.trees.partition} has no files at this snapshot.`,
        ),
      );
  }

  function showBar(bar) {
    fill(detail, bar ? aboutBar(bar) : "Point at a bar, or choose a bucket and go through its bars by the arrow keys.");
  }

  function drawTable() {
    const rows = state.trees.buckets.flatMap((bucket) =>
      bucket.runs.map((run) => ({ bucket: bucket.bucket, ...run, min: run.bars[0].min, max: run.bars.at(-1).max })),
    );
    fill(
      table.lastElementChild,
      dataTable({
        caption: `Sorted runs at snapshot ${state.trees.snapshot}, newest first`,
        rows,
        state: {},
        key: null,
        columns: [
          { name: "bucket", label: "Bucket", heads: true, number: true, cell: (row) => row.bucket },
          { name: "level", label: "Level", number: true, cell: (row) => row.level },
          { name: "files", label: "Files", number: true, cell: (row) => count(row.files) },
          { name: "rows", label: "Rows", number: true, cell: (row) => count(row.rows) },
          {
            name: "dead",
            label: "Dead",
            number: true,
            cell: (row) => (row.dead ? `${count(row.dead)} (${share(row.dead, row.rows)})` : "–"),
          },
          { name: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes) },
          { name: "keys", label: "Keys", wide: true, cell: (row) => (row.min === null ? "–" : `${row.min} … ${row.max}`) },
        ],
      }),
    );
  }

  drawPlay();
  showBar(null);
  return {
    node,
    async refresh() {
      const card = await get("table", { table: name });
      state.ranges = saved ? saved.trees : card.ranges;
      put(slider, "max", Math.max(0, total() - 1));
      await load();
    },
    moved: load,
    closed: pause,
  };
}

/** A bucket as a picture: {node, draw}. Bars keep their elements from one snapshot to the next, so that they move. */
function bucketPanel(show) {
  const pattern = `dead-${(hatch += 1)}`;
  const title = el("h3"),
    root = svg("svg", { role: "img", tabindex: "0", class: "tree" }, hatching(pattern));
  const node = el("figure", { class: "bucket" }, el("figcaption", {}, title), root);
  const bars = new Map(),
    labels = svg("g", { class: "labels" }),
    shapes = svg("g"),
    mark = svg("rect", { class: "mark", visibility: "hidden" });
  root.append(labels, shapes, mark);
  let placed = [],
    current = -1;

  function choose(at) {
    current = at;
    const one = placed[at];
    put(mark, "visibility", one ? "visible" : "hidden");
    if (one) for (const side of ["x", "y", "width", "height"]) put(mark, side, one[side]);
    show(one?.bar ?? null);
  }
  root.addEventListener("pointermove", (event) => {
    const from = root.getBoundingClientRect(),
      [x, y] = [event.clientX - from.left, event.clientY - from.top];
    const at = placed.findIndex(
      (one) => y >= one.y && y < one.y + one.height + GAP && x >= one.x && x < one.x + Math.max(one.width, 3),
    );
    if (at >= 0 && at !== current) choose(at);
  });
  root.addEventListener("pointerleave", () => choose(-1));
  root.addEventListener("blur", () => choose(-1));
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -placed.length, End: placed.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(placed.length - 1, (current < 0 ? (step < 0 ? placed.length : -1) : current) + step)));
  });

  function draw(bucket, { most_bytes: most, append_only: appends }, by) {
    const width = Math.max(160, title.clientWidth || 300),
      room = width - LABEL - 4;
    const height = Math.max(7, Math.min(20, Math.floor(240 / Math.max(bucket.runs.length, 1))));
    const whole = bucket.runs.length * (height + GAP);
    put(root, "width", width);
    put(root, "height", whole);
    fill(
      title,
      `Bucket ${bucket.bucket}`,
      el(
        "span",
        { class: "note" },
        joined(
          [
            `of ${bucket.total}`,
            joined([
              counted(bucket.files, "file"),
              bytes(bucket.bytes),
              bucket.dead ? `${share(bucket.dead, bucket.rows)} dead` : null,
            ]),
            bucket.gone ? `${counted(bucket.gone, "file")} went` : null,
          ],
          " · ",
        ),
      ),
    );
    put(
      root,
      "aria-label",
      joined(
        [
          `LSM tree of bucket ${bucket.bucket}`,
          ...bucket.runs.map((run) =>
            joined([`level ${run.level}`, counted(run.files, "file"), bytes(run.bytes), counted(run.dead, "dead row")]),
          ),
          "arrow keys go through the bars",
        ],
        "; ",
      ),
    );
    placed = [];
    const levels = [],
      seen = new Set();
    bucket.runs.forEach((run, line) => {
      const y = line * (height + GAP);
      if (line === 0 || bucket.runs[line - 1].level !== run.level)
        levels.push(svg("text", { x: 0, y: y + Math.min(height, 15) - 3 }, `L${run.level}`));
      let x = LABEL;
      run.bars.forEach((bar, number) => {
        const keyed = by === "keys" && bar.from !== null;
        const wide = keyed ? Math.max(2, (bar.to - bar.from) * room) : Math.max(1.5, (bar.bytes / Math.max(most, 1)) * room);
        const at = {
          bar: { ...bar, level: run.level, waits: run.level === 0 && !appends },
          x: keyed ? LABEL + bar.from * (room - 2) : x,
          y,
          width: Math.max(1, wide - (wide > 4 ? 1 : 0)),
          height,
        };
        if (!keyed) x += wide;
        placed.push(at);
        const key = bar.name ?? `${run.level} ${run.sequence} ${number}`;
        seen.add(key);
        put1(key, at, pattern);
      });
    });
    fill(labels, levels);
    for (const [key, shape] of bars) {
      if (seen.has(key)) continue;
      bars.delete(key);
      shape.classList.add("leaves");
      setTimeout(() => shape.remove(), 350);
    }
    if (current >= placed.length) choose(-1);
    else if (current >= 0) choose(current);
  }

  function put1(key, { bar, x, y, width, height }, hatched) {
    let shape = bars.get(key);
    if (!shape) {
      shape = svg("g", { class: "bar" }, svg("rect"), svg("rect", { fill: `url(#${hatched})` }));
      bars.set(key, shape);
      shapes.append(shape);
    }
    put(shape, "class", `bar ${bar.waits ? "level0" : `deep depth${Math.min(bar.level, 6)}`} ${bar.did ?? ""}`);
    const dead = bar.dead ? Math.max(1, (width * bar.dead) / Math.max(bar.rows, 1)) : 0;
    const sides = [
      [x, width],
      [x + width - dead, dead],
    ];
    [...shape.children].forEach((rect, part) => {
      for (const [side, value] of [
        ["x", sides[part][0]],
        ["width", sides[part][1]],
        ["y", y],
        ["height", height],
      ])
        put(rect, side, value.toFixed(2));
    });
  }
  return { node, draw };
}

function aboutBar(bar) {
  const name = bar.name === null ? counted(bar.files, "file") : bar.name;
  return [
    el("b", {}, name),
    ` · level ${bar.level} · ${counted(bar.rows, "row")}`,
    bar.dead ? `, ${count(bar.dead)} dead (${share(bar.dead, bar.rows)})` : null,
    ` · ${bytes(bar.bytes)}`,
    bar.min === null ? null : [" · keys ", el("code", {}, bar.min), " … ", el("code", {}, bar.max)],
    ` · rows of snapshot ${bar.sequence}${bar.did ? `, ${bar.did} with this one` : ""}`,
  ];
}
