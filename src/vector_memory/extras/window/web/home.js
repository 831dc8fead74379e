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
          ${(latest.data?.memories ?? []).map(
            (memory) => html`<li key=${pageOf(memory)} class="line">
              <${Glyph} kind=${memory.memory_type} />
              <div><a href=${pageOf(memory)} dir="auto">${cut(nameOf(memory), 90)}</a><${Facts} memory=${memory} /></div>
            </li>`,
          )}
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
      <p class="hint">A backup is the whole memory, ready to be restored. An export is text, which another memory can import.
        To free space, choose a session or an end date under <a href="#/memories">Memories</a> and
        delete what it shows.${data.is_file && " The file stays as large as it is: what is stored next uses the space."}</p>
      <div class="tools">
        ${data.is_file && html`<a class="button" href="api/backup" download="memory-backup.db">Back up</a>`}
        <a class="button" href="api/export" download="memories.jsonl">Export everything</a>
        ${!data.read_only && html`<${Import} change=${change} />`}
      </div>
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

const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

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
    [size(stats.database_bytes), "on disk"],
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

/* --- An empty memory --------------------------------------------------------------------------------------------------- */

const Empty = ({ place }) => html`<h1>Nothing is stored yet</h1>
  <p class="lead">This memory is empty: <bdi>${place}</bdi></p>
  <ol class="steps">
    <li><strong>Connect your agent.</strong> <code>vector-memory install claude</code>, or codex, cursor, vscode, desktop.</li>
    <li><strong>Work as usual.</strong> What the agent stores appears here within a second; this page need not be reloaded.</li>
    <li><strong>Or bring something in.</strong> <code>vector-memory ingest docs</code> stores a folder of Markdown files, <code>vector-memory import-sessions</code> your past sessions.</li>
  </ol>
  <p class="hint">Did you expect memories? Then this may be another project's memory: open the page in that project's folder, or with <code>--database-path</code>.</p>`;
