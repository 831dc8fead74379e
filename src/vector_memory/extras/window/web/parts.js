/* What several parts of the page have: words, times, signs and controls. The parts are one script, without a build step. */

/* The session that is in the page, if it is a report; null: the page is that of a live memory. */
const report = JSON.parse(document.getElementById("data").textContent);
document.getElementById("data").remove();

const words = (name) => name.replaceAll("_", " ");
const plain = (text) => text.replace(/\s+/gu, " ").trim();
const cut = (text, length) => (text.length > length ? `${text.slice(0, length).trimEnd()}…` : text);

const collator = new Intl.Collator("en", { numeric: true });

const number = new Intl.NumberFormat("en");
const count = (n, noun, nouns = `${noun}s`) => `${number.format(n)} ${n === 1 ? noun : nouns}`;

/* --- Words of a query --- */

/* The words and "phrases in quotes" of a query, in lower case; a memory is found if it has all of them. */
function terms(query) {
  const found = query.toLowerCase().match(/"[^"]+"?|[^\s"]+/gu) ?? [];
  return found.map((term) => term.replaceAll('"', "")).filter((term) => term.trim());
}

const escapedForPattern = (term) => term.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");

/* A pattern for the query's terms, longest first, or null. */
function finder(query) {
  const wanted = terms(query).sort((a, b) => b.length - a.length);
  if (!wanted.length) return null;
  return new RegExp(wanted.map(escapedForPattern).join("|"), "giu");
}

function pieces(text, pattern) {
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

const SHAPES = [
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
function letScroll(text) {
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

/* Copies a text, and says whether it could. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    const area = Object.assign(document.createElement("textarea"), { className: "unseen", value: text });
    document.querySelector("main").append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? "Copied" : "Copying was blocked";
  }
}

function Copying({ text, name = "Copy", of, small }) {
  const [said, say] = useState("");
  const act = () => copy(text).then(say).then(() => setTimeout(() => say(""), 2000));
  return html`<button type="button" class=${small ? "small" : "quiet"} aria-label=${of && !said ? `${name} ${of}` : undefined} onClick=${act}>${said || name}</button>`;
}

/* A command for a terminal. */
const Command = ({ text }) => html`<span class="command"><code>${text}</code> <${Copying} text=${text} of=${text} small=${true} /></span>`;

const KINDS = {
  report: "Report",
  working_memory: "Working memory",
  session_context: "Session context",
  input_prompt: "Prompt",
  knowledge_base: "Knowledge",
  report_observation: "Observation",
  system_memory: "System memory",
  tagged_memory: "Tagged note",
};
const ORDER = Object.keys(KINDS);
const COLOURS = 8;
const OTHERS = COLOURS - 1; // the colour of all agents that have none of their own

const placeOf = (kind) => (ORDER.includes(kind) ? ORDER.indexOf(kind) : ORDER.length);
const colourOfKind = (kind) => `c${placeOf(kind) % COLOURS}`;
const shapeOfKind = (kind, radius) => SHAPES[placeOf(kind) % SHAPES.length](radius);

const nameOfKind = (kind) => KINDS[kind] ?? plain(words(kind)).replace(/^\w/u, (first) => first.toUpperCase());

/* The sign of a kind: a shape and a colour, the same everywhere. */
const Glyph = ({ kind, colour = colourOfKind(kind) }) => html`<svg class="glyph" width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true"><path class=${colour} d=${shapeOfKind(kind, 5)} /></svg>`;

/* The sign of what is no kind, such as an agent: these have colours of their own. */
const Swatch = ({ at }) => html`<svg class="glyph" width="12" height="12" aria-hidden="true"><rect class=${`d${at}`} width="12" height="12" rx="2" /></svg>`;

/* --- Times: in the clock of the reader, in a report in UTC --------------------------------------------------------------- */

const timesIn = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: report ? "UTC" : undefined, hourCycle: "h23", ...options });
const CLOCK = { hour: "2-digit", minute: "2-digit" };
const exact = timesIn({ dateStyle: "full", timeStyle: "long" });
const [clock, weekday] = [timesIn(CLOCK), timesIn({ weekday: "short" })];
const [shortDay, day] = [timesIn({ day: "numeric", month: "short" }), timesIn({ day: "numeric", month: "short", year: "numeric" })];

const secondsSince = (time) => (Date.now() - Date.parse(time)) / 1000;

/* A time as briefly as it is clear: 14:05, Mon 24 Nov, 14:05, or 24 Nov 2025, 14:05. Reports are read later. */
function moment(time) {
  const date = new Date(time);
  if (!report && day.format(date) === day.format(new Date())) return clock.format(date);
  const isThisWeek = !report && secondsSince(time) >= 0 && secondsSince(time) < 6 * 86400;
  return `${isThisWeek ? `${weekday.format(date)} ${shortDay.format(date)}` : day.format(date)}, ${clock.format(date)}`;
}

const At = ({ time }) => html`<time datetime=${time} title=${exact.format(new Date(time))}>${moment(time)}</time>`;

/* --- Memories -------------------------------------------------------------------------------------------------------- */

/* A Markdown text as it is read, in one line. Headings, items and cells stay apart. */
function legible(text) {
  const bare = text.replace(/^---\n.*?\n---\n/su, "").replace(/<!-{2}.*?(-->|$)/gsu, " ").replace(/!?\[([^\]]*)\]\([^)]*\)?/gu, "$1");
  const apart = bare.replace(/^ {0,3}#{1,6} +(.*?)[ #]*(?:\{ *#[^{}\n]*\})?$/gmu, "$1 · ");
  const items = apart.replace(/^ *[-+*] |\s*\|(?:[\s|]|:?-{3,}:?)*/gmu, " · ");
  return plain(items.replace(/[*`]+|^ *>|:?-{3,}:?/gmu, " ")).replace(/ ([,.;:!?])/gu, "$1").replace(/·(?: ·)+/gu, "·").replace(/^· | ·$/gu, "");
}

const NAME = 90;
const shortened = (text) => (text.length > NAME ? `${text.slice(0, NAME).replace(/[\s.,;:]+\S*$/u, "")}…` : text);

/* The first line of a text that says something. */
const firstLine = (text) => text.replace(/^---\n.*?\n---\n/su, "").split("\n").map(legible).find((line) => /[\p{L}\p{N}]/u.test(line)) ?? "";

/* The name of a memory, everywhere: its title, or the first line of its text. */
const nameOf = (memory) => plain(memory.title ?? "").replace(/^#+ | *\{ *#[^{}]*\}$/gu, "") || shortened(firstLine(memory.beginning ?? memory.text ?? "")) || `Memory ${memory.memory_id}`;

/* The first words, without those that are the title. */
function beginningOf(memory) {
  const [text, name] = [legible(memory.beginning), legible(nameOf(memory)).replace(/…$/u, "")];
  const rest = text.startsWith(name) ? text.slice(name.length) : text;
  const isCut = memory.content_length > memory.beginning.length;
  return rest.replace(/^[\s.,;:·]+/u, "") + (isCut ? "…" : "");
}

const Marked = ({ text, pattern }) => pieces(text, pattern).map(([part, hit]) => (hit ? html`<mark>${part}</mark>` : part));

/* Where a memory is from, in one line. */
function Facts({ memory, session = true }) {
  const facts = [
    nameOfKind(memory.memory_type),
    memory.agent_id && html`<bdi>${memory.agent_id}</bdi>`,
    html`<${At} time=${memory.created_at} />`,
    session && !report && memory.session_id && html`<bdi>${cut(memory.session_id, 40)}</bdi>`,
    memory.task_code && html`<bdi>${cut(memory.task_code, 30)}</bdi>`,
    memory.session_iter > 1 && `iteration ${memory.session_iter}`,
    memory.access_count > 0 && `read ${count(memory.access_count, "time")}`,
  ].filter(Boolean);
  return html`<p class="facts">${facts.map((fact, at) => [at > 0 && html`<span class="dot" aria-hidden="true">·</span>`, fact])}</p>`;
}

/* A memory, or a file, in addresses. */
const pageOf = ({ memory_id: id, path }) => (id ? link(`/memory/${id}`) : link("/file", { path }));

/* A memory in a list, with facts about it. */
const Line = ({ memory, children }) => html`<li class="line">
  ${memory.memory_type && html`<${Glyph} kind=${memory.memory_type} />`}
  <div><a href=${pageOf(memory)} dir="auto">${nameOf(memory)}</a><div class="facts">${children}</div></div>
</li>`;

const AgentAndTime = ({ memory }) => html`<bdi>${memory.agent_id}</bdi> · <${At} time=${memory.created_at} />`;

const MemoryLink = ({ id, children, ...others }) => html`<a href=${link(`/memory/${id}`)} ...${others}>${children}</a>`;

/* The only place that parses HTML: Python's rendering of a text, which contains no tag of the text itself. */
function Rendered({ markup, title }) {
  const place = useRef();
  useLayoutEffect(() => {
    place.current.innerHTML = markup;
    const first = place.current.firstElementChild;
    if (/^H\d$/u.test(first?.tagName) && plain(first.textContent) === title) first.remove();
    letScroll(place.current);
  }, [markup]);
  return html`<div class="text" dir="auto" ref=${place}></div>`;
}

const Fetching = ({ what = "Fetching" }) => html`<p class="nothing" role="status">${what} …</p>`;

const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

const Failure = ({ error }) => error && html`<p class="notice" role="alert">${withCode(error.message)}</p>`;

/* The part of a text around the first match of a pattern. */
function around(text, pattern) {
  const flat = legible(text);
  const first = pattern ? flat.search(pattern) : -1;
  const start = first > 120 ? flat.slice(0, first - 80).lastIndexOf(" ") + 1 : 0;
  return (start ? "… " : "") + cut(flat.slice(start), 320);
}

/* Names and numbers at the head of a page. */
const Figures = ({ figures }) => html`<dl class="figures">${figures.map(([value, name]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

function Table({ caption, headings, rows, meant }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption>${caption}</caption>
    <thead><tr>${headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr></thead>
    <tbody>${rows.map(([first, ...others], at) => html`<tr class=${at === meant ? "meant" : ""}><th scope="row">${first}</th>${others.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/* A chart's numbers, made when they are asked for. */
function AsTable({ summary, make }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="table-view" onToggle=${(event) => setOpen(event.target.open)}><summary>${summary}</summary>${isOpen && html`<${Table} ...${make()} />`}</details>`;
}

/* An element, and how wide it is. */
function useWidth() {
  const place = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  return [place, width];
}

/* --- Changes --- */

/* A button that opens a dialog. `act` gets the form's data; what it throws is shown, and the dialog stays. */
function Asking({ name, title, does, cancel = "Cancel", risky = false, act, children }) {
  const dialog = useRef();
  const [error, setError] = useState(null);
  const open = () => {
    setError(null);
    dialog.current.querySelector("form").reset();
    dialog.current.showModal();
  };
  const send = async (event) => {
    event.preventDefault();
    try {
      await act(new FormData(event.target));
      dialog.current.close();
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<button type="button" class=${`quiet${risky ? " risky" : ""}`} onClick=${open}>${name}</button>
    <dialog ref=${dialog} aria-label=${title}>
      <h2>${title}</h2>
      <form onSubmit=${send}>${children}
        <${Failure} error=${error} />
        <div class="tools">
          <button type="button" onClick=${() => dialog.current.close()}>${cancel}</button>
          <button type="submit" class=${risky ? "danger" : "does"}>${does}</button>
        </div>
      </form>
    </dialog>`;
}

/* Lets the newer of two memories supersede the older one; `id`: the memory of the page. */
function Replace({ id, other, isCopy, attempt, name }) {
  const [newer, older] = [Math.max(id, other), Math.min(id, other)];
  const act = () => attempt(`memories/${newer}/${isCopy ? "copies" : "older"}/${older}`, "PUT", { undo: [`memories/${newer}/older/${older}`, "DELETE"] });
  const said = isCopy ? "Merge" : name ?? (newer === id ? "Mark as outdated" : "Mark this one as outdated");
  const why = isCopy ? `Memory ${newer} repeats all of memory ${older}: it replaces it, and gets its tags` : `Memory ${newer} replaces memory ${older}: searches leave it out from now on`;
  return html`<button type="button" class="small" title=${why} onClick=${act}>${said}</button>`;
}

/* --- Controls -------------------------------------------------------------------------------------------------------- */

function Choice({ name, label, value, options, onChoose }) {
  return html`<div class="field">
    <label for=${name}>${label}</label>
    <select id=${name} value=${value} onChange=${(event) => onChoose(event.target.value)}>
      ${options.map(([key, said]) => html`<option key=${key} value=${key} selected=${key === value}>${said}</option>`)}
    </select>
  </div>`;
}

/* `onChoose` gets what was entered, `onType` what is being typed. */
function Entry({ name, label, value, onChoose, onType = () => {}, type = "text", ...others }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const keep = (event) => {
    setTyped(event.target.value);
    onType(event.target.value);
  };
  return html`<div class="field">
    <label for=${name}>${label}</label>
    <input id=${name} type=${type} value=${typed} autocomplete="off" spellcheck="false" onInput=${keep} onChange=${(event) => onChoose(event.target.value)} ...${others} />
  </div>`;
}

/* Chooses a memory by its number, or by a part of its title or text. The input is that of a form. */
function Picker({ name, label, value = "", onChoose = () => {} }) {
  const [typed, setTyped] = useState("");
  const input = useRef();
  const isName = typed.trim().length > 1 && !/^\d+$/u.test(typed.trim());
  const { data } = useAnswer(isName && "memories", { text: typed.trim(), limit: 6 }, 0, TYPING);
  const choose = (id) => {
    input.current.value = id;
    setTyped("");
    onChoose(String(id));
  };
  return html`<div class="field"><label for=${name}>${label}</label>
    <input id=${name} name=${name} ref=${input} defaultValue=${value} required autocomplete="off" placeholder="such as 42, or words of it" onInput=${(event) => setTyped(event.target.value)} onChange=${(event) => /^\d*$/u.test(event.target.value.trim()) && onChoose(event.target.value.trim())} />
    ${isName && html`<ul class="plain picks" aria-label="Memories with these words">${(data?.memories ?? []).map(
      (memory) => html`<li key=${memory.memory_id}><button type="button" class="quiet" onClick=${() => choose(memory.memory_id)}><${Glyph} kind=${memory.memory_type} /> <span dir="auto">${nameOf(memory)}</span> <span class="facts">${nameOfKind(memory.memory_type)} ${memory.memory_id}</span></button></li>`,
    )}${data?.total === 0 && html`<li class="hint">No memory contains this.</li>`}</ul>`}
  </div>`;
}

const kindOptions = (all, files) => [["", all], ...Object.entries(KINDS), ...(files ? [["memory_file", "Memory files"]] : [])];

const size = (bytes) => (bytes < 1e6 ? `${number.format(Math.ceil(bytes / 1e3))} kB` : bytes < 1e9 ? `${number.format(Math.round(bytes / 1e5) / 10)} MB` : `${number.format(Math.round(bytes / 1e8) / 10)} GB`);

