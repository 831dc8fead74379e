/* Search as agents do: the same results in the same order, how they were measured, and the answer that an agent gets. */

const TYPING = 50; // milliseconds; a search that is out of date is cancelled, here and on the server

const GRAINS = { chunk: "Passages", section: "Sections", document: "Whole memories" };
const MODES = [["", "Meaning and words"], ["vector", "Meaning only"], ["keyword", "Words only"]];
const VIEWS = { results: "Results", why: "Why, or why not", agent: "As an agent gets it" };
const MATCHES = { strong: "strong match", related: "related", weak: "weak" };
const FIELDS = ["q", "grain", "kind", "mode", "agent", "session", "since", "until", "min-trust", "view", "missed", "form"];

function Search({ params, server }) {
  const asked = Object.fromEntries(FIELDS.map((name) => [name, params.get(name) ?? ""]));
  asked.grain ||= "chunk";
  asked.view ||= "results";
  const choose = (name) => (value) => rename("/search", { ...asked, [name]: value });
  if (asked.kind === "memory_file") asked.view = "results"; // the others are of the store
  const { q, grain, kind, mode, agent, session, since, until } = asked;
  const question = { q, grain, kind, mode, agent, session, since, until, "min-trust": asked["min-trust"] };
  return html`<h1 class="unseen">Search</h1>
    <form role="search" aria-label="Search the memory" onSubmit=${(event) => event.preventDefault()}>
      <label for="question">Ask as an agent would</label>
      <input id="question" class="question" type="search" value=${q} autocomplete="off" spellcheck="false" placeholder="a question, a phrase, a name" onInput=${(event) => choose("q")(event.target.value)} />
      <div class="filters">
        <div class="field"><span class="label" id="grain-label">Find</span><div class="segments" role="group" aria-labelledby="grain-label">
          ${Object.entries(GRAINS).map(([name, said]) => html`<button type="button" aria-pressed=${name === grain} onClick=${() => choose("grain")(name)}>${said}</button>`)}
        </div></div>
        <${Choice} name="kind" label="In" value=${kind} options=${kindOptions("All kinds", server.files)} onChoose=${choose("kind")} />
        <${Choice} name="mode" label="By" value=${mode} options=${MODES} onChoose=${choose("mode")} />
        <${Entry} name="agent" label="Stored by" value=${agent} onChoose=${choose("agent")} placeholder="any agent" />
        <${Entry} name="session" label="In session" value=${session} onChoose=${choose("session")} placeholder="any session" />
        <${Entry} name="since" label="From (UTC)" type="date" value=${since} onChoose=${choose("since")} />
        <${Entry} name="until" label="Until (UTC)" type="date" value=${until} onChoose=${choose("until")} />
        <${Choice} name="min-trust" label="Trust" value=${asked["min-trust"]} options=${TRUSTED} onChoose=${choose("min-trust")} />
      </div>
    </form>
    ${q.trim()
      ? html`${kind !== "memory_file" && html`<div class="segments views" role="group" aria-label="View">
          ${Object.entries(VIEWS).map(([name, said]) => html`<button type="button" aria-pressed=${name === asked.view} onClick=${() => choose("view")(name)}>${said}</button>`)}
        </div>`}
        ${asked.view === "results" && html`<${Results} question=${question} version=${server.version} />`}
        ${asked.view === "why" && html`<${Why} question=${question} missed=${asked.missed} choose=${choose("missed")} version=${server.version} />`}
        ${asked.view === "agent" && html`<${AgentView} question=${question} form=${asked.form} choose=${choose("form")} version=${server.version} />`}`
      : html`<p class="nothing">${asked.missed ? `Type the question that should have found memory ${asked.missed}.` : "Type a question: results come while you type, in the order in which agents get them."}</p>`}`;
}

/* A pattern for words that begin like one of these stems, or null. */
function wordsLike(stems) {
  const escaped = stems.map(escapedForPattern);
  return escaped.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})[\\p{L}\\p{N}]*`, "giu") : null;
}

function Results({ question, version }) {
  const { data, error, isOld } = useAnswer("search", question, version, TYPING);
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<p class="nothing" role="status">Searching …</p>`;
  const pattern = wordsLike(data.terms);
  const said = data.confidence && data.confidence !== "strong" ? " Nothing is close to the question." : "";
  return html`<p class="outcome" role="status">${count(data.results.length, "result")}.${said}${data.weak > 0 && ` ${number.format(data.weak)} weak ones are left out.`}</p>
    <ol class=${`plain results${isOld ? " old" : ""}`}>
      ${data.results.map((result) => html`<${Result} key=${`${result.memory_type}-${result.unit}-${result.path}`} result=${result} pattern=${pattern} />`)}
    </ol>
    ${data.results.length === 0 && html`<p class="nothing">No memory matches. Use other words, or search in all kinds. ${data.message}</p>`}`;
}

const figure = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));

function Result({ result, pattern }) {
  const isFile = result.memory_type === "memory_file";
  const path = isFile ? "" : result.path.replaceAll("#", "").replaceAll(" > ", " › ").trim();
  const name = isFile ? result.path : nameOf({ ...result, title: result.title ?? path.split(" › ")[0] });
  return html`<li class="result">
    <${ScoreShown} score=${result.score} />
    <div>
      <h2><${Glyph} kind=${result.memory_type} /> <a href=${pageOf(result)} dir="auto">${name}</a>
        ${result.match && html` <span class=${`badge ${result.match}`}>${MATCHES[result.match]}</span>`}
        ${(result.later ?? []).map(({ id }) => html` <${MemoryLink} id=${id} class="badge" title="Newer on this topic">may be outdated: see ${id}<//>`)}</h2>
      ${path.includes("›") && html`<p class="path" dir="auto">${path}</p>`}
      <p class="excerpt" dir="auto"><${Marked} text=${around(result.text, pattern)} pattern=${pattern} /></p>
      ${isFile ? html`<p class="facts">Memory file · lines ${result.start_line} to ${result.end_line}</p>` : html`<${Facts} memory=${result} />
      <p class="facts">cosine ${figure(result.similarity)}${result.sources?.length === 1 && `, found by ${result.sources[0] === "keyword" ? "words" : "meaning"} only`}</p>`}
    </div>
  </li>`;
}

const ScoreShown = ({ score }) => html`<p class="score" title="Score, 0 to 1: what results are sorted by"><b>${figure(score)}</b><meter min="0" max="1" value=${score ?? 0} aria-label="Score"></meter></p>`;

/* --- Why ------------------------------------------------------------------------------------------------------------- */

function Why({ question, missed, choose, version }) {
  const { data, error, isOld } = useAnswer("explain", { ...question, missed }, version, TYPING);
  return html`<${Entry} name="missed" label="Which memory did you expect? Its number, or open it and choose “Why was it not found?”" value=${missed} onChoose=${choose} inputmode="numeric" placeholder="such as 42" />
    <${Failure} error=${error} />
    ${!data && !error && html`<p class="nothing" role="status">Measuring …</p>`}
    ${data?.traces.length === 0 && html`<p class="nothing">Nothing was compared.</p>`}
    <div class=${isOld ? "old" : ""}>${data?.traces.toSorted((one, other) => Boolean(other.memory) - Boolean(one.memory)).map((trace) => html`<${Trace} key=${trace.filters.memory_type} trace=${trace} />`)}</div>`;
}

function Trace({ trace }) {
  const kind = trace.filters.memory_type;
  return html`<section class="panel" aria-label=${KINDS[kind]}>
    <h2><${Glyph} kind=${kind} /> ${KINDS[kind]}</h2>
    ${trace.memory && html`<p class="notice"><${MemoryLink} id=${trace.memory.id}>Memory ${trace.memory.id}<//>: ${trace.memory.why}</p>`}
    <p class="hint">${number.format(trace.candidates_compared)} compared; score = ${trace.compared}. Has and lacks: words of the question, as stems.</p>
    <div class="scroll" tabindex="0" role="region" aria-label=${`How ${KINDS[kind]} was measured`}><table>
      <thead><tr>${["Rank", "Memory", "Score", "Cosine", "Words", "Late", "Has", "Lacks", "Fate"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${trace.candidates.map(
        (one) => html`<tr key=${one.id} class=${one.memory_id === trace.memory?.id ? "meant" : ""}>
          <td>${one.rank}</td><td><${MemoryLink} id=${one.memory_id}>${one.memory_id}<//></td>
          ${["score", "cosine", "words", "late"].map((name) => html`<td>${figure(one[name])}</td>`)}
          <td>${one.has.join(" ")}</td><td>${one.lacks.join(" ")}</td><td>${one.fate}</td>
        </tr>`,
      )}</tbody>
    </table></div>
  </section>`;
}

/* --- The answer of the tool ------------------------------------------------------------------------------------------ */

function AgentView({ question, form, choose, version }) {
  const { data, error, isOld } = useAnswer("answer", { ...question, form }, version, TYPING);
  const forms = [["", "Full answers"], ["lean", "Lean answers, as with --profile core"]];
  return html`<${Choice} name="form" label="Form" value=${form} options=${forms} onChoose=${choose} />
    <${Failure} error=${error} />
    ${!data && isOld && !error && html`<p class="nothing" role="status">Asking …</p>`}
    ${data === null && !error && !isOld && html`<p class="nothing">Agents have no tool that searches this kind.</p>`}
    ${data && html`<div class=${isOld ? "old" : ""}>
      <p class="outcome" role="status">${count(data.tokens, "token")}, ${count(data.text.length, "character")}</p>
      <pre class="call raw">${data.tool}(${JSON.stringify(data.arguments)})</pre>
      <pre class="call raw" tabindex="0" role="region" aria-label="The answer">${laidOut(data.text)}</pre>
      <button type="button" class="quiet" onClick=${(event) => copyText(event.currentTarget, data.text)}>Copy text</button>
      <p class="hint">Line breaks were added for reading; the agent gets the same characters without them.</p>
    </div>`}`;
}

function laidOut(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return text;
  }
}
