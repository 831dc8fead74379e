/* The timeline, the growth chart below it, and the map: SVG, redrawn whenever the selection or the width changes. */

const shapeOf = (kind, r) => SHAPES[slot("kind", kind) % SHAPES.length](r);
const radius = () => (memories.length < 300 ? 5 : memories.length < 1500 ? 4 : 3);
const cellOf = () => 2 * radius() + 1;
const view = { group: "agent", colour: "kind", measure: "memories", current: null };
const colourOf = (memory) => `c${slot(view.colour, memory[view.colour])}`;

/* A small icon of a kind's shape, next to its name. */
function glyph(kind, colour) {
  return element(
    "svg:svg",
    { class: "glyph", width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" },
    element("svg:path", { class: colour, d: kind === null ? SHAPES[0](5) : shapeOf(kind, 5) }),
  );
}

const label = ({ memory, several }) => `${memory.name}. ${words(memory.kind)} by ${memory.agent}, ${moment(memory.created)}${several > 1 ? `, and ${count(several - 1, "other")} here` : ""}`;

const MOST_MARKS_DRAWN = 4000; // with more a browser becomes slow

/* Marks of which those in the same place are one, if there are too many; `several`: of how many memories it is. */
function joined(marks) {
  if (marks.length <= MOST_MARKS_DRAWN) return marks;
  for (let cell = cellOf(); ; cell += cellOf()) {
    const cells = new Map();
    for (const mark of marks) {
      const key = `${Math.round(mark.x / cell)} ${Math.round(mark.y / cell)} ${Boolean(mark.out)}`;
      const first = cells.get(key);
      if (first) first.several += 1;
      else cells.set(key, { ...mark, several: 1 });
    }
    if (cells.size <= MOST_MARKS_DRAWN) return [...cells.values()];
  }
}

/* --- A chart of marks that can be used with a pointer and the keyboard ----------------------------------------------- */

const REACH = 24; // pixels from a mark within which it is selected

class MarkChart {
  /* `layout(width, chosen)` returns { height, marks: [{ memory, x, y, out }], backdrop: [elements] }, in order of time.
     `inTime`: left and right mean earlier and later. */
  constructor(host, title, layout, { inTime = false } = {}) {
    Object.assign(this, { host, title, layout, inTime, marks: [], shapes: new Map(), active: null });
    host.addEventListener("pointermove", (event) => this.point(event));
    host.addEventListener("pointerleave", () => this.activate(null));
    host.addEventListener("click", () => this.active && open(this.active.memory.id));
    host.addEventListener("keydown", (event) => this.walk(event));
    host.addEventListener("focusin", () => this.active || this.activate(this.first()));
    host.addEventListener("focusout", () => this.activate(null));
  }

  draw(chosen) {
    const width = this.host.clientWidth;
    if (!width) return;
    const focused = this.host.contains(document.activeElement);
    const { height, marks: all, backdrop } = this.layout(width, chosen);
    const marks = joined(all);
    this.isJoined = marks.length < all.length;
    this.marks = marks.filter((mark) => !mark.out);
    this.shapes.clear();
    const ring = element("svg:circle", { class: "ring", r: radius() + 4, visibility: "hidden" });
    const svg = element(
      "svg:svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: this.marks.length ? "listbox" : "img",
        tabindex: this.marks.length ? 0 : false,
        "aria-label": `${this.title}: ${count(chosen.length, "memory", "memories")}. Use the arrow keys to move, Enter to open.`,
      },
      element("svg:g", { "aria-hidden": "true" }, ...backdrop, ring),
    );
    const byState = marks.toSorted((a, b) => Boolean(b.out) - Boolean(a.out));
    svg.append(...byState.map((mark) => this.shape(mark)));
    Object.assign(this, { svg, ring });
    this.host.replaceChildren(svg);
    this.highlight();
    if (focused) svg.focus();
  }

  shape(mark) {
    const { memory, x, y, out } = mark;
    const place = { d: shapeOf(memory.kind, radius() * (1 + Math.log10(mark.several ?? 1) / 2)), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` };
    if (out) return element("svg:path", { ...place, class: `mark out ${colourOf(memory)}`, "aria-hidden": "true" });
    const names = { id: `${this.host.id}-${memory.id}`, role: "option", "aria-label": label(mark), "aria-selected": "false" };
    const made = element("svg:path", { ...place, ...names, class: `mark ${colourOf(memory)}` });
    this.shapes.set(memory.id, { mark, made });
    return made;
  }

  first() {
    return this.marks.find((mark) => mark.memory.id === view.current) ?? this.marks[0] ?? null;
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const distance = (mark) => Math.hypot(mark.x - x, mark.y - y);
    const nearest = this.marks.reduce((best, mark) => (!best || distance(mark) < distance(best) ? mark : best), null);
    const meant = nearest && distance(nearest) <= REACH ? nearest : null;
    this.host.classList.toggle("pointing", meant !== null);
    if (meant !== this.active) this.activate(meant);
  }

  walk(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Escape") return hideTip();
    if ((event.key === "Enter" || event.key === " ") && this.active) open(this.active.memory.id);
    else if (event.key === "Home") this.activate(this.marks[0] ?? null);
    else if (event.key === "End") this.activate(this.marks.at(-1) ?? null);
    else if (ways[event.key]) this.activate(this.next(...ways[event.key]) ?? this.active);
    else return undefined;
    return event.preventDefault();
  }

  /* In a row, the next mark in time; otherwise the nearest mark in that direction, counting sideways distance twice. */
  next(dx, dy) {
    const from = this.active ?? this.first();
    if (this.inTime && dx) return this.marks[this.marks.indexOf(from) + dx];
    let best = null;
    let least = Infinity;
    for (const mark of this.marks) {
      const [along, aside] = [
        (mark.x - from.x) * dx + (mark.y - from.y) * dy,
        Math.abs((mark.x - from.x) * dy) + Math.abs((mark.y - from.y) * dx),
      ];
      const cost = along + 2 * aside;
      if (along > 0.01 && cost < least) [best, least] = [mark, cost];
    }
    return best;
  }

  activate(mark) {
    this.shapes.get(this.active?.memory.id)?.made.setAttribute("aria-selected", "false");
    this.active = mark;
    const made = this.shapes.get(mark?.memory.id)?.made;
    made?.setAttribute("aria-selected", "true");
    if (made) this.svg.setAttribute("aria-activedescendant", made.id);
    else this.svg?.removeAttribute("aria-activedescendant");
    highlight(mark?.memory.id ?? null);
    if (mark) showTip(mark.memory, this.svg.getBoundingClientRect(), mark);
    else hideTip();
  }

  highlight() {
    const found = this.shapes.get(view.current)?.mark;
    this.ring?.setAttribute("visibility", found ? "visible" : "hidden");
    if (found) {
      this.ring.setAttribute("cx", found.x);
      this.ring.setAttribute("cy", found.y);
    }
  }
}

/* Rings the same memory in every chart. */
function highlight(id) {
  view.current = id;
  for (const chart of charts) chart.highlight();
}

function showTip(memory, box, mark) {
  const tip = byKey("tip");
  const lines = [
    element("strong", { dir: "auto" }, cut(memory.name, 120)),
    element("span", { class: "tip-facts" }, glyph(memory.kind, colourOf(memory)), ` ${facts(memory)}`),
    element("span", { dir: "auto" }, cut(plain((memory.text ?? "").slice(0, 400)), 160)),
  ];
  if (mark.several > 1) lines.push(element("span", {}, `and ${count(mark.several - 1, "other")} here`));
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const [x, y] = [box.left + mark.x, box.top + mark.y];
  const left = Math.min(Math.max(8, x - tip.offsetWidth / 2), document.documentElement.clientWidth - tip.offsetWidth - 8);
  const above = y - tip.offsetHeight - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : y + 14}px`;
}

function hideTip() {
  byKey("tip").hidden = true;
}

const facts = (memory) => [words(memory.kind), memory.agent, memory.task, memory.iteration, moment(memory.created)].join(" · ");

/* --- Time --------------------------------------------------------------------------------------------------------- */

const [SECOND, MINUTE, HOUR, DAY] = [1e3, 6e4, 36e5, 864e5];
const STEPS = [
  ...[1, 5, 20, 50, 100, 200, 500],
  ...[1, 5, 15, 30].map((n) => n * SECOND),
  ...[1, 5, 15, 30].map((n) => n * MINUTE),
  ...[1, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 28, 91, 182, 364, 1820].map((n) => n * DAY),
];
const TICK_ROOM = 84;
const [clock, exactClock, finestClock] = [
  utc({ hour: "2-digit", minute: "2-digit" }),
  utc({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  utc({ minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 }),
];
const [shortDay, year] = [utc({ day: "numeric", month: "short" }), utc({ year: "numeric" })];

const extent = [memories[0].created, memories.at(-1).created];

/* The visible period: the selected one, or all of it, with a margin on both sides. */
function period() {
  return withMargin(choice.from ?? extent[0], choice.until ?? extent[1]);
}

/* Also a session of seconds fills its axis. */
function withMargin(start, end) {
  const room = end > start ? (end - start) * 0.02 : 30 * SECOND;
  return [start - room, end + room];
}

const scale = ([start, end], [left, right]) => (time) => left + ((time - start) / (end - start)) * (right - left);

/* Tick labels of two lines: the second, a day or a year, only where it changes. */
function timeAxis(domain, range, top, bottom) {
  const most = Math.max(2, Math.floor((range[1] - range[0]) / TICK_ROOM));
  const step = STEPS.find((each) => (domain[1] - domain[0]) / each <= most) ?? STEPS.at(-1);
  const exact = step < SECOND ? finestClock : exactClock;
  const [fine, coarse] = step < DAY ? [step < MINUTE ? exact : clock, shortDay] : [shortDay, year];
  const x = scale(domain, range);
  const drawn = [];
  let before = "";
  for (let time = Math.ceil(domain[0] / step) * step; time <= domain[1]; time += step) {
    const second = coarse.format(time);
    const place = { x: x(time).toFixed(1), "text-anchor": "middle" };
    drawn.push(element("svg:line", { class: "grid", x1: place.x, x2: place.x, y1: top, y2: bottom }));
    drawn.push(element("svg:text", { ...place, class: "tick", y: bottom + 16 }, fine.format(time)));
    if (second !== before) drawn.push(element("svg:text", { ...place, class: "tick strong", y: bottom + 31 }, second));
    before = second;
  }
  return drawn;
}

/* --- The timeline --------------------------------------------------------------------------------------------------- */

const [MOST_LANES, LEAST_LANE, HIGHEST_LANE, AXIS] = [14, 26, 92, 38];

function lanes(chosen) {
  const names = values(view.group, chosen).map(([name]) => name);
  if (view.group === "iteration") names.sort(collator.compare);
  const shown = names.length > MOST_LANES ? names.slice(0, MOST_LANES - 1) : names;
  const at = new Map(names.map((name, index) => [name, Math.min(index, shown.length)]));
  const labels = names.length > shown.length ? [...shown, count(names.length - shown.length, "other")] : shown;
  return { labels, at };
}

function timelineLayout(width, chosen) {
  const { labels, at } = lanes(chosen);
  const aside = width >= 640;
  const gutter = aside ? 172 : 0;
  const range = [gutter + radius() + 4, width - radius() - 4];
  const domain = period();
  const x = scale(domain, range);
  const cell = cellOf();
  const inside = new Set(chosen);
  const visible = memories.filter(
    (memory) => at.has(memory[view.group]) && memory.created >= domain[0] && memory.created <= domain[1],
  );
  const stacks = labels.map(() => new Map());
  const marks = visible.map((memory) => {
    const lane = at.get(memory[view.group]);
    const column = Math.round(x(memory.created) / cell);
    const level = stacks[lane].get(column) ?? 0;
    stacks[lane].set(column, level + 1);
    return { memory, lane, level, x: column * cell, out: !inside.has(memory) };
  });
  const heading = aside ? 0 : 20;
  const heights = stacks.map((stack) =>
    heading + Math.min(HIGHEST_LANE, Math.max(LEAST_LANE, Math.max(0, ...stack.values()) * cell + 8)),
  );
  const tops = heights.map((_, lane) => heights.slice(0, lane).reduce((sum, height) => sum + height, 0));
  const bottom = tops.at(-1) + heights.at(-1) || LEAST_LANE;
  for (const mark of marks) {
    const room = Math.floor((heights[mark.lane] - heading - 8) / cell) || 1;
    const level = mark.level % room;
    const offset = (level % 2 ? 1 : -1) * Math.ceil(level / 2) * cell;
    mark.y = tops[mark.lane] + heading + (heights[mark.lane] - heading) / 2 + offset + (room % 2 ? 0 : -cell / 2);
  }
  const backdrop = [...timeAxis(domain, range, 0, bottom)];
  labels.forEach((name, lane) => {
    backdrop.push(element("svg:line", { class: "lane", x1: 0, x2: width, y1: tops[lane] + heights[lane], y2: tops[lane] + heights[lane] }));
    const y = aside ? tops[lane] + heights[lane] / 2 + 4 : tops[lane] + 15;
    backdrop.push(element("svg:text", { class: "lane-name", x: 0, y }, cut(words(name), aside ? 24 : 44)));
  });
  return { height: bottom + AXIS, marks, backdrop };
}

/* --- Growth --------------------------------------------------------------------------------------------------------- */

const GROWTH = { height: 64, top: 16 };

const weight = (memory) => (view.measure === "memories" ? 1 : memory.size);

/* Steps of a running sum over time, from the first memory to the last. */
function running(among) {
  let sum = 0;
  return among.map((memory) => [memory.created, (sum += weight(memory))]);
}

function drawGrowth(host, chosen) {
  const width = host.clientWidth;
  if (!width) return;
  const gutter = width >= 640 ? 172 : 0;
  const range = [gutter + radius() + 4, width - radius() - 4];
  const domain = withMargin(...extent);
  const [x, all] = [scale(domain, range), running(memories)];
  const total = all.at(-1)[1];
  const y = (sum) => GROWTH.height - (sum / total) * (GROWTH.height - GROWTH.top);
  const area = (steps) => {
    let path = `M${range[0]} ${GROWTH.height}`;
    steps.forEach(([time, sum], at) => {
      const isSeen = at + 1 === steps.length || Math.round(x(time)) < Math.round(x(steps[at + 1][0]));
      if (isSeen || steps.length < MOST_MARKS_DRAWN) path += `H${x(time).toFixed(1)}V${y(sum).toFixed(1)}`;
    });
    return `${path}H${range[1]}V${GROWTH.height}Z`;
  };
  const noun = view.measure === "memories" ? ["memory", "memories"] : ["character", "characters"];
  const svg = element(
    "svg:svg",
    { width, height: GROWTH.height + AXIS, role: "img", "aria-label": `Growth from ${moment(extent[0])} to ${moment(extent[1])} (UTC): ${count(total, ...noun)}` },
    ...timeAxis(domain, range, 0, GROWTH.height),
    element("svg:path", { class: "growth", d: area(all) }),
    chosen.length < memories.length && chosen.length ? element("svg:path", { class: "growth chosen", d: area(running(chosen)) }) : null,
    element("svg:line", { class: "lane", x1: 0, x2: width, y1: GROWTH.height, y2: GROWTH.height }),
    element("svg:text", { class: gutter ? "lane-name" : "tick", x: 0, y: gutter ? GROWTH.height / 2 : 12 }, count(total, ...noun)),
  );
  const brush = element("svg:rect", { class: "brush", y: 0, height: GROWTH.height, visibility: "hidden" });
  svg.append(brush);
  host.replaceChildren(svg);
  if (choice.from !== null || choice.until !== null) {
    place(brush, Math.max(range[0], x(choice.from ?? domain[0])), Math.min(range[1], x(choice.until ?? domain[1])));
  }
  brushable(svg, brush, range, (left, right) => {
    const time = (at) => domain[0] + ((at - range[0]) / (range[1] - range[0])) * (domain[1] - domain[0]);
    choosePeriod(left === null ? null : time(left), right === null ? null : time(right));
  });
}

function place(brush, left, right) {
  brush.setAttribute("x", Math.min(left, right));
  brush.setAttribute("width", Math.max(2, Math.abs(right - left)));
  brush.setAttribute("visibility", "visible");
}

/* Lets the pointer select a period; a click clears it. */
function brushable(svg, brush, range, chosen) {
  let start = null;
  const at = (event) => Math.min(range[1], Math.max(range[0], event.clientX - svg.getBoundingClientRect().left));
  svg.addEventListener("pointerdown", (event) => {
    start = at(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => start !== null && place(brush, start, at(event)));
  svg.addEventListener("pointercancel", () => (start = null));
  svg.addEventListener("pointerup", (event) => {
    const [left, right] = [Math.min(start, at(event)), Math.max(start, at(event))];
    start = null;
    chosen(...(right - left < 4 ? [null, null] : [left, right]));
  });
}

/* --- The map -------------------------------------------------------------------------------------------------------- */

const located = memories.filter((memory) => memory.point);

/* The middle and the width of all points along an axis. */
function reachOf(axis) {
  const along = located.map((memory) => memory.point[axis]);
  const [least, most] = [along.reduce((a, b) => Math.min(a, b), 1), along.reduce((a, b) => Math.max(a, b), -1)];
  return [(least + most) / 2, most - least || 1];
}

/* Both axes have the same scale, so that distances are comparable in all directions. */
function mapLayout(width, chosen) {
  const height = Math.round(Math.min(width * 0.8, 460));
  const edge = radius() + 10;
  const [[middleX, spanX], [middleY, spanY]] = [reachOf(0), reachOf(1)];
  const unit = Math.min((width - 2 * edge) / spanX, (height - 2 * edge) / spanY);
  const inside = new Set(chosen);
  const marks = located.map((memory) => ({
    memory,
    x: width / 2 + (memory.point[0] - middleX) * unit,
    y: height / 2 - (memory.point[1] - middleY) * unit,
    out: !inside.has(memory),
  }));
  return { height, marks, backdrop: [] };
}

const timeline = new MarkChart(byKey("timeline"), "Timeline", timelineLayout, { inTime: true });
const map = new MarkChart(byKey("map"), "Map by meaning", mapLayout);
const charts = [timeline, map];
