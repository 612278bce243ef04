// The place in the page, as the fragment of the address: #/table/sales.orders/tree?snapshot=12. The back button works by it.

/** The parts of the current address: `path` is a list of words, `asked` a map of parameters. */
export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const words = path.split("/").filter(Boolean).map(word);
  return { path: words, asked: Object.fromEntries(new URLSearchParams(query)) };
}

function word(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a place. Parameters that are null, undefined or "" are left out. */
export function addressOf(path, asked = {}) {
  const given = Object.entries(asked).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${query}`;
}

/** Goes to a place; the back button returns. */
export function go(path, asked) {
  location.hash = addressOf(path, asked);
}

/** Changes parameters of the current place. `replaces`: no step for the back button, as for a slider. */
export function ask(changes, { replaces = false } = {}) {
  const { path, asked } = place();
  const address = addressOf(path, { ...asked, ...changes });
  if (address === (location.hash || "#/")) return;
  if (replaces) history.replaceState(null, "", address);
  else location.hash = address;
}

/** `ask` for the view of the current place. It does nothing once another view is open: a late timer or event of a closed view
 * must not change the address of the next one. */
export function asker() {
  const own = JSON.stringify(place().path);
  return (changes, options) => (JSON.stringify(place().path) === own ? ask(changes, options) : undefined);
}
