/* The timeline, the growth below it, the map by meaning, and who stored what, of the memories that filters name. */

const NO_TASK = "without a task";
const LANES = { agent: "Agent", task: "Task", kind: "Kind", iteration: "Iteration" };
const COLOURED = { kind: "Kind", agent: "Agent", task: "Task" };
const MEASURES = { memories: "Memories", characters: "Characters" };
const MOST_MARKS_DRAWN = 4000; // with more a browser becomes slow

/* What charts read of memories, in the order of time, and what is the same in all of them. */
function charted(data) {
  const memories = data.memories
    .map((memory) => ({
      ...memory,
      created: Date.parse(memory.created_at),
      name: nameOf(memory),
      agent: memory.agent_id,
      task: memory.task_code ?? NO_TASK,
      kind: nameOfKind(memory.memory_type),
      iteration: `v${memory.session_iter}`,
    }))
    .sort((a, b) => a.created - b.created);
  const ranks = Object.fromEntries(Object.keys(LANES).map((field) => [field, new Map(valuesOf(memories, field).map(([value], at) => [value, at]))]));
  const radius = memories.length < 300 ? 5 : memories.length < 1500 ? 4 : 3;
  return { memories, ranks, radius, extent: [memories[0].created, memories.at(-1).created] };
}

/* The values of a field and their numbers of memories, most frequent first. */
function valuesOf(memories, field) {
  const counts = new Map();
  for (const memory of memories) counts.set(memory[field], (counts.get(memory[field]) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || collator.compare(a, b));
}

/* Colours of agents and tasks belong to the most frequent ones, and do not change with the filters. */
const colourOf = (memory, by, ranks) => (by === "kind" ? colourOfKind(memory.memory_type) : `d${Math.min(ranks[by].get(memory[by]), OTHERS)}`);

function Charts({ filters, view, server, choose }) {
  const { data, error } = useAnswer("chart", { ...filters, since: "", until: "" }, server.version);
  const all = useMemo(() => (data?.memories.length ? charted(data) : null), [data]);
  const [current, setCurrent] = useState(null);
  const { since, until } = filters;
  const chosen = useMemo(() => all?.memories.filter((memory) => !memory.out && isWithin(memory.created, since, until)), [all, since, until]);
  const period = withMargin(...(since || until ? [startOf(since) ?? all?.extent[0], endOf(until) ?? all?.extent[1]] : all?.extent ?? [0, 0]));
  const shown = { ...all, chosen, view, current, setCurrent };
  const drawsTimeline = useCallback((width) => timelineLayout(width, shown, period), [chosen, view]);
  const shares = useMemo(() => all && html`<${Shares} ...${shown} />`, [chosen, view]); // not whenever a mark is pointed at
  const figures = useMemo(() => all && html`<${Figures} figures=${figuresOf(chosen)} />`, [chosen]);
  const drawsMap = useCallback((width) => mapLayout(width, shown), [chosen, view]);
  if (!all) return html`<${Failure} error=${error} />`;
  const viewed = (name, label, options) => html`<${Choice} name=${name} label=${label} value=${view[name]} options=${Object.entries(options)} onChoose=${(value) => choose({ [name]: value })} />`;
  const left = data.total - data.memories.length;
  return html`${figures}
    ${left > 0 && html`<p class="notice">These charts show the newest ${number.format(data.memories.length)} of ${count(data.total, "memory", "memories")}.</p>`}
    <section class="panel" aria-labelledby="timeline-title">
      <div class="panel-head">
        <div>
          <h2 id="timeline-title">Timeline</h2>
          <p class="hint">Each mark is a memory.${chosen.length > MOST_MARKS_DRAWN && " A larger mark is several of them: choose a filter or a period to tell them apart."} Select one to read it; drag over the lower chart to select a period.</p>
        </div>
        <div class="choices">${viewed("rows", "Rows", LANES)}${viewed("colour", "Colour", COLOURED)}${viewed("measure", "Growth of", MEASURES)}</div>
      </div>
      <${Legend} ...${shown} />
      <${MarkChart} id="timeline" title="Timeline" layout=${drawsTimeline} inTime=${true} ...${shown} />
      <${Growth} ...${shown} filters=${filters} choose=${choose} />
      <${AsTable} summary="Growth as a table" make=${() => growthTable(chosen)} />
    </section>
    <div class="halves">
      <section class="panel" aria-labelledby="map-title">
        <h2 id="map-title">Map by meaning</h2>
        <p class="hint">${all.memories.some((memory) => memory.point)
          ? `Memories with similar content are close to each other. The map shows ${Math.round(100 * data.share)} % of their differences, so neighbours on it may be unrelated. Each memory's page lists its nearest neighbours.`
          : "There are no vectors yet: run vector-memory backfill."}</p>
        <${MarkChart} id="map" title="Map by meaning" layout=${drawsMap} ...${shown} />
        <${AsTable} summary="Map as a table" make=${() => mapTable(chosen)} />
      </section>
      <section class="panel" aria-labelledby="shares-title"><h2 id="shares-title">Who stored what</h2>${shares}</section>
    </div>`;
}

function figuresOf(chosen) {
  const sum = (name) => chosen.reduce((total, memory) => total + memory[name], 0);
  const different = (name) => new Set(chosen.map((memory) => memory[name]).filter((value) => value !== null)).size;
  const figures = [
    [chosen.length, "memory", "memories"],
    [sum("content_length"), "character"],
    [sum("chunk_count"), "chunk"],
    [different("agent_id"), "agent"],
    [different("task_code"), "task"],
    [different("session_iter"), "iteration"],
  ];
  return figures.map(([n, one, many = `${one}s`]) => [number.format(n), n === 1 ? one : many]);
}

function Legend({ memories, ranks, view }) {
  const kinds = [...new Set(memories.map((memory) => memory.memory_type))].sort((a, b) => placeOf(a) - placeOf(b));
  const others = view.colour === "kind" ? 0 : ranks[view.colour].size - OTHERS;
  return html`<ul class="legend" aria-label="Colours and shapes">
    ${view.colour !== "kind" && [...ranks[view.colour].keys()].slice(0, OTHERS).map((name, at) => html`<li key=${name}><${Swatch} at=${at} /> <bdi>${cut(name, 40)}</bdi></li>`)}
    ${others > 0 && html`<li><${Swatch} at=${OTHERS} /> ${count(others, "other")}</li>`}
    ${kinds.map((kind) => html`<li key=${kind}><${Glyph} kind=${kind} colour=${view.colour === "kind" ? undefined : "shape"} /> ${nameOfKind(kind)}</li>`)}
  </ul>`;
}

/* --- A chart of marks that can be used with a pointer and the keyboard ----------------------------------------------- */

const REACH = 24; // pixels from a mark within which it is selected
const LOW = 160; // pixels that the tip of a mark needs above it

const isIn = (chosen) => {
  const ids = new Set(chosen);
  return (memory) => ids.has(memory);
};

const othersAt = ({ several }) => (several > 1 ? `and ${count(several - 1, "other")} here` : "");
const labelOf = (mark) => `${mark.memory.name}. ${mark.memory.kind} by ${mark.memory.agent}, ${moment(mark.memory.created)}${mark.several > 1 ? `, ${othersAt(mark)}` : ""}`;

/* Marks of which those in the same place are one, if there are too many; `several`: of how many memories it is. */
function joined(marks, size) {
  if (marks.length <= MOST_MARKS_DRAWN) return marks;
  for (let cell = size; ; cell += size) {
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

/* `layout(width)` returns { height, marks: [{ memory, x, y, out }], backdrop }, in order of time. `inTime`: left and right
   mean earlier and later. */
function MarkChart({ id, title, layout, inTime = false, chosen, ranks, radius, view, current, setCurrent }) {
  const [place, width] = useWidth();
  const [chosenMark, setActive] = useState(null);
  const drawn = useMemo(() => {
    const { height, marks: all, backdrop } = layout(width);
    const marks = joined(all, 2 * radius + 1).sort((a, b) => Boolean(b.out) - Boolean(a.out));
    const shapes = marks.map(({ memory, x, y, out, several }) => {
      const path = { d: shapeOfKind(memory.memory_type, radius * (1 + Math.log10(several ?? 1) / 2)), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` };
      const colour = colourOf(memory, view.colour, ranks);
      if (out) return html`<path ...${path} class=${`mark out ${colour}`} aria-hidden="true" />`;
      return html`<path ...${path} id=${`${id}-${memory.memory_id}`} class=${`mark ${colour}`} role="option" aria-selected="false" aria-label=${labelOf({ memory, several })} />`;
    });
    return { height, backdrop, shapes, marks: marks.filter((mark) => !mark.out) };
  }, [width, layout]);
  const { marks } = drawn;
  const active = chosenMark && marks.find((mark) => mark.memory.memory_id === chosenMark);
  const nameOfMark = active && `${id}-${active.memory.memory_id}`;
  useLayoutEffect(() => {
    const made = nameOfMark && document.getElementById(nameOfMark);
    made?.setAttribute("aria-selected", "true");
    return () => made?.setAttribute("aria-selected", "false");
  }, [nameOfMark]);
  const activate = (mark) => {
    setActive(mark && mark.memory.memory_id);
    if (mark) setCurrent(mark.memory.memory_id);
  };
  const ring = marks.find((mark) => mark.memory.memory_id === current);
  const point = (event) => {
    const box = place.current.getBoundingClientRect();
    const distance = (mark) => Math.hypot(mark.x - event.clientX + box.left, mark.y - event.clientY + box.top);
    const nearest = marks.reduce((best, mark) => (!best || distance(mark) < distance(best) ? mark : best), null);
    activate(nearest && distance(nearest) <= REACH ? nearest : null);
  };
  const open = () => active && (location.hash = link(`/memory/${active.memory.memory_id}`));
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const walkMarks = (event) => {
    if (event.key === "Escape") return setActive(null);
    if (event.key === "Enter" || event.key === " ") open();
    else if (event.key === "Home") activate(marks[0] ?? null);
    else if (event.key === "End") activate(marks.at(-1) ?? null);
    else if (ways[event.key]) activate(nextMark(marks, active ?? ring ?? marks[0], ways[event.key], inTime) ?? active);
    else return undefined;
    return event.preventDefault();
  };
  const hands = { onPointerMove: point, onPointerDown: point, onPointerLeave: () => setActive(null), onClick: open, onKeyDown: walkMarks };
  const label = `${title}: ${count(chosen.length, "memory", "memories")}. Use the arrow keys to move, Enter to open.`;
  return html`<div class=${`chart${active ? " pointing" : ""}`} ref=${place} ...${hands}>
    ${width > 0 && html`<svg id=${id} width=${width} height=${drawn.height} role=${marks.length ? "listbox" : "img"} tabindex=${marks.length ? 0 : undefined} aria-label=${label} aria-activedescendant=${nameOfMark ?? undefined} onFocus=${() => active ?? activate(ring ?? marks[0] ?? null)} onBlur=${() => setActive(null)}>
      <g aria-hidden="true">${drawn.backdrop}${ring && html`<circle class="ring" r=${radius + 4} cx=${ring.x} cy=${ring.y} />`}</g>
      ${drawn.shapes}
    </svg>`}
    ${active && html`<${Tip} mark=${active} width=${width} height=${drawn.height} isLow=${place.current.getBoundingClientRect().top + active.y < LOW} view=${view} ranks=${ranks} />`}
  </div>`;
}

/* In a row, the next mark in time; otherwise the nearest mark in that direction, counting sideways distance twice. */
function nextMark(marks, from, [dx, dy], inTime) {
  if (inTime && dx) return marks[marks.indexOf(from) + dx];
  let [best, least] = [null, Infinity];
  for (const mark of marks) {
    const [right, down] = [mark.x - from.x, mark.y - from.y];
    const [along, aside] = [right * dx + down * dy, Math.abs(right * dy) + Math.abs(down * dx)];
    if (along > 0.01 && along + 2 * aside < least) [best, least] = [mark, along + 2 * aside];
  }
  return best;
}

function Tip({ mark, width, height, isLow, view, ranks }) {
  const { memory } = mark;
  const facts = [memory.kind, memory.agent, memory.task, memory.iteration, moment(memory.created)].join(" · ");
  const beside = isLow ? { top: `${mark.y + 14}px` } : { bottom: `${height - mark.y + 14}px` };
  return html`<div class="tip" role="tooltip" style=${{ left: `${mark.x}px`, transform: `translateX(${(-100 * mark.x) / width}%)`, ...beside }}>
    <strong dir="auto">${cut(memory.name, 120)}</strong>
    <span><${Glyph} kind=${memory.memory_type} colour=${colourOf(memory, view.colour, ranks)} /> ${facts}</span>
    <span dir="auto">${cut(beginningOf(memory), 160)}</span>
    ${mark.several > 1 && html`<span>${othersAt(mark)}</span>`}
  </div>`;
}

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
const WIDE = 640;
const GUTTER = 172;
const [secondClock, finestClock] = [timesIn({ ...CLOCK, second: "2-digit" }), timesIn({ minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 })];
const year = timesIn({ year: "numeric" });

/* Periods up to now, as addresses name them. */
const PERIODS = { "24h": ["Last 24 hours", DAY], "7d": ["Last 7 days", 7 * DAY], "30d": ["Last 30 days", 30 * DAY] };

/* A day, or a time, of the form that addresses have, in the clock of the page. */
const instant = (text) => Date.parse(`${text.includes("T") ? text : `${text}T00:00`}${report ? "Z" : ""}`);
const startOf = (since) => (since ? (PERIODS[since] ? Date.now() - PERIODS[since][1] : instant(since)) : null);
const endOf = (until) => (until ? instant(until) + (until.includes("T") ? 999 : DAY - 1) : null);

/* Whether a time is in a period. */
const isWithin = (time, since, until) => time >= (startOf(since) ?? -Infinity) && time <= (endOf(until) ?? Infinity);

/* Also a session of seconds fills its axis. */
function withMargin(start, end) {
  const room = end > start ? (end - start) * 0.02 : 30 * SECOND;
  return [start - room, end + room];
}

const scale = ([start, end], [left, right]) => (time) => left + ((time - start) / (end - start)) * (right - left);
const rangeOf = (width, radius) => [(width < WIDE ? 0 : GUTTER) + radius + 4, width - radius - 4];

/* Tick labels of two lines: the second, a day or a year, only where it changes. */
function timeAxis(domain, range, bottom) {
  const most = Math.max(2, Math.floor((range[1] - range[0]) / TICK_ROOM));
  const step = STEPS.find((each) => (domain[1] - domain[0]) / each <= most) ?? STEPS.at(-1);
  const exactClock = step < SECOND ? finestClock : secondClock;
  const [fine, coarse] = step < DAY ? [step < MINUTE ? exactClock : clock, shortDay] : [shortDay, year];
  const behind = report ? 0 : new Date(domain[0]).getTimezoneOffset() * MINUTE; // days begin in the reader's zone
  const drawn = [];
  let before = "";
  for (let time = Math.ceil((domain[0] - behind) / step) * step + behind; time <= domain[1]; time += step) {
    const second = coarse.format(time);
    const x = scale(domain, range)(time).toFixed(1);
    drawn.push(html`<line class="grid" x1=${x} x2=${x} y1="0" y2=${bottom} /><text class="tick" x=${x} y=${bottom + 16} text-anchor="middle">${fine.format(time)}</text>`);
    if (second !== before) drawn.push(html`<text class="tick strong" x=${x} y=${bottom + 31} text-anchor="middle">${second}</text>`);
    before = second;
  }
  return drawn;
}

/* --- The timeline --------------------------------------------------------------------------------------------------- */

const [MOST_LANES, LEAST_LANE, HIGHEST_LANE, AXIS] = [14, 26, 92, 38];

function lanesOf(chosen, rows) {
  const names = valuesOf(chosen, rows).map(([name]) => name);
  if (rows === "iteration") names.sort(collator.compare);
  const shown = names.length > MOST_LANES ? names.slice(0, MOST_LANES - 1) : names;
  const at = new Map(names.map((name, index) => [name, Math.min(index, shown.length)]));
  return { labels: names.length > shown.length ? [...shown, count(names.length - shown.length, "other")] : shown, at };
}

function timelineLayout(width, { memories, chosen, radius, view }, domain) {
  const { labels, at } = lanesOf(chosen, view.rows);
  const range = rangeOf(width, radius);
  const [x, cell, inside] = [scale(domain, range), 2 * radius + 1, isIn(chosen)];
  const visible = memories.filter((memory) => at.has(memory[view.rows]) && memory.created >= domain[0] && memory.created <= domain[1]);
  const stacks = labels.map(() => new Map());
  const marks = visible.map((memory) => {
    const lane = at.get(memory[view.rows]);
    const column = Math.round(x(memory.created) / cell);
    const level = stacks[lane].get(column) ?? 0;
    stacks[lane].set(column, level + 1);
    return { memory, lane, level, x: column * cell, out: !inside(memory) };
  });
  const heading = width < WIDE ? 20 : 0;
  const heights = stacks.map((stack) => heading + Math.min(HIGHEST_LANE, Math.max(LEAST_LANE, Math.max(0, ...stack.values()) * cell + 8)));
  const tops = heights.map((_, lane) => heights.slice(0, lane).reduce((sum, height) => sum + height, 0));
  const bottom = tops.at(-1) + heights.at(-1) || LEAST_LANE;
  for (const mark of marks) {
    const room = Math.floor((heights[mark.lane] - heading - 8) / cell) || 1;
    const level = mark.level % room;
    const offset = (level % 2 ? 1 : -1) * Math.ceil(level / 2) * cell;
    mark.y = tops[mark.lane] + heading + (heights[mark.lane] - heading) / 2 + offset + (room % 2 ? 0 : -cell / 2);
  }
  const rows = labels.map((name, lane) => {
    const [line, y] = [tops[lane] + heights[lane], heading ? tops[lane] + 15 : tops[lane] + heights[lane] / 2 + 4];
    return html`<line class="lane" x1="0" x2=${width} y1=${line} y2=${line} /><text class="lane-name" x="0" y=${y}>${cut(name, heading ? 44 : 24)}</text>`;
  });
  return { height: bottom + AXIS, marks, backdrop: [timeAxis(domain, range, bottom), rows] };
}

/* --- Growth --------------------------------------------------------------------------------------------------------- */

const GROWTH = { height: 64, top: 16 };

const asFilter = (time) => new Date(time - (report ? 0 : new Date(time).getTimezoneOffset() * MINUTE)).toISOString().slice(0, 19);

function Growth({ memories, chosen, radius, extent, view, filters, choose }) {
  const [place, width] = useWidth();
  const [drag, setDrag] = useState(null);
  const [range, domain] = [rangeOf(width, radius), withMargin(...extent)];
  const x = scale(domain, range);
  const { total, areas } = useMemo(() => growthAreas(memories, chosen, view.measure, x, range), [memories, chosen, view, width]);
  const noun = view.measure === "memories" ? ["memory", "memories"] : ["character", "characters"];
  const at = (event) => Math.min(range[1], Math.max(range[0], event.clientX - place.current.getBoundingClientRect().left));
  const begin = (event) => {
    setDrag([at(event), at(event)]);
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const end = () => {
    const [left, right] = drag.toSorted((a, b) => a - b);
    const time = (pixel) => domain[0] + ((pixel - range[0]) / (range[1] - range[0])) * (domain[1] - domain[0]);
    setDrag(null);
    choose(right - left < 4 ? { since: "", until: "" } : { since: asFilter(time(left)), until: asFilter(time(right)) });
  };
  const hands = { onPointerDown: begin, onPointerMove: (event) => drag && setDrag([drag[0], at(event)]), onPointerUp: () => drag && end(), onPointerCancel: () => setDrag(null) };
  const isPart = filters.since || filters.until;
  const [from, until] = drag ?? [Math.max(range[0], x(startOf(filters.since) ?? domain[0])), Math.min(range[1], x(endOf(filters.until) ?? domain[1]))];
  return html`<div class="chart growth-chart" ref=${place}>
    ${width > 0 && html`<svg id="growth" width=${width} height=${GROWTH.height + AXIS} role="img" aria-label=${`Growth from ${moment(extent[0])} to ${moment(extent[1])}: ${count(total, ...noun)}`} ...${hands}>
      ${timeAxis(domain, range, GROWTH.height)}
      ${areas.map((area, at) => html`<path class=${at ? "growth chosen" : "growth"} d=${area} />`)}
      <line class="lane" x1="0" x2=${width} y1=${GROWTH.height} y2=${GROWTH.height} />
      <text class=${width < WIDE ? "tick" : "lane-name"} x="0" y=${width < WIDE ? 12 : GROWTH.height / 2}>${count(total, ...noun)}</text>
      ${(drag || isPart) && html`<rect class="brush" x=${Math.min(from, until)} width=${Math.max(2, Math.abs(until - from))} height=${GROWTH.height} />`}
    </svg>`}
  </div>`;
}

/* Paths of a running sum over time: of all memories, and of the chosen ones if these are only some. */
function growthAreas(memories, chosen, measure, x, range) {
  const weight = (memory) => (measure === "memories" ? 1 : memory.content_length);
  const total = memories.reduce((sum, memory) => sum + weight(memory), 0);
  const area = (among) => {
    let [path, sum] = [`M${range[0]} ${GROWTH.height}`, 0];
    among.forEach((memory, at) => {
      sum += weight(memory);
      const isSeen = at + 1 === among.length || Math.round(x(memory.created)) < Math.round(x(among[at + 1].created));
      if (isSeen || among.length < MOST_MARKS_DRAWN) path += `H${x(memory.created).toFixed(1)}V${(GROWTH.height - (sum / total) * (GROWTH.height - GROWTH.top)).toFixed(1)}`;
    });
    return `${path}H${range[1]}V${GROWTH.height}Z`;
  };
  return { total, areas: chosen.length && chosen.length < memories.length ? [area(memories), area(chosen)] : [area(memories)] };
}

const MOST_ROWS = 500;

function growthTable(chosen) {
  const hours = new Map();
  let [n, size] = [0, 0];
  for (const memory of chosen) hours.set(asFilter(memory.created).slice(0, 13), [++n, (size += memory.content_length)]);
  const rows = [...hours].slice(-MOST_ROWS).map(([hour, sums]) => [`${hour.replace("T", " ")}:59`, ...sums.map((sum) => number.format(sum))]);
  return { caption: "Total stored by the end of each hour", headings: ["Until", "Memories", "Characters"], rows };
}

/* --- The map -------------------------------------------------------------------------------------------------------- */

/* Both axes have the same scale, so that distances are comparable in all directions. */
function mapLayout(width, { memories, chosen, radius }) {
  const height = Math.round(Math.min(width * 0.8, 460));
  const [edge, inside] = [radius + 10, isIn(chosen)];
  const located = memories.filter((memory) => memory.point);
  const [[middleX, spanX], [middleY, spanY]] = [0, 1].map((axis) => {
    const along = located.map((memory) => memory.point[axis]);
    const [least, most] = [along.reduce((a, b) => Math.min(a, b), 1), along.reduce((a, b) => Math.max(a, b), -1)];
    return [(least + most) / 2, most - least || 1];
  });
  const unit = Math.min((width - 2 * edge) / spanX, (height - 2 * edge) / spanY);
  const marks = located.map((memory) => ({
    memory,
    x: width / 2 + (memory.point[0] - middleX) * unit,
    y: height / 2 - (memory.point[1] - middleY) * unit,
    out: !inside(memory),
  }));
  return { height, marks, backdrop: labelsOf(marks, width) };
}

const [LABEL, LETTER, LINE] = [28, 6.4, 26]; // characters of a label, and pixels of a character and a line

/* Names of memories that have room for them, those with titles first. */
function labelsOf(marks, width) {
  const taken = [];
  for (const { memory, x, y, out } of marks.toSorted((a, b) => Boolean(b.memory.title) - Boolean(a.memory.title))) {
    const name = cut(memory.name, LABEL);
    const [left, right] = x + LETTER * name.length + 12 < width ? [x + 9, x + 9 + LETTER * name.length] : [x - 9 - LETTER * name.length, x - 9];
    const hits = (other) => left < other.right + 12 && other.left < right + 12 && Math.abs(y - other.y) < LINE;
    if (!out && left > 0 && !taken.some(hits)) taken.push({ left, right, y, name, end: left < x });
  }
  return taken.map(({ left, right, y, name, end }) => html`<text class="map-label" x=${end ? right : left} y=${y + 4} text-anchor=${end ? "end" : "start"}>${name}</text>`);
}

function mapTable(chosen) {
  const rows = chosen.filter((memory) => memory.point).slice(-MOST_ROWS).map((memory) => [
    html`<${MemoryLink} id=${memory.memory_id} dir="auto">${cut(memory.name, 90)}<//>`,
    memory.point.map((part) => part.toFixed(2)).join(", "),
  ]);
  return { caption: `Positions on the map (up to ${MOST_ROWS}, latest)`, headings: ["Memory", "Across, up"], rows };
}

/* --- Who stored what ------------------------------------------------------------------------------------------------ */

const MOST_SHARES = 25;

function Shares({ chosen, ranks, view }) {
  const rows = new Map();
  for (const memory of chosen) {
    const row = rows.get(memory[view.rows]) ?? { memories: 0, characters: 0, colours: new Map(), first: memory.created };
    const colour = colourOf(memory, view.colour, ranks);
    row.memories += 1;
    row.characters += memory.content_length;
    row.last = memory.created;
    row.colours.set(colour, (row.colours.get(colour) ?? 0) + 1);
    rows.set(memory[view.rows], row);
  }
  const sorted = [...rows].sort(([a, m], [b, n]) => n.memories - m.memories || collator.compare(a, b));
  const left = sorted.length - MOST_SHARES;
  const shown = sorted.slice(0, MOST_SHARES).map(([name, row]) => [
    html`<span dir="auto">${name}</span><${Bar} colours=${row.colours} most=${sorted[0][1].memories} />`,
    number.format(row.memories),
    number.format(row.characters),
    `${moment(row.first)} – ${moment(row.last)}`,
  ]);
  return html`<p class="hint">Selected memories by ${view.rows}${left > 0 && `; ${count(left, "smaller row")} not shown`}.</p>
    <div class="shares"><${Table} caption=${`Memories by ${view.rows}`} headings=${[LANES[view.rows], "Memories", "Characters", "From – until"]} rows=${shown} /></div>`;
}

function Bar({ colours, most }) {
  let start = 0;
  return html`<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    ${[...colours].sort(([a], [b]) => collator.compare(a, b)).map(([colour, n]) => {
      const width = (100 * n) / most;
      start += width;
      return html`<rect class=${colour} x=${start - width} width=${Math.max(0.4, width - 0.4)} height="4" />`;
    })}
  </svg>`;
}
