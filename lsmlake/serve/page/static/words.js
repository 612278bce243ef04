// Numbers and times for people: three significant digits and a unit, local times with UTC as the title.

import { el } from "./dom.js";

const COUNTS = ["", "k", "M", "G", "T", "P"];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 9,999 in full, then 12.3 k, 4.56 M. */
export function count(number) {
  if (number === null || number === undefined) return "–";
  return Math.abs(number) < 9999.5 ? Math.round(number).toLocaleString("en-US") : scaled(number, 1000, COUNTS);
}

/** 512 B, 1.50 KiB, 23.4 MiB. */
export function bytes(number) {
  return number === null || number === undefined ? "–" : scaled(number, 1024, BYTES);
}

function scaled(number, base, units) {
  let [amount, power] = [number, 0];
  while (Math.abs(amount) >= 999.5 && power < units.length - 1) [amount, power] = [amount / base, power + 1];
  const digits = power === 0 || Math.abs(amount) >= 99.95 ? 0 : Math.abs(amount) >= 9.995 ? 1 : 2;
  return `${amount.toFixed(digits)} ${units[power]}`.trim();
}

/** 0 %, <1 %, 37 %, >99 %, 100 %. */
export function share(part, whole) {
  if (!part || !whole) return "0 %";
  const of = part / whole;
  if (of < 0.01) return "<1 %";
  return of > 0.99 && of < 1 ? ">99 %" : `${Math.round(of * 100)} %`;
}

/** 1 file, 2,000 files. */
export function counted(number, noun, plural = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}

/** The texts with a separator between them; null is left out. */
export function joined(texts, separator = ", ") {
  return texts.filter(Boolean).join(separator);
}

/** 3.4x, as of write amplification. */
export function times(number) {
  return number === null || number === undefined ? "–" : `${number < 9.95 ? number.toFixed(1) : Math.round(number)}×`;
}

/** 850 ms, 2.4 s, 3 min 20 s. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** The text of a time that lies `ms` back. */
function ago(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 5) return "just now";
  const steps = [
    ["s", 1, 60],
    ["min", 60, 3600],
    ["h", 3600, 86400 * 2],
    ["days", 86400, 86400 * 60],
    ["months", 86400 * 30.44, 86400 * 730],
    ["years", 86400 * 365.25, Infinity],
  ];
  const [unit, size] = steps.find(([, , most]) => seconds < most);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** The name of a writer. One that was drawn at random is cut; its title has all of it. */
export function writer(name) {
  if (name === null || name === undefined) return "–";
  return /^[0-9a-f]{32}$/.test(name) ? el("span", { title: name }, `${name.slice(0, 8)}…`) : name;
}

function two(number) {
  return String(number).padStart(2, "0");
}

/** 2026-01-31 12:00:00, in the zone of the browser. */
export function localTime(ms) {
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** 2026-01-31 12:00:00.123 UTC. */
function utcTime(ms) {
  return new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC");
}

/** A local time as an element; its title is the time in UTC. */
export function clock(ms) {
  return ms === null || ms === undefined
    ? "–"
    : el("time", { datetime: new Date(ms).toISOString(), title: utcTime(ms) }, localTime(ms));
}

/** "3 min ago" as an element that `refreshAges` keeps true; its title is the local time and UTC. */
export function age(ms) {
  if (ms === null || ms === undefined) return "–";
  const about = `${localTime(ms)} local time, ${utcTime(ms)}`;
  return el("time", { class: "age", datetime: new Date(ms).toISOString(), title: about, "data-ms": ms }, ago(Date.now() - ms));
}

/** Renews the texts of all `age` elements. */
export function refreshAges() {
  for (const node of document.querySelectorAll("time.age")) {
    const text = ago(Date.now() - Number(node.dataset.ms));
    if (node.textContent !== text) node.textContent = text;
  }
}
