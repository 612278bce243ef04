// The SQL box: the first rows of a statement, how much of the tables it left out before it read rows, and times.

import { el, fill, put } from "./dom.js";
import { cellTable, hint, panel, problem } from "./parts.js";
import { get, post } from "./server.js";
import { bytes, count, counted, duration, joined, share } from "./words.js";

const HISTORY = "lsmlake.statements",
  HISTORY_MAX = 50;
const COLUMNS_SHOWN = 12;
const CANCEL_AGAIN_MS = 100;
const kept = { text: "", result: null, error: null, running: null };

/** An id that nobody can guess: whoever knows it can cancel the statement. */
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The view: {node, title, refresh}. The text, the result and a running statement stay while other views are open. */
export function sqlView() {
  const box = el("textarea", {
    rows: 6,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    "aria-label": "An SQL statement",
    "aria-describedby": "sql-help",
    placeholder: "SELECT * FROM sales.orders WHERE order_id = 7",
    on: {
      input: () => {
        kept.text = box.value;
      },
      keydown: keys,
    },
  });
  box.value = kept.text;
  const run = el("button", { type: "button", class: "main", on: { click: start } }, "Run");
  const stop = el("button", { type: "button", disabled: true, on: { click: cancel } }, "Cancel");
  const older = el("button", { type: "button", class: "quiet", on: { click: showHistory } }, "Statements of this session");
  const help = el("p", { id: "sql-help", class: "note" }),
    out = el("div", { "aria-live": "polite" });
  let settings = null;

  function keys(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      start();
    } else if (event.key === "Escape" && kept.running) cancel();
  }

  async function start() {
    const text = box.value.trim().replace(/;\s*$/, "");
    if (!text || kept.running) return;
    remember(text);
    const id = randomId();
    Object.assign(kept, { running: id, result: null, error: null });
    draw();
    try {
      kept.result = await post("sql", { text, id }, { signal: AbortSignal.timeout(600000) });
    } catch (error) {
      kept.error = error;
      mark(error, text);
    }
    kept.running = null;
    draw();
  }

  /** Asks until the statement has ended: the server may hear of the cancelling before it hears of the statement. */
  async function cancel() {
    const id = kept.running;
    while (id && kept.running === id) {
      const answer = await post("cancel", { id }).catch(() => null); // the statement itself says how it ended
      if (answer?.cancelled) return;
      await new Promise((resolve) => setTimeout(resolve, CANCEL_AGAIN_MS));
    }
  }

  /** Chooses the place in the text that an error names. */
  function mark(error, text) {
    const match = /^(?:line (\d+), )?character (\d+) of /.exec(error.parts?.where ?? "");
    if (!match || !box.isConnected) return;
    const lines = text.split("\n");
    const before = match[1] ? lines.slice(0, Number(match[1]) - 1).reduce((sum, line) => sum + line.length + 1, 0) : 0;
    const at = before + Number(match[2]) - 1 + (box.value.length - box.value.trimStart().length);
    const word = /^(?:`[^`]*`|'[^']*'|[\w.]+|.)/s.exec(box.value.slice(at))?.[0] ?? "";
    if (![box, run, stop, document.body].includes(document.activeElement)) return; // the reader has gone on
    box.focus();
    box.setSelectionRange(at, at + word.length);
  }

  function draw() {
    const pressed = [run, stop].includes(document.activeElement); // a button that is disabled loses the focus
    put(run, "disabled", Boolean(kept.running));
    put(stop, "disabled", !kept.running);
    if (pressed) (kept.running ? stop : run).focus();
    if (kept.running) fill(out, el("p", { class: "busy" }, "Running…"));
    else if (kept.error) fill(out, problem(kept.error));
    else fill(out, kept.result ? result(kept.result) : null);
  }

  function showHistory() {
    const texts = statements();
    const dialog = panel(
      "Statements of this session",
      texts.length
        ? el(
            "ol",
            { class: "statements" },
            texts.map((text) =>
              el(
                "li",
                {},
                el(
                  "button",
                  {
                    type: "button",
                    class: "statement",
                    on: {
                      click: () => {
                        box.value = kept.text = text;
                        dialog.close();
                        box.focus();
                      },
                    },
                  },
                  text,
                ),
              ),
            ),
          )
        : hint("No statement was run yet."),
    );
  }

  draw();
  return {
    node: el(
      "section",
      {},
      el("h1", {}, "SQL"),
      el("div", { class: "sqlbox" }, box, el("div", { class: "controls" }, run, stop, older)),
      help,
      out,
    ),
    title: "SQL",
    async refresh() {
      if (settings) return;
      settings = await get("settings");
      fill(
        help,
        settings.writes ? "Statements may change tables." : "Queries only: the server was started without --write.",
        ` The first ${settings.rows} rows, at most ${settings.seconds} seconds. Ctrl+Enter runs, Escape cancels.`,
      );
    },
  };
}

function statements() {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY) ?? "[]");
  } catch {
    return [];
  }
}

function remember(text) {
  try {
    sessionStorage.setItem(HISTORY, JSON.stringify([text, ...statements().filter((one) => one !== text)].slice(0, HISTORY_MAX)));
  } catch {
    // the statement runs without being remembered
  }
}

function result(found) {
  const rows = found.more ? `the first ${counted(found.count, "row")}` : counted(found.count, "row");
  return [
    el(
      "p",
      { class: "times" },
      el("b", {}, rows),
      ` · planned in ${duration(found.planned_ms)}, executed in ${duration(found.executed_ms)}`,
    ),
    found.columns.length
      ? cellTable({ caption: "Result", columns: found.columns, rows: found.rows })
      : hint("Done. The statement has no rows."),
    found.funnels.length ? el("h2", {}, "What was read") : null,
    found.funnels.map((one) => funnel(one, found)),
  ];
}

const STEPS = {
  snapshot: "files of the snapshot",
  partitions: "in partitions that may match",
  keys: "that may hold the keys",
  statistics: "whose statistics may match",
  read: "that are opened",
};

function funnel(one, found) {
  const files = one.steps.filter((step) => step.files !== null),
    most = Math.max(1, ...files.map((step) => step.files));
  const read = one.steps.at(-1);
  return el(
    "figure",
    { class: "funnel" },
    el(
      "figcaption",
      {},
      el("b", {}, one.table),
      one.snapshot ? ` at snapshot ${one.snapshot}` : "",
      one.where ? [", where ", el("code", {}, one.where)] : ", all rows",
    ),
    el(
      "table",
      {},
      el("caption", {}, `Files of ${one.table} that each step leaves`),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["Step", "Files", "Rows", "Share of the files"].map((text, place) =>
            el("th", { scope: "col", class: place === 1 || place === 2 ? "number" : null }, text),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        one.steps.map((step) =>
          el(
            "tr",
            { class: step.step === "read" ? "last" : null },
            el(
              "th",
              { scope: "row" },
              step.step,
              el("span", { class: "note" }, STEPS[step.step] ?? (step.step.startsWith("index") ? "whose indexes may match" : "")),
            ),
            el("td", { class: "number" }, step.files === null ? "–" : count(step.files)),
            el("td", { class: "number" }, step.rows === null ? "" : count(step.rows)),
            el("td", { class: "wide" }, !step.files ? null : rail(step.files, most)),
          ),
        ),
        found.funnels.length === 1
          ? el(
              "tr",
              { class: "last" },
              el("th", { scope: "row" }, "rows", el("span", { class: "note" }, "of the result")),
              el("td", { class: "number" }, ""),
              el("td", { class: "number" }, `${found.more ? "> " : ""}${count(found.count)}`),
              el("td", {}),
            )
          : null,
      ),
    ),
    read.bytes === undefined
      ? null
      : el(
          "p",
          { class: "note" },
          joined([
            `${bytes(read.bytes)} in the files that are read`,
            read.dead ? `${count(read.dead)} dead rows masked` : null,
            read.level0 ? `${count(read.level0)} rows at level 0 merged` : null,
          ]),
          one.columns ? `. Columns: ${one.columns.slice(0, COLUMNS_SHOWN).join(", ")}` : null,
          one.columns?.length > COLUMNS_SHOWN ? ` and ${one.columns.length - COLUMNS_SHOWN} more` : null,
          ".",
        ),
  );
}

function rail(part, whole) {
  const filled = el("span", { class: "filled" });
  filled.style.setProperty("width", `${(100 * part) / whole}%`);
  return el("span", { class: "rail", role: "img", "aria-label": share(part, whole) }, filled);
}
