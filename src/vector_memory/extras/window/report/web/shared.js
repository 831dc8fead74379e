/* What the scripts of the pages of this package have in common. The report has them in one inline module. */

export const words = (name) => name.replaceAll("_", " ");
export const plain = (text) => text.replace(/\s+/gu, " ").trim();
export const cut = (text, length) => (text.length > length ? `${text.slice(0, length).trimEnd()}…` : text);

export const collator = new Intl.Collator("en", { numeric: true });

export const number = new Intl.NumberFormat("en");
export const count = (n, noun, nouns = `${noun}s`) => `${number.format(n)} ${n === 1 ? noun : nouns}`;
export const utc = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
const dayAndTime = utc({ day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
export const moment = (time) => dayAndTime.format(time);
const dayOfYear = utc({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
export const shortMoment = (time) => dayOfYear.format(time);

/* --- Words of a query --- */

/* The words and "phrases in quotes" of a query, in lower case; a memory is found if it has all of them. */
export function terms(query) {
  const found = query.toLowerCase().match(/"[^"]+"?|[^\s"]+/gu) ?? [];
  return found.map((term) => term.replaceAll('"', "")).filter((term) => term.trim());
}

/* A pattern for the query's terms, longest first, or null. */
export function finder(query) {
  const wanted = terms(query).sort((a, b) => b.length - a.length);
  if (!wanted.length) return null;
  return new RegExp(wanted.map((term) => term.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("|"), "giu");
}

export function pieces(text, pattern) {
  if (!pattern) return [[text, false]];
  const found = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    found.push([text.slice(end, match.index), false], [match[0], true]);
    end = match.index + match[0].length;
  }
  found.push([text.slice(end), false]);
  return found.filter(([piece]) => piece);
}

/* --- Signs --- */

export const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  (r) => polygon(r * 1.27, 4, Math.PI / 4),
  (r) => polygon(r * 1.35, 4, 0),
  (r) => polygon(r * 1.4, 3, -Math.PI / 2),
  (r) => polygon(r * 1.4, 3, Math.PI / 2),
  (r) => polygon(r * 1.15, 6, 0),
  (r) => polygon(r * 1.2, 5, -Math.PI / 2),
];

function polygon(r, corners, turn) {
  const corner = (at) => {
    const angle = turn + (2 * Math.PI * at) / corners;
    return `${(r * Math.cos(angle)).toFixed(2)} ${(r * Math.sin(angle)).toFixed(2)}`;
  };
  return `M${Array.from({ length: corners }, (_, at) => corner(at)).join("L")}Z`;
}

/* --- Rendered texts --- */

/* Lets what is wider than a text scroll on its own, with the keyboard, too. */
export function letScroll(text) {
  for (const wide of text.querySelectorAll("table")) {
    const around = document.createElement("div");
    around.className = "scroll";
    wide.replaceWith(around);
    around.append(wide);
  }
  for (const wide of text.querySelectorAll("pre, .scroll")) {
    if (wide.scrollWidth <= wide.clientWidth) continue;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "Wide text"]]) wide.setAttribute(name, value);
  }
}

export async function copyText(button, text) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { className: "unseen", value: text });
    button.after(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  button.textContent = done ? "Copied" : "Copying was blocked";
  setTimeout(() => (button.textContent = "Copy text"), 2000);
}

/* --- Theme --- */

/* Lets a button switch the theme: that of the system, until the other one is chosen. */
export function switchesTheme(button) {
  const root = document.documentElement;
  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (darkSystem.matches ? "dark" : "light")) === "dark";
  const name = () => (button.textContent = isDark() ? "Light theme" : "Dark theme");
  darkSystem.addEventListener("change", name);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  name();
}
