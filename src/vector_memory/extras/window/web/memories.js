/* All memories, or those of a session: filters, and a list of which only the visible part is drawn. */

const NAMED = { agent: "agent_id", session: "session_id", task: "task_code" };
const MORE = [...(report ? [] : ["task"]), "iteration", "category", "tag", "project", "state", "min-trust"];
const FILTERS = ["text", "kind", "agent", "session", "task", "since", "until", "iteration", "category", "tag", "project", "state", "min-trust"];
const VIEW = { charts: "", rows: "agent", colour: "kind", measure: "memories" }; // of the charts, in the address too
const STATES = [["", "Current"], ["pinned", "Pinned"], ["superseded", "Superseded"], ["any", "Superseded too"]];
const TRUSTED = [["", "Any"], ["normal", "Not low"], ["high", "High"]];

function Memories({ params, server, change }) {
  const filters = filtersIn(params);
  const given = Object.fromEntries(Object.keys(VIEW).map((name) => [name, params.get(name) ?? ""]));
  const view = useMemo(() => Object.fromEntries(Object.entries(VIEW).map(([name, usual]) => [name, given[name] || usual])), Object.values(given));
  const charts = report || given.charts;
  const shown = { ...filters, ...given };
  const choosing = (values) => rename(LIST, { ...shown, ...values });
  const choose = (name) => (value) => choosing({ [name]: value.trim() });
  const used = FILTERS.filter((name) => filters[name]);
  const [{ total, files, superseded }, setCounts] = useState({ total: null });
  const task = html`<${Named} name="task" label="Task" value=${filters.task} session=${filters.session} onChoose=${choose("task")} />`;
  return html`<${Head} session=${filters.session} />
    <form class="filters wide-first" role="search" aria-label="Filter memories" onSubmit=${(event) => event.preventDefault()}>
      <${Entry} name="text" label="Containing" type="search" value=${filters.text} onType=${soon(choose("text"))} onChoose=${choose("text")} placeholder=${report ? 'words, or "a phrase"' : "part of a title or text"} />
      <${Choice} name="kind" label="Kind" value=${filters.kind} options=${kindOptions("All kinds", server.files)} onChoose=${choose("kind")} />
      <${Named} name="agent" label="Agent" value=${filters.agent} session=${filters.session} onChoose=${choose("agent")} />
      ${report ? task : html`<${Named} name="session" label="Session" value=${filters.session} onChoose=${choose("session")} />`}
      <${Period} ...${filters} choose=${choosing} />
      <details class="more-filters" open=${MORE.some((name) => filters[name])}>
        <summary>More filters</summary>
        <div class="filters">
          ${!report && task}
          <${Entry} name="iteration" label="Iteration" value=${filters.iteration} onChoose=${choose("iteration")} placeholder="such as 2" />
          ${!report && html`<${Entry} name="category" label="Category" value=${filters.category} onChoose=${choose("category")} />`}
          <${Entry} name="tag" label="Tag" value=${filters.tag} onChoose=${choose("tag")} />
          ${!report && html`<${Entry} name="project" label="Project" value=${filters.project} onChoose=${choose("project")} placeholder="its folder" />`}
          ${!report && html`<${Choice} name="state" label="State" value=${filters.state} options=${STATES} onChoose=${choose("state")} />`}
          ${!report && html`<${Choice} name="min-trust" label="Trust" value=${filters["min-trust"]} options=${TRUSTED} onChoose=${choose("min-trust")} />`}
        </div>
      </details>
    </form>
    <div class="title"><p class="outcome" role="status">
      ${total !== null && `${inWords(total - files, files)}${used.length ? " match" : ""}`}
      ${used.length > 0 && html` · <a href=${link(LIST, given)}>Show all</a>`}
      ${superseded > 0 && html` · <a href=${link(LIST, { ...shown, state: "any" })}>${count(superseded, "superseded memory", "superseded memories")}</a> left out`}
    </p>
    <div class="tools">${!report && html`<a class="button quiet" href=${link("/feed", filters)}>Live feed</a>`}
    ${total > files && !report && html`<a class="button quiet" href=${link(LIST, { ...shown, charts: charts ? "" : "shown" })}>${charts ? "Only the list" : "Timeline and map"}</a>`}
    ${used.some((name) => filters[name] !== "any") && total > files && !server.read_only && html`<${DeleteListed} filters=${filters} total=${total - files} change=${change} />`}</div></div>
    ${charts && total > files && html`<${Charts} filters=${filters} view=${view} server=${server} choose=${choosing} />`}
    <${List} key=${query(filters)} filters=${filters} server=${server} onCounts=${setCounts} />`;
}

/* Memories and files in words. */
function inWords(memories, files) {
  const parts = [(memories > 0 || !files) && count(memories, "memory", "memories"), files > 0 && count(files, "memory file")];
  return parts.filter(Boolean).join(" and ");
}

const AT_ONCE_DELETED = 1000;

function DeleteListed({ filters, total, change }) {
  const few = total <= AT_ONCE_DELETED;
  const these = `${few ? "" : "the latest "}${count(Math.min(total, AT_ONCE_DELETED), "memory", "memories")}`;
  return html`<${Asking} name="Delete these …" title=${`Delete ${these}${inSentence(filters)}?`} does=${`Delete ${few ? number.format(total) : "these"}`} cancel="Keep them" risky=${true} act=${() => change(`deletion?${query(timed(filters))}`, "PUT")}>
    <p>Agents will no longer find them. You can undo this for ten seconds; then they are gone.</p>
  <//>`;
}

/* What filters name, as the end of a sentence. */
function inSentence({ state, kind, agent, session, task, iteration, category, tag, project, text, since, until }) {
  const on = (time) => (time.includes("T") ? moment(instant(time)) : day.format(instant(time)));
  const parts = [
    [["pinned", "superseded"].includes(state), `that are ${state}`], [kind, `of kind ${nameOfKind(kind)}`], [agent, `of agent ${agent}`], [session, `in session ${session}`], [task, `on task ${task}`],
    [iteration, `of iteration ${iteration}`], [category, `in category ${category}`], [tag, `with tag ${tag}`], [project, `of project ${project}`],
    [text, `that contain “${text}”`], [since, PERIODS[since] ? `from the ${PERIODS[since][0].toLowerCase()}` : since && `from ${on(since)}`], [until, until && `up to ${on(until)}`],
  ];
  return parts.filter(([given]) => given).map(([, said]) => ` ${said}`).join("");
}

const filtersIn = (params) => Object.fromEntries(FILTERS.map((name) => [name, params.get(name) ?? ""]));

/* Chooses a period up to now, or from one day to another. */
function Period({ since, until, choose }) {
  const value = PERIODS[since] ? since : since || until ? "dates" : "";
  const usual = asFilter(report ? Date.parse(report.memories[0].created_at) : Date.now() - 7 * DAY).slice(0, 10);
  const options = [["", "Any time"], ...(report ? [] : Object.entries(PERIODS).map(([name, [said]]) => [name, said])), ["dates", "From – until …"]];
  const pick = (name) => choose({ since: name === "dates" ? usual : name, until: "" });
  const dated = (text) => (text.includes("T") ? { type: "datetime-local", step: 1, key: "time" } : { type: "date", key: "day" });
  return html`<${Choice} name="period" label=${report ? "Time (UTC)" : "Time"} value=${value} options=${options} onChoose=${pick} />
    ${value === "dates" && html`<${Entry} name="since" label="From" ...${dated(since)} value=${since} onChoose=${(day) => choose({ since: day })} />
      <${Entry} name="until" label="Until" ...${dated(until)} value=${until} onChoose=${(day) => choose({ until: day })} />`}`;
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
      const { memories, ...counts } = await ask(`memories?${query({ ...timed(filters), limit: AT_ONCE, offset: page * AT_ONCE })}`);
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
    const seen = Math.max(0, Math.floor((scrollY - top()) / ROW / AROUND) * AROUND); // what is above may close and let it come up
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
    ${known.total === null && !known.error && html`<${Fetching} what="Fetching memories" />`}
    ${known.total === 0 && html`<p class="nothing">No memory matches. <a href=${link(LIST)}>Show all</a>, or use fewer filters.</p>`}
    <ul class="list plain" ref=${place} style=${{ height: `${(known.total ?? 0) * ROW}px` }} onKeyDown=${walk}>
      ${places.map((at) => {
        const [before, memory] = [known.rows.get(at - 1), known.rows.get(at)];
        const begins = memory && (!at || before) && dayOf(memory) !== (before && dayOf(before)) && dayOf(memory);
        return html`<li key=${memory ? pageOf(memory) : `place-${at}`} class="row" style=${{ transform: `translateY(${at * ROW}px)` }} aria-setsize=${known.total} aria-posinset=${at + 1}>
          ${begins && html`<span class="day">${begins}</span>`}
          ${memory ? html`<${Row} memory=${memory} text=${filters.text} session=${!filters.session} isLeaving=${memory.memory_id in server.deleting} />` : html`<p class="hint">Fetching …</p>`}
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

/* --- The feed ---------------------------------------------------------------------------------------------------------- */

const FED = 100;

const longDay = timesIn({ weekday: "long", day: "numeric", month: "long", year: "numeric" });

/* The day of a memory in words. */
function dayOf({ created_at: time }) {
  const date = new Date(time);
  const near = { [longDay.format(Date.now())]: "Today", [longDay.format(Date.now() - DAY)]: "Yesterday" };
  return (!report && near[longDay.format(date)]) || longDay.format(date);
}

/* What agents store, by day and the latest first, to be left open: what came since then is marked. */
function Feed({ params, server }) {
  const filters = filtersIn(params);
  const { data, error } = useAnswer("memories", { ...filters, limit: FED }, server.version);
  const [last, setLast] = useState(null);
  const newest = Math.max(0, ...(data?.memories ?? []).map((memory) => memory.memory_id ?? 0));
  useEffect(() => void (data && setLast((seen) => seen ?? newest)), [data]);
  const isNew = (memory) => last !== null && memory.memory_id > last;
  const fresh = (data?.memories ?? []).filter(isNew).length;
  useEffect(() => void (document.title = document.title.replace(/^(\(\d+\) )?/u, fresh ? `(${fresh}) ` : "")), [fresh]);
  const days = Object.entries(Object.groupBy(data?.memories ?? [], dayOf));
  return html`<h1>Live feed</h1>
    <p class="summary">What agents store${inSentence(filters)} appears here by itself: leave this page open. The number in the title of the tab counts what is new. <a href=${link(LIST, filters)}>As a list</a></p>
    <${Failure} error=${error} />
    ${!data && !error && html`<${Fetching} what="Fetching memories" />`}
    ${data?.total === 0 && html`<p class="nothing">Nothing is here yet. It appears as soon as an agent stores it.</p>`}
    <p class="outcome" role="status">${fresh > 0 && html`${count(fresh, "new memory", "new memories")} since you opened this page <button type="button" class="small" onClick=${() => setLast(newest)}>I have seen them</button>`}</p>
    ${days.map(([name, memories]) => html`<section key=${name} aria-label=${name}><h2 class="day-head">${name} <span class="hint">${number.format(memories.length)}</span></h2>
      <ul class="plain">${memories.map((memory) => html`<li key=${pageOf(memory)} class=${`fed${isNew(memory) ? " new" : ""}`}><${Row} memory=${memory} text="" session=${!filters.session} isLeaving=${memory.memory_id in server.deleting} /></li>`)}</ul></section>`)}
    ${data?.total > FED && html`<p class="hint">The latest ${FED} of ${number.format(data.total)}. <a href=${link(LIST, filters)}>All of them</a></p>`}`;
}
