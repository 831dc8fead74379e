/* All memories, or those of a session: filters, and a list of which only the visible part is drawn. */

const NAMED = { agent: "agent_id", session: "session_id", task: "task_code" };
const MORE = ["iteration", "category", "tag", "project", "since", "until", "state", "min-trust"];
const FILTERS = ["text", "kind", "agent", "session", "task", ...MORE];
const STATES = [["", "Current"], ["pinned", "Pinned"], ["superseded", "Superseded"], ["any", "Superseded too"]];
const TRUSTED = [["", "Any"], ["normal", "Not low"], ["high", "High"]];

function Memories({ params, server, change }) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, params.get(name) ?? ""]));
  const charts = report || params.get("charts");
  const shown = { ...filters, charts: params.get("charts") };
  const choosing = (values) => rename(LIST, { ...shown, ...values });
  const choose = (name) => (value) => choosing({ [name]: value.trim() });
  const used = FILTERS.filter((name) => filters[name]);
  const dated = (name) => (filters[name].includes("T") ? { key: `${name}-time`, type: "datetime-local", step: 1 } : { key: name, type: "date" });
  const [{ total, files, superseded }, setCounts] = useState({ total: null });
  return html`<${Head} session=${filters.session} />
    <form class="filters wide-first" role="search" aria-label="Filter memories" onSubmit=${(event) => event.preventDefault()}>
      <${Entry} name="text" label="Containing" type="search" value=${filters.text} onType=${soon(choose("text"))} onChoose=${choose("text")} placeholder=${report ? 'words, or "a phrase"' : "part of a title or text"} />
      <${Choice} name="kind" label="Kind" value=${filters.kind} options=${kindOptions("All kinds", server.files)} onChoose=${choose("kind")} />
      <${Named} name="agent" label="Agent" value=${filters.agent} session=${filters.session} onChoose=${choose("agent")} />
      ${!report && html`<${Named} name="session" label="Session" value=${filters.session} onChoose=${choose("session")} />`}
      <${Named} name="task" label="Task" value=${filters.task} session=${filters.session} onChoose=${choose("task")} />
      <details class="more-filters" open=${MORE.some((name) => filters[name])}>
        <summary>More filters</summary>
        <div class="filters">
          <${Entry} name="iteration" label="Iteration" value=${filters.iteration} onChoose=${choose("iteration")} placeholder="such as 2" />
          ${!report && html`<${Entry} name="category" label="Category" value=${filters.category} onChoose=${choose("category")} />`}
          <${Entry} name="tag" label="Tag" value=${filters.tag} onChoose=${choose("tag")} />
          ${!report && html`<${Entry} name="project" label="Project" value=${filters.project} onChoose=${choose("project")} placeholder="its folder" />`}
          <${Entry} name="since" label="From (UTC)" ...${dated("since")} value=${filters.since} onChoose=${choose("since")} />
          <${Entry} name="until" label="Until (UTC)" ...${dated("until")} value=${filters.until} onChoose=${choose("until")} />
          ${!report && html`<${Choice} name="state" label="State" value=${filters.state} options=${STATES} onChoose=${choose("state")} />`}
          ${!report && html`<${Choice} name="min-trust" label="Trust" value=${filters["min-trust"]} options=${TRUSTED} onChoose=${choose("min-trust")} />`}
        </div>
      </details>
    </form>
    <div class="title"><p class="outcome" role="status">
      ${total !== null && `${inWords(total - files, files)}${used.length ? " match" : ""}`}
      ${used.length > 0 && html` · <a href=${link(LIST, { charts: shown.charts })}>Show all</a>`}
      ${superseded > 0 && html` · <a href=${link(LIST, { ...shown, state: "any" })}>${count(superseded, "superseded memory", "superseded memories")}</a> left out`}
    </p>
    <div class="tools">${total > files && !report && html`<a class="button quiet" href=${link(LIST, { ...filters, charts: charts ? "" : "shown" })}>${charts ? "Only the list" : "Timeline and map"}</a>`}
    ${used.some((name) => filters[name] !== "any") && total > files && !server.read_only && html`<${DeleteListed} filters=${filters} total=${total - files} change=${change} />`}</div></div>
    ${charts && total > files && html`<${Charts} filters=${filters} server=${server} choose=${choosing} />`}
    <${List} key=${query(filters)} filters=${filters} server=${server} onCounts=${setCounts} />`;
}

/* Memories and files in words. */
function inWords(memories, files) {
  const parts = [(memories > 0 || !files) && count(memories, "memory", "memories"), files > 0 && count(files, "memory file")];
  return parts.filter(Boolean).join(" and ");
}

const AT_ONCE_DELETED = 1000;

function DeleteListed({ filters, total, change }) {
  const these = total > AT_ONCE_DELETED ? `the latest ${count(AT_ONCE_DELETED, "memory", "memories")}` : count(total, "memory", "memories");
  return html`<${Asking} name="Delete these …" title=${`Delete ${these}?`} does="Delete" cancel="Keep them" risky=${true} act=${() => change(`deletion?${query(filters)}`, "PUT")}>
    <p>Agents will no longer find them. You can undo this for ten seconds; then they are gone.</p>
  <//>`;
}

/* Calls a function when nothing was typed for a while. */
function soon(act) {
  return (typed) => {
    clearTimeout(soon.timer);
    soon.timer = setTimeout(() => act(typed), 200);
  };
}

function Head({ session }) {
  if (report) return html`<p class="kicker">Session report</p><h1 dir="auto">${report.session}</h1><${Written} />`;
  if (!session) return html`<h1>Memories</h1><p class="summary">All that agents have stored, latest first.</p>`;
  return html`<p class="kicker">Session</p>
    <div class="title"><h1 dir="auto">${session}</h1>
      <div class="tools">
        <a class="button" href=${`api/export?${query({ session })}`} download=${`${session}.jsonl`}>Export</a>
      </div>
    </div>`;
}

/* When a report was written, and what it leaves out. */
function Written() {
  const lacking = report.memories.length - report.texts;
  const [first, last] = [report.memories[0], report.memories.at(-1)].map((memory) => moment(memory.created_at));
  return html`<p class="summary">${first} to ${last}. Written ${moment(report.written)}, UTC.</p>
    ${lacking > 0 && html`<p class="notice">The texts of the ${count(lacking, "oldest memory", "oldest memories")} are not in this page, which would become too large, and are not searched.</p>`}`;
}

/* A field with the names in use. */
function Named({ name, label, value, session, onChoose }) {
  const [part, setPart] = useState(value);
  const [isWanted, want] = useState(false); // names of a large memory take a while
  const { data } = useAnswer(isWanted && `names/${NAMED[name]}`, { part: part === value ? "" : part, session: name === "session" ? "" : session });
  return html`<${Entry} name=${name} label=${label} value=${value} onChoose=${onChoose} onType=${setPart} onFocus=${() => want(true)} list=${`${name}-names`} placeholder="any" />
    <datalist id=${`${name}-names`}>${(data?.names ?? []).map((one) => html`<option key=${one} value=${one} />`)}</datalist>`;
}

/* --- The list ---------------------------------------------------------------------------------------------------------- */

const ROW = 84;
const AT_ONCE = 100;
const AROUND = 6; // rows drawn above and below what is visible, and scrolled before others are drawn

/* Memories by their places, of which only those that were looked at are here. */
function useRows(filters, version, onCounts) {
  const [known, setKnown] = useState({ total: null, files: 0, superseded: 0, rows: new Map(), error: null });
  const asking = useRef(new Map()); // whether to ask again for a page that is being answered
  const load = useCallback(async (page, again = false) => {
    if (asking.current.has(page)) return void asking.current.set(page, again || asking.current.get(page));
    asking.current.set(page, false);
    try {
      const { memories, ...counts } = await ask(`memories?${query({ ...filters, limit: AT_ONCE, offset: page * AT_ONCE })}`);
      setKnown((last) => {
        const rows = page === 0 ? shifted(last, memories, counts.total) : new Map(last.rows);
        memories.forEach((memory, at) => rows.set(page * AT_ONCE + at, memory));
        return { ...counts, rows, error: null };
      });
    } catch (error) {
      setKnown((last) => ({ ...last, error }));
    }
    const isStale = asking.current.get(page);
    asking.current.delete(page);
    if (isStale) load(page);
  }, []);
  useEffect(() => {
    if (version !== null) load(0, true);
  }, [version]);
  useEffect(() => onCounts(known), [known.total, known.files, known.superseded]);
  return [known, load];
}

/* The known rows after others came before them, or some went: then only those that cannot have moved stay. */
function shifted(last, newest, total) {
  if (last.total === null) return new Map();
  const before = last.rows.get(0);
  const first = newest.findIndex((memory) => before && pageOf(memory) === pageOf(before));
  if (first < 0 || total !== last.total + first) return new Map();
  return new Map([...last.rows].map(([at, memory]) => [at + first, memory]));
}

function List({ filters, server, onCounts }) {
  const [known, load] = useRows(filters, server.version, onCounts);
  const place = useRef();
  const [[first, last], setRange] = useState([0, 20]);
  const top = () => place.current.getBoundingClientRect().top + scrollY;
  const look = () => {
    const seen = Math.floor((scrollY - top()) / ROW / AROUND) * AROUND;
    const range = [Math.max(0, seen - AROUND), seen + Math.ceil(innerHeight / ROW) + 2 * AROUND];
    setRange((last) => (last[0] === range[0] && last[1] === range[1] ? last : range));
  };
  useEffect(() => {
    look();
    for (const name of ["scroll", "resize"]) addEventListener(name, look, { passive: true });
    return () => ["scroll", "resize"].forEach((name) => removeEventListener(name, look));
  }, [known.total]);
  const end = Math.min(last, known.total ?? 0);
  useEffect(() => {
    for (let page = Math.floor(first / AT_ONCE); page * AT_ONCE < end; page += 1) {
      const lacks = Array.from({ length: AT_ONCE }, (_, at) => page * AT_ONCE + at).some((at) => at >= first && at < end && !known.rows.has(at));
      if (lacks) load(page);
    }
  }, [first, end, known]);
  useKeptPlace(known, place, top);
  useLeftPlace();
  const places = Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at);
  return html`<${Failure} error=${known.error} />
    ${known.total === 0 && html`<p class="nothing">No memory matches. <a href=${link(LIST)}>Show all</a>, or use fewer filters.</p>`}
    <ul class="list plain" ref=${place} style=${{ height: `${(known.total ?? 0) * ROW}px` }} onKeyDown=${walk}>
      ${places.map((at) => {
        const memory = known.rows.get(at);
        return html`<li key=${memory ? pageOf(memory) : `place-${at}`} class="row" style=${{ transform: `translateY(${at * ROW}px)` }} aria-setsize=${known.total} aria-posinset=${at + 1}>
          ${memory && html`<${Row} memory=${memory} text=${filters.text} session=${!filters.session} isLeaving=${memory.memory_id in server.deleting} />`}
        </li>`;
      })}
    </ul>`;
}

/* Keeps what is on the screen where it is when memories come above it. */
function useKeptPlace(known, place, top) {
  const held = useRef(null);
  useEffect(() => {
    const before = held.current;
    const [at, memory] = [...known.rows].find(([one]) => one * ROW >= scrollY - top()) ?? [];
    if (before && scrollY > top()) {
      const moved = [...known.rows].find(([, one]) => pageOf(one) === before.page)?.[0];
      if (moved !== undefined && moved !== before.at) scrollBy({ top: (moved - before.at) * ROW, behavior: "instant" });
    }
    held.current = memory ? { at, page: pageOf(memory) } : null;
  }, [known]);
}

const left = new Map(); // how far lists were scrolled, by entry of the history

/* Goes back to where a list was left, as soon as the page is as long again. */
function useLeftPlace() {
  useEffect(() => {
    const key = history.state?.key ?? Math.random();
    history.replaceState({ key }, "");
    const [y, end] = [left.get(key) ?? 0, performance.now() + 1000];
    const goBack = () => {
      if (scrollY >= y - 1 || performance.now() > end) return;
      scrollTo({ top: y, behavior: "instant" });
      requestAnimationFrame(goBack);
    };
    goBack();
    const keep = () => left.set(key, scrollY);
    addEventListener("scroll", keep, { passive: true });
    return () => removeEventListener("scroll", keep);
  }, []);
}

/* A row is drawn again only if something in it is new, and not whenever the list is scrolled. */
class Row extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render({ memory, text, session, isLeaving }) {
    const pattern = finder(text);
    return html`<a class=${`entry${isLeaving ? " leaving" : ""}`} href=${pageOf(memory)}>
      <${Glyph} kind=${memory.memory_type} />
      <span class="name" dir="auto"><${Marked} text=${cut(nameOf(memory), 160)} pattern=${pattern} />${Boolean(memory.pinned) && html` <span class="badge">pinned</span>`}${memory.superseded_by?.length > 0 && html` <span class="badge">superseded</span>`}</span>
      <${Facts} memory=${memory} session=${session} />
      <p class="excerpt" dir="auto"><${Marked} text=${memory.excerpt ?? cut(beginningOf(memory), 200)} pattern=${pattern} /></p>
    </a>`;
  }
}

/* The arrow keys go from row to row. */
function walk(event) {
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest(".row");
  if (!way || !row) return;
  const places = [...row.parentElement.children].sort((a, b) => Number(a.ariaPosInSet) - Number(b.ariaPosInSet));
  places[places.indexOf(row) + way]?.querySelector("a")?.focus();
  event.preventDefault();
}
