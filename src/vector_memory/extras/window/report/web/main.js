/* The controls and their effects. */

const selects = { agent: "All agents", task: "All tasks", kind: "All kinds", iteration: "All iterations" };

for (const [field, all] of Object.entries(selects)) {
  const found = values(field);
  if (field === "iteration") found.sort(([a], [b]) => collator.compare(a, b));
  byKey(field).append(
    element("option", { value: "" }, all),
    ...found.map(([value, n]) => element("option", { value }, `${cut(words(value), 60)} (${number.format(n)})`)),
  );
}

/* --- Drawing -------------------------------------------------------------------------------------------------------- */

function draw() {
  const found = chosen();
  for (const chart of charts) chart.draw(found);
  byKey("several").hidden = !charts.some((chart) => chart.isJoined);
  drawGrowth(byKey("growth"), found);
  drawLegend();
  drawShares(found);
  drawTables(found);
  drawList(found, finder(choice.query));
  const part = found.length < memories.length;
  byKey("count").textContent = part ? `${number.format(found.length)} of ${count(memories.length, "memory", "memories")}` : `All ${count(memories.length, "memory", "memories")}`;
  byKey("show-all").hidden = !Object.values(choice).some((value) => value !== "" && value !== null);
}

const millions = new Intl.NumberFormat("en", { notation: "compact", minimumSignificantDigits: 3, maximumSignificantDigits: 3 });

function drawFigures() {
  const sum = (value) => memories.reduce((total, memory) => total + value(memory), 0);
  const figures = [
    ["Memories", memories.length],
    ["Characters", sum((memory) => memory.size)],
    ["Chunks", sum((memory) => memory.chunks)],
    ["Agents", ranks.agent.size],
    ["Tasks", ranks.task.size - ranks.task.has(NO_TASK)],
    ["Iterations", ranks.iteration.size],
  ];
  byKey("figures").replaceChildren(
    ...figures.map(([name, n]) => element("div", {}, element("dt", {}, name), element("dd", { title: number.format(n) }, n < 1e6 ? number.format(n) : millions.format(n)))),
  );
  byKey("summary").prepend(`${moment(extent[0])} to ${moment(extent[1])} (UTC). `);
  const missing = memories.filter((memory) => memory.text === null).length;
  const notes = [
    session.total > memories.length && `This page shows the newest ${number.format(memories.length)} of ${count(session.total, "memory", "memories")}.`,
    !session.is_live && missing && `The texts of the ${count(missing, "oldest memory", "oldest memories")} are not in this page, which would become too large, and are not searched.`,
  ].filter(Boolean);
  if (session.is_live) byKey("query-label").textContent = "Search the titles";
  byKey("left-out").textContent = notes.join(" ");
  byKey("left-out").hidden = !notes.length;
  byKey("share").textContent = located.length
    ? `The map shows ${Math.round(100 * session.share)} % of their differences, so neighbours on it may be unrelated. Each memory's nearest neighbours are listed below its text.`
    : "There are no vectors yet: run vector-memory backfill.";
}

function drawLegend() {
  const named = values(view.colour).slice(0, MAX_COLOURS);
  const others = ranks[view.colour].size - named.length;
  const items = named.map(([value]) => [view.colour === "kind" ? value : null, `c${slot(view.colour, value)}`, words(value)]);
  if (others > 0) items.push([null, `c${MAX_COLOURS}`, count(others, "other")]);
  if (view.colour !== "kind") items.push(...values("kind").map(([kind]) => [kind, "shape", words(kind)]));
  byKey("legend").replaceChildren(...items.map(([kind, colour, name]) => element("li", {}, glyph(kind, colour), ` ${cut(name, 40)}`)));
}

const MOST_ROWS = 25;

function drawShares(found) {
  const rows = new Map();
  for (const memory of found) {
    const row = rows.get(memory[view.group]) ?? { memories: 0, characters: 0, colours: new Map(), first: memory.created };
    row.memories += 1;
    row.characters += memory.size;
    row.last = memory.created;
    row.colours.set(slot(view.colour, memory[view.colour]), (row.colours.get(slot(view.colour, memory[view.colour])) ?? 0) + 1);
    rows.set(memory[view.group], row);
  }
  const sorted = [...rows].sort(([a, m], [b, n]) => n.memories - m.memories || collator.compare(a, b));
  const most = sorted[0]?.[1].memories ?? 1;
  const shown = sorted.slice(0, MOST_ROWS).map(([name, row]) => [
    element("span", { dir: "auto" }, words(name), bar(row, most)),
    number.format(row.memories),
    number.format(row.characters),
    `${shortMoment(row.first)} – ${shortMoment(row.last)}`,
  ]);
  const made = table(`Memories by ${view.group}`, [view.group, "Memories", "Characters", "From – until (UTC)"], shown);
  made.querySelector("caption").classList.add("unseen");
  byKey("shares").replaceChildren(made);
  const left = sorted.length - shown.length;
  byKey("shares-hint").textContent = `Selected memories by ${view.group}${left > 0 ? `; ${count(left, "smaller row")} not shown` : ""}.`;
}

function bar(row, most) {
  const svg = element("svg:svg", { class: "bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
  let start = 0;
  for (const [colour, n] of [...row.colours].sort(([a], [b]) => a - b)) {
    const width = (100 * n) / most;
    svg.append(element("svg:rect", { class: `c${colour}`, x: start, width: Math.max(0.4, width - 0.4), height: 4 }));
    start += width;
  }
  return svg;
}

const MOST_TABLE = 500;

/* The charts as tables, built when they are opened. */
function drawTables(found) {
  const whenOpen = (id, make) => {
    const place = byKey(id);
    const details = place.parentElement;
    const fillIt = () => details.open && place.replaceChildren(make());
    details.ontoggle = fillIt;
    fillIt();
  };
  whenOpen("growth-table", () => {
    const days = new Map();
    let [n, size] = [0, 0];
    for (const memory of found) days.set(new Date(memory.created).toISOString().slice(0, 13), [++n, (size += memory.size)]);
    const rows = [...days].slice(-MOST_TABLE).map(([hour, sums]) => [`${hour.replace("T", " ")}:59`, ...sums.map((sum) => number.format(sum))]);
    return table("Total stored by the end of each hour (UTC)", ["Until", "Memories", "Characters"], rows);
  });
  whenOpen("map-table", () => {
    const rows = found
      .filter((memory) => memory.point)
      .slice(-MOST_TABLE)
      .map((memory) => {
        const near = byId.get(memory.near[0]?.[0]);
        return [reference(memory), memory.point.map((part) => part.toFixed(2)).join(", "), near ? reference(near) : "", memory.near[0]?.[1].toFixed(2) ?? ""];
      });
    return table(`Positions on the map (up to ${MOST_TABLE}, latest)`, ["Memory", "Across, up", "Nearest", "Cosine"], rows);
  });
}

/* --- Controls --------------------------------------------------------------------------------------------------------- */

const asInput = (time) => (time === null ? "" : new Date(time).toISOString().slice(0, 19));
const asTime = (text) => (text ? Date.parse(`${text}Z`) : null);

function choosePeriod(from, until) {
  Object.assign(choice, { from: from && Math.floor(from / 1000) * 1000, until: until && Math.ceil(until / 1000) * 1000 });
  byKey("from").value = asInput(choice.from);
  byKey("until").value = asInput(choice.until);
  draw();
}

function readFilters() {
  for (const name of ["query", ...fields]) choice[name] = byKey(name).value;
  choice.from = asTime(byKey("from").value);
  choice.until = asTime(byKey("until").value);
  if (choice.from !== null && choice.until !== null && choice.from > choice.until) [choice.from, choice.until] = [choice.until, choice.from];
  draw();
}

function reset() {
  byKey("filters").reset();
}

let waiting = 0;
byKey("filters").addEventListener("input", (event) => {
  clearTimeout(waiting);
  waiting = setTimeout(readFilters, event.target.id === "query" ? 150 : 0);
});
byKey("filters").addEventListener("submit", (event) => event.preventDefault());
byKey("filters").addEventListener("reset", () => {
  Object.assign(choice, { query: "", from: null, until: null, agent: "", task: "", kind: "", iteration: "" });
  draw();
});

for (const name of ["group", "colour", "measure"]) {
  byKey(name).addEventListener("change", (event) => {
    view[name] = event.target.value;
    draw();
  });
}
byKey("order").addEventListener("change", () => drawList(chosen(), list.pattern));
byKey("more").addEventListener("click", () => {
  const first = list.found[list.shown];
  showUpTo(list.shown + AT_ONCE);
  byKey(`m${first.id}`).querySelector("button").focus(); // where the reader continues
});

byKey("open-all").addEventListener("click", (event) => {
  const opening = event.target.textContent === "Open all";
  for (const memory of list.found.slice(0, list.shown)) toggle(memory, opening);
  event.target.textContent = opening ? "Close all" : "Open all";
});

function openLinked() {
  const id = Number(/^#m(\d+)$/u.exec(location.hash)?.[1]);
  if (id) open(id);
}
addEventListener("hashchange", openLinked);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#m"]');
  if (link && link.hash === location.hash) openLinked();
});
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", hideTip, { passive: true });

let width = 0;
new ResizeObserver(([entry]) => {
  if (Math.round(entry.contentRect.width) === width) return;
  width = Math.round(entry.contentRect.width);
  const found = chosen();
  for (const chart of charts) chart.draw(found);
  drawGrowth(byKey("growth"), found);
}).observe(document.querySelector("main"));

switchesTheme(byKey("theme"));
drawFigures();
draw();
openLinked();
