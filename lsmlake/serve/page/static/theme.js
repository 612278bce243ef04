// Light, dark, or what the system says. The choice is kept in this browser.

import { el, put } from "./dom.js";

const KEY = "lsmlake.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

function stored() {
  try {
    const found = localStorage.getItem(KEY);
    return found in NEXT ? found : "system";
  } catch {
    return "system";
  }
}

/** The button that goes through the three choices. */
export function themeButton() {
  let theme = stored();
  const button = el("button", { type: "button", class: "quiet icon", on: { click: () => set(NEXT[theme]) } });
  function set(chosen) {
    theme = chosen;
    put(document.documentElement, "data-theme", chosen === "system" ? null : chosen);
    button.textContent = SIGNS[chosen];
    put(button, "aria-label", `Colours: ${chosen}. Change to ${NEXT[chosen]}.`);
    put(button, "title", `Colours: ${chosen}`);
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // the choice holds until the page is closed
    }
  }
  set(theme);
  return button;
}
