/* The list of selected memories, sorted, shown in parts. A text is rendered when it is opened. */

const AT_ONCE = 50;
const NEARBY = 200; // a memory further down the list is shown at the top when it is opened
const MOST_MARKS = 500;

const orders = {
  newest: (a, b) => b.created - a.created || b.id - a.id,
  oldest: (a, b) => a.created - b.created || a.id - b.id,
  longest: (a, b) => b.size - a.size,
  read: (a, b) => b.reads - a.reads,
};

const list = { found: [], shown: 0, pattern: null, opened: new Set() };

function drawList(found, pattern) {
  Object.assign(list, { found: found.toSorted(orders[byKey("order").value]), shown: 0, pattern });
  byKey("list").replaceChildren();
  if (!found.length) byKey("list").append(element("p", { class: "nothing" }, "No memory matches. Show all, or use fewer filters."));
  showUpTo(AT_ONCE);
}

function showUpTo(end) {
  const next = list.found.slice(list.shown, end).filter((memory) => !byKey(`m${memory.id}`));
  byKey("list").append(...next.map(article));
  list.shown = Math.min(list.found.length, Math.max(list.shown, end));
  for (const memory of next) if (list.opened.has(memory.id)) fill(memory);
  const rest = list.found.length - list.shown;
  byKey("more").hidden = rest === 0;
  byKey("more").textContent = `Show ${count(Math.min(AT_ONCE, rest), "more", "more")} of ${number.format(rest)}`;
}

function article(memory) {
  const opened = list.opened.has(memory.id);
  const title = element(
    "button",
    { type: "button", "aria-expanded": String(opened), "aria-controls": `body-${memory.id}`, onclick: () => toggle(memory) },
    glyph(memory.kind, colourOf(memory)),
    element("span", { dir: "auto" }, ...marked(pieces(cut(memory.name, 300), list.pattern))),
  );
  return element(
    "article",
    { id: `m${memory.id}`, class: "memory", "aria-labelledby": `title-${memory.id}`, onpointerenter: () => highlight(memory.id) },
    element("h3", { id: `title-${memory.id}` }, title),
    element("p", { class: "facts" }, ...factsOf(memory)),
    element("p", { class: "excerpt", dir: "auto", hidden: opened }, ...marked(excerpt(memory, list.pattern))),
    element("div", { id: `body-${memory.id}`, class: "body", hidden: !opened }),
  );
}

function factsOf(memory) {
  const parts = [words(memory.kind), memory.agent, memory.task, memory.iteration, moment(memory.created), count(memory.size, "character"), `#${memory.id}`];
  return parts.flatMap((part, at) => [at ? element("span", { "aria-hidden": "true", class: "dot" }, "·") : null, element("bdi", {}, part)]).filter(Boolean);
}

function toggle(memory, opened = !list.opened.has(memory.id)) {
  list.opened[opened ? "add" : "delete"](memory.id);
  const shown = byKey(`m${memory.id}`);
  if (!shown) return;
  shown.querySelector("h3 button").setAttribute("aria-expanded", String(opened));
  shown.querySelector(".excerpt").hidden = opened;
  const body = byKey(`body-${memory.id}`);
  body.hidden = !opened;
  if (opened) fill(memory);
  else body.replaceChildren();
}

function fill(memory) {
  const text = element("div", { class: "text", dir: "auto" });
  const source = element("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "As stored");
  source.addEventListener("click", () => {
    const raw = source.getAttribute("aria-pressed") !== "true";
    source.setAttribute("aria-pressed", String(raw));
    write(text, memory, raw);
  });
  const copy = element("button", { type: "button", class: "quiet" }, "Copy text");
  copy.addEventListener("click", () => copyText(copy, memory.text));
  const link = element("a", { href: `#m${memory.id}` }, "Link");
  const tools = memory.text === null ? [link] : [source, copy, link];
  byKey(`body-${memory.id}`).replaceChildren(element("div", { class: "tools" }, ...tools), more(memory), text, related(memory));
  write(text, memory, false);
}

/* The only place that parses HTML: Python's rendering of a text, which contains no tag of the text itself. */
function write(text, memory, raw) {
  if (session.is_live) text.replaceChildren(element("a", { href: `../#/memory/${memory.id}`, target: "_blank" }, "Read it on the page of the memory"));
  else if (memory.text === null) text.replaceChildren(element("p", { class: "notice" }, `This text is not in the page, which would become too large: run vector-memory show ${memory.id}.`));
  else if (raw) text.replaceChildren(element("pre", { class: "raw" }, memory.text));
  else text.innerHTML = memory.html;
  letScroll(text);
  if (list.pattern) markIn(text, list.pattern);
}

/* Highlights the search terms in each text node. */
function markIn(root, pattern) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  let marks = 0;
  for (const node of texts) {
    const parts = pieces(node.data, pattern);
    const hits = parts.filter(([, hit]) => hit).length;
    if (!hits) continue;
    node.replaceWith(...marked(parts));
    marks += hits;
    if (marks > MOST_MARKS) return;
  }
}

function more(memory) {
  const rows = [];
  if (memory.description) rows.push(["Description", memory.description]);
  if (memory.tags.length) rows.push(["Tags", memory.tags.join(", ")]);
  for (const [key, value] of Object.entries(memory.metadata)) {
    const target = key === "parent_report_id" ? byId.get(Number(value)) : undefined;
    rows.push([words(key), target ? reference(target) : typeof value === "string" ? value : JSON.stringify(value)]);
  }
  rows.push(["Chunks", number.format(memory.chunks)], ["Read", count(memory.reads, "time")]);
  const pairs = rows.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", { dir: "auto" }, value)));
  return element("dl", { class: "more" }, ...pairs);
}

const reference = (memory) => element("a", { href: `#m${memory.id}`, dir: "auto" }, cut(memory.name, 90));

function related(memory) {
  const near = memory.near.map(([id, cosine]) => [byId.get(id), cosine]).filter(([other]) => other);
  if (!near.length) return null;
  const items = near.map(([other, cosine]) => element("li", {}, reference(other), element("span", { class: "cosine" }, ` ${cosine.toFixed(2)}`)));
  return element("div", { class: "related" }, element("h4", {}, "Nearest in meaning"), element("ul", {}, ...items));
}

/* Shows a memory and scrolls to it, clearing filters if necessary. */
function open(id) {
  const memory = byId.get(id);
  if (!memory) return;
  if (!list.found.includes(memory)) reset();
  const end = list.found.indexOf(memory) + 1;
  if (end <= list.shown + NEARBY) showUpTo(Math.max(list.shown, end));
  else if (!byKey(`m${id}`)) byKey("list").prepend(article(memory));
  toggle(memory, true);
  hideTip();
  if (location.hash !== `#m${id}`) history.pushState(null, "", `#m${id}`);
  const shown = byKey(`m${id}`);
  shown.scrollIntoView({ block: "start" });
  shown.querySelector("h3 button").focus({ preventScroll: true });
  highlight(id);
}
