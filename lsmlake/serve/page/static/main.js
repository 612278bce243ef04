// The frame of the page: the head, the place in the address, the token, and asking the server again every few seconds.

import { el, fill, put } from "./dom.js";
import { maintenanceView } from "./maintenance_view.js";
import { problem } from "./parts.js";
import { addressOf, place } from "./place.js";
import { get, isTokenWrong, keepToken, saved } from "./server.js";
import { sqlView } from "./sql_view.js";
import { tableView } from "./table_view.js";
import { tablesView } from "./tables_view.js";
import { themeButton } from "./theme.js";
import { age, localTime, refreshAges } from "./words.js";

const EVERY_MS = 4000,
  SOON_MS = 300,
  AGES_MS = 10000;
const LINKS = [
  ["", "Tables", "#/"],
  ["sql", "SQL", "#/sql"],
  ["maintenance", "Maintenance", "#/maintenance"],
];

const warehouse = el("span", { class: "warehouse" });
const live = el("span", { class: "live", role: "status" });
const links = el("nav", { class: "links", "aria-label": "Page" });
const trouble = el("div"),
  content = el("main", { id: "content", tabindex: "-1" });
let view = null,
  shown = "",
  waiting = 0,
  asking = null;

/** Opens the view of the current place; only tells it if it is open and the parameters have changed. */
function open() {
  const { path } = place();
  const name = JSON.stringify(path);
  if (view && name === shown) {
    Promise.resolve(view.moved?.()).catch(report);
    return;
  }
  view?.closed?.();
  shown = name;
  view = viewOf(path);
  put(content, "aria-busy", "true");
  fill(trouble);
  fill(content, view.node);
  document.title = `${view.title} – lsmlake`;
  fill(
    links,
    saved
      ? null
      : LINKS.map(([word, label, address]) =>
          el(
            "a",
            {
              href: address,
              "aria-current": (path[0] ?? "") === word || (word === "" && path[0] === "table") ? "page" : null,
              "data-key": `link ${word}`,
            },
            label,
          ),
        ),
  );
  window.scrollTo(0, 0);
  refresh();
}

function viewOf([first, second, third]) {
  if (saved) return tableView(saved.table, second === saved.table ? third : undefined);
  if (first === "sql") return sqlView();
  if (first === "maintenance") return maintenanceView();
  if (first === "table" && second) return tableView(second, third);
  return tablesView();
}

/** Asks the server again. One request at a time; none while the tab is hidden. */
async function refresh() {
  clearTimeout(waiting);
  const mine = (asking = {});
  try {
    await view.refresh();
    if (asking !== mine) return;
    put(content, "aria-busy", "false");
    fill(trouble);
    say("live", "Live: the page asks every few seconds");
  } catch (error) {
    if (asking !== mine) return;
    put(content, "aria-busy", "false");
    report(error);
  }
  if (!saved && !document.hidden) waiting = setTimeout(refresh, view.soon?.() ? SOON_MS : EVERY_MS);
}

function report(error) {
  if (error.status === 401) askForToken();
  else {
    fill(trouble, problem(error));
    if (!error.parts) console.error(error); // a fault of the page itself
  }
  say(error.status === 0 ? "offline" : "wrong", error.status === 0 ? "The server does not answer" : "The last request failed");
}

function say(kind, text) {
  if (saved) return;
  put(live, "class", `live ${kind}`);
  put(live, "title", text);
  if (live.dataset.text !== text) fill(live, el("span", { class: "hidden" }, text));
  live.dataset.text = text;
}

// -- the token

let dialog = null;

function askForToken() {
  if (dialog?.open) {
    if (isTokenWrong()) fill(dialog.querySelector(".why"), "The server refused this token: it is wrong or has expired.");
    return;
  }
  const input = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const why = el(
    "p",
    { class: "why", role: "alert" },
    isTokenWrong() ? "The server refused the token of this tab: it is wrong or has expired." : "",
  );
  const enter = (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    keepToken(input.value.trim());
    dialog.close();
    refreshWarehouse();
    refresh();
  };
  dialog = el(
    "dialog",
    { class: "token", "aria-label": "Token", on: { close: () => dialog.remove() } },
    el(
      "form",
      { on: { submit: enter } },
      el("h2", {}, "Token"),
      el(
        "p",
        {},
        "This server asks for a token: a line of the file that it was started with, --token-file. ",
        "This tab keeps it until it is closed.",
      ),
      why,
      el("label", { for: "token" }, "Token"),
      input,
      el("div", { class: "controls" }, el("button", { type: "submit", class: "main" }, "Use the token")),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}

// -- the frame

async function refreshWarehouse() {
  if (saved) {
    fill(warehouse, "saved ", age(saved.made_ms), ` at ${localTime(saved.made_ms)}, lsmlake ${saved.version}`);
    return;
  }
  try {
    const settings = await get("settings");
    fill(warehouse, settings.warehouse);
    put(warehouse, "title", `${settings.warehouse}, lsmlake ${settings.version}`);
  } catch {
    // the view reports the error
  }
}

document.body.append(
  el(
    "a",
    {
      class: "skip",
      href: "#content",
      on: {
        click: (event) => {
          event.preventDefault();
          content.focus();
        },
      },
    },
    "To the content",
  ),
  el(
    "header",
    { class: "top" },
    el("a", { class: "brand", href: saved ? addressOf([]) : "#/" }, "lsmlake"),
    links,
    warehouse,
    live,
    themeButton(),
  ),
  trouble,
  content,
);
window.addEventListener("hashchange", open);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(waiting) : refresh()));
setInterval(refreshAges, AGES_MS);
refreshWarehouse();
open();
