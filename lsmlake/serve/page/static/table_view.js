// One table: its figures, and below them one of its views.

import { el, fill } from "./dom.js";
import { compactionsView } from "./compactions_view.js";
import { definitionView } from "./definition_view.js";
import { filesView } from "./files_view.js";
import { historyView } from "./history_view.js";
import { chip, figures, tabs } from "./parts.js";
import { addressOf } from "./place.js";
import { get, saved } from "./server.js";
import { treeView } from "./tree_view.js";
import { age, bytes, count, counted, share } from "./words.js";

const VIEWS = [
  ["history", "History", historyView],
  ["tree", "LSM tree", treeView],
  ["files", "Files", filesView],
  ["compactions", "Compactions", compactionsView],
  ["definition", "Definition", definitionView],
];

/** The view of a table: {node, title, refresh, moved, closed}. `view`: the name of the view below its figures. */
export function tableView(name, view = "history") {
  const [kind, , make] = VIEWS.find(([one]) => one === view) ?? VIEWS[0];
  const inner = make(name);
  const top = el("div"),
    about = el("p", { class: "about" });
  let card = null;
  const items = VIEWS.map(([one, label]) => ({ name: one, label, address: addressOf(["table", name, one]) }));
  const node = el(
    "section",
    {},
    saved
      ? null
      : el(
          "nav",
          { class: "crumbs", "aria-label": "Where this is" },
          el("a", { href: "#/" }, "Tables"),
          " / ",
          el("span", {}, name),
        ),
    el("h1", {}, name),
    about,
    top,
    tabs(items, kind, "Views of the table"),
    inner.node,
  );

  function draw() {
    const snapshot = card.snapshot;
    fill(about, card.comment ? [card.comment, " "] : null, card.append_only ? chip("append-only") : null);
    fill(
      top,
      figures([
        ["Rows", count(snapshot?.rows ?? 0), card.append_only ? null : `${count(card.live_rows)} in deeper levels`],
        ["Size", bytes(card.bytes), counted(card.files, "file")],
        card.append_only ? null : ["Waiting at level 0", count(card.waiting_rows), "rows that a fresh read merges", "waiting"],
        ["Dead rows", count(card.dead_rows), share(card.dead_rows, card.stored_rows), "dead"],
        ["Partitions, buckets", `${count(card.partitions)}, ${count(card.buckets)}`],
        [
          "Newest snapshot",
          snapshot ? String(snapshot.snapshot) : "none",
          snapshot ? age(snapshot.time_ms) : "nothing was written yet",
        ],
      ]),
    );
  }

  return {
    node,
    title: name,
    async refresh() {
      const [found] = await Promise.all([get("table", { table: name }), inner.refresh()]);
      if (found === card) return;
      card = found;
      draw();
    },
    moved: inner.moved,
    closed: inner.closed,
  };
}
