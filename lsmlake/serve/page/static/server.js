// Asks the server, or the data inside a page that was saved as one file. The token is kept for this tab only.

const TOKEN = "lsmlake.token";
const LONGEST_MS = 60000;

/** An error of the server: what happened, where, expected, found and what to do. `status` 0: it did not answer. */
class ServerError extends Error {
  constructor(status, parts) {
    super(parts.message ?? parts.what ?? "the request failed");
    Object.assign(this, { status, parts });
  }
}

const embedded = document.getElementById("data");
/** The data of a saved page; null: there is a server. */
export const saved = embedded ? JSON.parse(embedded.textContent) : null;
const known = new Map();
let wrong = false;

/** The token of this tab; "" without one. */
export function token() {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a token for this tab. */
export function keepToken(text) {
  wrong = false;
  sessionStorage.setItem(TOKEN, text);
}

/** Whether the server refused the token that this tab has. */
export function isTokenWrong() {
  return wrong;
}

/** The address of a request, which is also the name of its data in a saved page. */
function addressFor(path, asked = {}) {
  const given = Object.entries(asked).filter(([, value]) => value !== null && value !== undefined);
  given.sort(([one], [other]) => (one < other ? -1 : 1));
  return given.length
    ? `/api/${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
    : `/api/${path}`;
}

/** The data at an address. With `again` the answer to a request that is repeated: the same object if nothing has changed. */
export async function get(path, asked = {}, { signal } = {}) {
  const address = addressFor(path, asked);
  if (saved) return fromSaved(address);
  const before = known.get(address);
  const answer = await send(address, { headers: before ? { "If-None-Match": before.tag } : {}, signal });
  if (answer.status === 304 && before) return before.data;
  const data = await answer.json();
  const tag = answer.headers.get("ETag");
  if (tag) {
    known.delete(address);
    known.set(address, { tag, data });
    if (known.size > 200) known.delete(known.keys().next().value);
  }
  return data;
}

function fromSaved(address) {
  if (address in saved.answers) return saved.answers[address];
  const what = "this page was saved without these data";
  throw new ServerError(404, { what, message: what, cure: "save the page again, or open the table with `lsmlake serve`" });
}

/** The answer to a request with a JSON body. */
export async function post(path, body, { signal } = {}) {
  const headers = { "Content-Type": "application/json" };
  return (await send(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

async function send(address, { headers, ...options }) {
  const bearer = token();
  let answer;
  try {
    answer = await fetch(address, {
      ...options,
      headers: { Accept: "application/json", ...headers, ...(bearer ? { Authorization: `Bearer ${bearer}` } : {}) },
      cache: "no-store",
      redirect: "error",
      signal: options.signal ?? AbortSignal.timeout(LONGEST_MS),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const what = error.name === "TimeoutError" ? "the server did not answer in time" : "the server does not answer";
    throw new ServerError(0, { what, message: what, cure: "check that `lsmlake serve` runs; the page asks again by itself" });
  }
  if (answer.ok || answer.status === 304) return answer;
  wrong = answer.status === 401 && bearer !== "";
  throw new ServerError(answer.status, await reason(answer));
}

async function reason(answer) {
  try {
    const { error } = await answer.json();
    return { what: error.message, ...error };
  } catch {
    const what = `the server answered with status ${answer.status}`;
    return { what, message: what, cure: "look into the log of the server" };
  }
}
