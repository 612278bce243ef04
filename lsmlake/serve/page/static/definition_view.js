// The definition of a table: columns, keys, options.

import { el, fill } from "./dom.js";
import { chip, dataTable } from "./parts.js";
import { get } from "./server.js";
import { count } from "./words.js";

/** The view of a table's definition: {node, refresh}. */
export function definitionView(name) {
  const node = el("div");
  let data = null;
  function draw() {
    const keys = new Set(data.primary_key),
      options = Object.entries(data.options);
    fill(
      node,
      el(
        "dl",
        { class: "facts" },
        fact("Primary key", data.primary_key.length ? data.primary_key.join(", ") : "none: append-only"),
        data.partition_by.length ? fact("Partitioned by", data.partition_by.join(", ")) : null,
        fact("Partitions, buckets", `${count(data.partitions)}, ${count(data.buckets)}`),
        fact("Path", el("code", {}, data.path)),
      ),
      dataTable({
        caption: "Columns",
        rows: data.columns,
        state: {},
        key: null,
        columns: [
          {
            name: "name",
            label: "Column",
            heads: true,
            wide: true,
            cell: (row) => [row.name, keys.has(row.name) ? chip("key", "key") : null],
          },
          { name: "type", label: "Type", cell: (row) => el("code", {}, row.type) },
          { name: "null", label: "Null", cell: (row) => (row.nullable ? "yes" : "no") },
          { name: "comment", label: "Comment", wide: true, cell: (row) => row.comment ?? "–" },
        ],
      }),
      options.length
        ? dataTable({
            caption: "Options that the table sets",
            rows: options,
            state: {},
            key: null,
            columns: [
              { name: "name", label: "Option", heads: true, wide: true, cell: (row) => el("code", {}, row[0]) },
              { name: "value", label: "Value", wide: true, cell: (row) => row[1] },
            ],
          })
        : null,
    );
  }
  return {
    node,
    async refresh() {
      const found = await get("table", { table: name });
      if (found === data) return;
      data = found;
      draw();
    },
  };
}

function fact(name, value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}
