/* The overview: what happened lately, and whether the memory is healthy. */

const ACTIVE_SECONDS = 10 * 60;
const LATEST = 6;

const isActive = (session) => secondsSince(session.latest_activity) < ACTIVE_SECONDS;

function search(event) {
  event.preventDefault();
  location.hash = link("/search", { q: event.target.elements.q.value });
}

function Home({ server, change }) {
  const { data, error } = useAnswer("home", {}, server.version);
  const latest = useAnswer("memories", { limit: LATEST }, server.version);
  const health = useRef();
  const checkup = useCheckup(data?.stats.total_memories > 0);
  if (!data) return html`<${Failure} error=${error} />`;
  if (!data.stats.total_memories) return html`<${Empty} place=${data.place} />${!data.read_only && html`<${Import} change=${change} />`}`;
  return html`<h1>Overview</h1>
    <p class="summary">The memory <bdi>${data.place}</bdi>${data.read_only ? ", read-only" : ""}</p>
    <form role="search" aria-label="Search the memory" class="ask" onSubmit=${search}>
      <input name="q" class="question" type="search" aria-label="Question" autocomplete="off" placeholder="Ask as an agent would" />
      <button type="submit">Search</button>
    </form>
    <${Failure} error=${error} />
    <${Figures} figures=${figuresOfMemory({ ...data, checkup, health })} />
    <${Activity} hours=${data.hours} since=${data.since} until=${data.until} />
    <div class="halves">
      <section class="panel" aria-labelledby="sessions-title">
        <h2 id="sessions-title">Sessions</h2>
        <p class="hint">Latest first. An agent's work on one thing is a session.</p>
        <${Sessions} sessions=${data.sessions} total=${data.total_sessions} />
      </section>
      <section class="panel" aria-labelledby="latest-title">
        <h2 id="latest-title">Recent</h2>
        <ul class="plain">
          ${(latest.data?.memories ?? []).map((memory) => html`<${Line} key=${pageOf(memory)} memory=${memory}><${Facts} memory=${memory} /><//>`)}
        </ul>
        <a href="#/memories">All ${number.format(data.stats.total_memories)} memories</a>
      </section>
    </div>
    ${data.stats.recalls.length > 0 && html`<${Recalls} recalls=${data.stats.recalls} />`}
    <section class="panel" aria-labelledby="health-title" ref=${health} tabindex="-1">
      <h2 id="health-title">Health</h2>
      <${Health} ...${checkup} />
    </section>
    <section class="panel" aria-labelledby="copies-title">
      <h2 id="copies-title">Copies and space</h2>
      <p class="hint">A backup is the whole memory, ready to be restored. An export is text, which another memory can import. <a href="#/space">Space</a> shows what is large, and what may be deleted.</p>
      <div class="tools">
        ${data.is_file && html`<a class="button" href="api/backup" download="memory-backup.db">Back up</a>`}
        <a class="button" href="api/export" download="memories.jsonl">Export everything</a>
        ${!data.read_only && html`<${Import} change=${change} />`}
      </div>
      <details class="table-view"><summary>Commands that bring something in</summary><${Ingoing} /></details>
    </section>`;
}

function Import({ change }) {
  const [said, setSaid] = useState("");
  const add = async (form) => {
    const { added, skipped } = await change("import", "POST", { body: { lines: await form.get("file").text(), session: form.get("session").trim() } });
    setSaid(`Added ${count(added, "memory", "memories")}; ${number.format(skipped)} already existed.`);
  };
  return html`<${Asking} name="Import …" title="Import an exported session" does="Import" act=${add}>
      <p class="hint">What is already stored is skipped. If a line is invalid, nothing changes.</p>
      <label for="import-file">File written by an export (.jsonl)</label><input id="import-file" name="file" type="file" accept=".jsonl" required />
      <label for="import-session">Into this session</label><input id="import-session" name="session" placeholder="the one in the file" />
    <//> <span role="status">${said}</span>`;
}

/* What the doctor finds; it takes a while, so the overview does not wait for it. */
function useCheckup(wanted) {
  const [asked, setAsked] = useState({});
  const { data, error, isOld } = useAnswer(wanted ? "checkup" : null, asked, 0);
  return { data, error, isWaiting: isOld, again: () => setAsked({ again: Date.now() }) };
}

function Health({ data, error, isWaiting, again }) {
  const fine = data && !data.findings.length && `All ${data.checks} checks of vector-memory doctor passed.`;
  return html`<div class="title"><p class="hint" role="status">
        ${isWaiting ? "Checking the memory …" : html`${fine} ${data && html`Checked <${At} time=${data.examined_at} />.`}`}</p>
      <button type="button" class="quiet" disabled=${isWaiting} onClick=${again}>Check again</button></div>
    <${Failure} error=${error} />
    <ul class="plain">${(data?.findings ?? []).map(
      (one) => html`<li key=${one.name} class="line"><div>
        <p><span class=${`badge ${one.state}`}>${one.state}</span> <strong>${one.name}</strong>: ${withCode(one.message)}</p>
        ${one.advice && html`<p class="facts">${withCode(one.advice)}</p>`}</div></li>`,
    )}</ul>`;
}

/* --- Space ------------------------------------------------------------------------------------------------------------- */

const KEPT_FREE = 1e6; // fewer bytes are not worth the wait

function Space({ server, change }) {
  const { data, error } = useAnswer("space", {}, server.version);
  const review = useAnswer("review", {}, server.version);
  if (!data) return html`<h1>Space</h1>${error ? html`<${Failure} error=${error} />` : html`<${Fetching} what="Measuring" />`}`;
  const { kinds, sessions, superseded, room } = data;
  const all = (some, at) => some.reduce((sum, each) => sum + each[at], 0);
  const rows = (named, some) => some.map(([name, memories, bytes]) => [named(name), number.format(memories), size(bytes)]);
  const unread = (review.data?.lines ?? []).filter((line) => !line.later).length;
  return html`<h1>Space</h1>
    <p class="summary">${room && `The file has ${size(room.size)}, of which ${room.unused ? size(room.unused) : "nothing"} is unused. `}The texts have ${size(all(kinds, 2))}; the rest is what searches need: vectors and words.</p>
    <section class="panel" aria-labelledby="old-title"><h2 id="old-title">What may be deleted</h2>
      <ul class="plain">
        <li>${superseded.length ? html`<a href=${link("/memories", { state: "superseded" })}>${count(all(superseded, 1), "superseded memory", "superseded memories")}</a>, ${size(all(superseded, 2))} of text: a later one replaced each` : "No memory is superseded."}</li>
        <li>${unread > 0 ? html`<a href="#/review">${count(unread, "memory", "memories")}</a> that nobody has read in 30 days` : review.data ? "No old memory is unread." : "Fetching what is unread …"}</li>
        <li>All of a session, an agent or a time: choose it under <a href="#/memories">Memories</a>, then <em>Delete these</em></li>
      </ul></section>
    <div class="halves">
      <section class="panel sizes" aria-labelledby="large-title"><h2 id="large-title">Largest sessions</h2>
        <${Table} caption="Sessions by size" headings=${["Session", "Memories", "Texts"]} rows=${rows((name) => (name ? html`<a href=${link("/memories", { session: name })} dir="auto">${name}</a>` : "without a session"), sessions)} /></section>
      <section class="panel sizes" aria-labelledby="kinds-title"><h2 id="kinds-title">Kinds</h2>
        <${Table} caption="Kinds by size" headings=${["Kind", "Memories", "Texts"]} rows=${rows((kind) => html`<${Glyph} kind=${kind} /> <a href=${link("/memories", { kind })}>${nameOfKind(kind)}</a>`, kinds)} /></section>
    </div>
    ${room && html`<section class="panel" aria-labelledby="file-title"><h2 id="file-title">The file</h2>
      <p class="hint">What was deleted leaves unused space in the file: what is stored next uses it. Shrinking gives it back to the disk.
        It needs ${size(room.needed)} for a moment; ${size(room.free)} are free. Agents can read meanwhile, and wait to store.</p>
      ${!server.read_only && html`<div class="tools">${room.unused < KEPT_FREE ? html`<p>There is nothing to gain: less than ${size(KEPT_FREE)} is unused.</p>`
        : html`<${Asking} name="Shrink the file …" title=${`Make the file ${size(room.unused)} smaller?`} does="Shrink" act=${() => change("space", "PUT")}><p>No memory changes. Agents can read meanwhile, and wait to store.</p><//>`}</div>`}
    </section>`}`;
}

function figuresOfMemory({ stats, sessions, checkup, health }) {
  const active = sessions.filter(isActive).length;
  const lacking = stats.without_vectors - stats.pending_vectors;
  const vectors = stats.pending_vectors
    ? [number.format(stats.pending_vectors), "vectors being computed"]
    : lacking > 0
      ? [number.format(lacking), "lack vectors: run vector-memory backfill"]
      : ["Up to date", "search index"];
  return [
    [number.format(stats.total_memories), stats.total_memories === 1 ? "memory" : "memories"],
    [number.format(stats.total_sessions), `session${stats.total_sessions === 1 ? "" : "s"}${active ? `, ${active} active now` : ""}`],
    [number.format(stats.total_agents), stats.total_agents === 1 ? "agent" : "agents"],
    vectors,
    [size(stats.database_bytes), html`<a href="#/space">on disk</a>`],
    found(checkup, () => health.current.focus()),
  ];
}

const Recalls = ({ recalls }) => html`<section class="panel" aria-labelledby="recalls-title">
    <h2 id="recalls-title">Recall</h2>
    <p class="hint">What hooks have told agents of earlier sessions. It was used if an agent read a memory in it within a day.</p>
    <${Table} caption="By client" headings=${["Client", "Sessions", "Tokens a session", "Recaps", "Recalls", "Used"]}
      rows=${recalls.map((one) => [one.client, ...[one.sessions, one.tokens_per_session, one.recaps, one.recalls, one.used].map((n) => number.format(n))])} />
  </section>`;

function found({ data, error }, show) {
  if (!data) return error ? ["–", "health: not checked"] : ["Checking …", "health"];
  if (!data.findings.length) return ["Healthy", "all checks passed"];
  return [number.format(data.findings.length), html`<button type="button" class="link" onClick=${show}>health finding${data.findings.length === 1 ? "" : "s"}</button>`];
}

function Sessions({ sessions, total }) {
  return html`<ul class="plain">
      ${sessions.map(
        (session) => html`<li key=${session.session_id} class="session">
          <a href=${link("/memories", { session: session.session_id })} dir="auto">${session.session_id}</a>
          ${isActive(session) && html`<span class="badge">active</span>`}
          <span class="aside">${count(session.memory_count, "memory", "memories")}, <${At} time=${session.latest_activity} /></span>
          <p class="facts">${agentsOf(session)}</p>
        </li>`,
      )}
    </ul>
    ${total > sessions.length && html`<p class="hint">${number.format(total - sessions.length)} earlier sessions: choose one under Memories.</p>`}`;
}

function agentsOf(session) {
  const named = session.agents.slice(0, 4).join(", ");
  return session.agent_count > 4 ? `${named} and ${count(session.agent_count - 4, "other agent")}` : named;
}

/* --- Stores by hour and agent ---------------------------------------------------------------------------------------- */

const dayName = timesIn({ weekday: "long", day: "numeric", month: "long" });

function Activity({ hours, since, until }) {
  const start = Date.parse(since);
  const bars = Array.from({ length: 24 }, (_, at) => ({ at, time: new Date(start + at * HOUR), stored: [], total: 0 }));
  const totals = new Map();
  for (const { hour, agent_id: agent, memories } of hours) {
    const bar = bars[Math.round((Date.parse(`${hour}:00Z`) - start) / HOUR)];
    if (!bar) continue;
    bar.stored.push([agent, memories]);
    bar.total += memories;
    totals.set(agent, (totals.get(agent) ?? 0) + memories);
  }
  const agents = [...totals].sort(([a, m], [b, n]) => n - m || collator.compare(a, b)).map(([agent]) => agent);
  const colour = (agent) => Math.min(agents.indexOf(agent), OTHERS);
  const total = [...totals.values()].reduce((sum, n) => sum + n, 0);
  const isNow = Date.now() - Date.parse(until) < HOUR;
  return html`<section class="panel" aria-labelledby="activity-title">
    <h2 id="activity-title">${isNow ? "The last 24 hours" : `The last day with memories: ${dayName.format(new Date(until))}`}</h2>
    <p class="hint">${count(total, "memory", "memories")} stored by ${count(agents.length, "agent")}, by hour.</p>
    <ul class="legend">
      ${agents.slice(0, OTHERS).map((agent, at) => html`<li key=${agent}><${Swatch} at=${at} /> <bdi>${cut(agent, 30)}</bdi></li>`)}
      ${agents.length > OTHERS && html`<li><${Swatch} at=${OTHERS} /> ${count(agents.length - OTHERS, "other")}</li>`}
    </ul>
    <${Bars} bars=${bars} colour=${colour} />
    <${AsTable} summary="As a table" make=${() => ({ caption: "Stored by hour and agent", headings: ["Hour", "Memories", "By"], rows: bars.filter((bar) => bar.total).map((bar) => [clock.format(bar.time), bar.total, said(bar)]) })} />
  </section>`;
}

const said = (bar) => bar.stored.map(([agent, n]) => `${agent} ${n}`).join(", ");

const CHART = { height: 120, foot: 20, step: 70 };

function Bars({ bars, colour }) {
  const [place, width] = useWidth();
  const most = Math.max(1, ...bars.map((bar) => bar.total));
  const column = width / bars.length;
  const every = Math.max(1, Math.ceil(CHART.step / column));
  const rects = (bar) => {
    let top = CHART.height;
    const sorted = bar.stored.toSorted(([a], [b]) => colour(a) - colour(b));
    return sorted.map(([agent, n]) => {
      const height = (n / most) * (CHART.height - 16);
      top -= height;
      return html`<rect key=${agent} class=${`d${colour(agent)}`} x=${bar.at * column + 1} y=${top} width=${Math.max(1, column - 2)} height=${Math.max(0.5, height - 0.5)} />`;
    });
  };
  return html`<div class="bars" ref=${place}>
    ${width > 0 &&
    html`<svg width=${width} height=${CHART.height + CHART.foot} role="img" aria-label="Memories stored in each hour; the table below has the numbers">
      <line class="axis" x1="0" x2=${width} y1=${CHART.height} y2=${CHART.height} />
      ${bars.map(
        (bar) => html`<g key=${bar.at}>
          <title>${clock.format(bar.time)}: ${said(bar) || "nothing"}</title>
          <rect class="back" x=${bar.at * column} y="0" width=${column} height=${CHART.height} />
          ${rects(bar)}
          ${bar.total > 0 && column > 18 && html`<text x=${(bar.at + 0.5) * column} y=${CHART.height - (bar.total / most) * (CHART.height - 16) - 4} text-anchor="middle">${bar.total}</text>`}
          ${bar.at % every === 0 && html`<text x=${bar.at * column + 1} y=${CHART.height + 15}>${clock.format(bar.time)}</text>`}
        </g>`,
      )}
    </svg>`}
  </div>`;
}

/* Commands that bring something in. */
const Ingoing = () => html`<dl class="ingoing">${[
  ["a folder of Markdown files", "vector-memory ingest docs"], ["your past sessions", "vector-memory import-sessions"], ["an export", "vector-memory import memories.jsonl"], ["one text", 'vector-memory store "We deploy on Fridays."'],
].map(([what, text]) => html`<div><dt>${what}</dt><dd><${Command} text=${text} /></dd></div>`)}</dl>`;

/* --- An empty memory --------------------------------------------------------------------------------------------------- */

const Empty = ({ place }) => html`<h1>Nothing is stored yet</h1>
  <p class="lead">This memory is empty: <bdi>${place}</bdi></p>
  <ol class="steps">
    <li><strong>Connect your agent.</strong> <${Command} text="vector-memory install claude" />, or codex, cursor, vscode, desktop.</li>
    <li><strong>Work as usual.</strong> What the agent stores appears here within a second; this page need not be reloaded.</li>
    <li><strong>Or bring something in.</strong> Each of these in your project's folder:
      <${Ingoing} /></li>
  </ol>
  <p class="hint">Did you expect memories? Then this may be another project's memory: open the page in that project's folder, or with <code>--database-path</code>.</p>`;
