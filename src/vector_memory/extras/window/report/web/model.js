/* The page's data and the current selection. This part only reads the document. */

const session = JSON.parse(document.getElementById("data").textContent);
document.getElementById("data").remove();

const memories = session.memories;
const byId = new Map(memories.map((memory) => [memory.id, memory]));
const NO_TASK = "without a task";
const MAX_COLOURS = 7;

/* What the page of a selection leaves out: its texts are on the live page. */
const LEFT_OUT = { text: null, html: null, description: null, tags: [], metadata: {}, near: [] };

for (const memory of memories) {
  for (const [name, value] of Object.entries(LEFT_OUT)) memory[name] ??= value;
  memory.task ??= NO_TASK;
  memory.iteration = `v${memory.iteration}`;
  memory.name = plain(memory.title ?? "") || opening(memory);
}

/* The first meaningful line replaces a missing title. */
function opening(memory) {
  const line = (memory.text ?? "").slice(0, 2000).split("\n").find((each) => /[\p{L}\p{N}]/u.test(each)) ?? "";
  return cut(plain(line.replace(/^[#>*\-\s]+/u, "")), 120) || `Memory ${memory.id}`;
}

/* The values of a field and their numbers of memories, most frequent first. */
function values(field, among = memories) {
  const counts = new Map();
  for (const memory of among) counts.set(memory[field], (counts.get(memory[field]) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || collator.compare(a, b));
}

const fields = ["agent", "task", "kind", "iteration"];
const ranks = Object.fromEntries(fields.map((field) => [field, new Map(values(field).map(([value], at) => [value, at]))]));

/* Colours belong to the most frequent values; all others share one. They do not change with the filters. */
function slot(field, value) {
  const rank = ranks[field].get(value);
  return rank < MAX_COLOURS ? rank : MAX_COLOURS;
}

/* --- Selection --------------------------------------------------------------------------------------------------- */

const choice = { query: "", from: null, until: null, agent: "", task: "", kind: "", iteration: "" };

function searched(memory) {
  memory.searched ??= [memory.name, memory.description, memory.tags.join(" "), memory.agent, memory.task, memory.text]
    .filter(Boolean)
    .join("\n")
    .toLowerCase();
  return memory.searched;
}

function chosen() {
  const wanted = terms(choice.query);
  return memories.filter(
    (memory) =>
      fields.every((field) => choice[field] === "" || memory[field] === choice[field]) &&
      (choice.from === null || memory.created >= choice.from) &&
      (choice.until === null || memory.created <= choice.until) &&
      wanted.every((term) => searched(memory).includes(term)),
  );
}

/* A text as it is read, in one line: without Markdown, and without the beginning that is the name. The parsed document
   is never shown, and loads nothing. */
function legible(memory) {
  if (memory.legible !== undefined) return memory.legible;
  const body = new DOMParser().parseFromString(memory.html ?? "", "text/html").body;
  const name = memory.name.replace(/[`*_]/gu, "");
  const first = body.firstElementChild;
  if (first && /^H\d$/u.test(first.tagName) && plain(first.textContent) === name) first.remove();
  const text = plain(body.textContent);
  return (memory.legible = text.startsWith(name) ? text.slice(name.length).trim() : text);
}

/* The part of a text around the first match, as pieces: [text, is a match]. */
function excerpt(memory, pattern, length = 240) {
  const text = legible(memory);
  const first = pattern ? text.search(pattern) : -1;
  const start = first > 80 ? text.slice(0, first - 60).lastIndexOf(" ") + 1 : 0;
  const shown = plain(text.slice(start, start + 2 * length));
  return pieces((start ? "… " : "") + cut(shown, length), pattern);
}

/* --- Creating elements -------------------------------------------------------------------------------------------- */

/* An element with attributes and children. Texts become text nodes, so that stored text is never parsed as HTML. */
function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const byKey = (id) => document.getElementById(id);
const marked = (parts) => parts.map(([text, hit]) => (hit ? element("mark", {}, text) : text));

function table(caption, headings, rows) {
  const head = element("tr", {}, ...headings.map((heading) => element("th", { scope: "col" }, heading)));
  const body = rows.map(([first, ...others]) =>
    element("tr", {}, element("th", { scope: "row" }, first), ...others.map((cell) => element("td", {}, cell))),
  );
  return element(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)),
  );
}
