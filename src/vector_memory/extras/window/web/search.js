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
  const { view, missed, form, ...question } = asked;
  const { q, grain, kind, mode, agent, session } = question;
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
        <${Period} ...${question} choose=${(values) => rename("/search", { ...asked, ...values })} />
        <${Choice} name="min-trust" label="Trust" value=${asked["min-trust"]} options=${TRUSTED} onChoose=${choose("min-trust")} />
      </div>
    </form>
    ${q.trim()
      ? html`${kind !== "memory_file" && html`<div class="segments views" role="group" aria-label="View">
          ${Object.entries(VIEWS).map(([name, said]) => html`<button type="button" aria-pressed=${name === view} onClick=${() => choose("view")(name)}>${said}</button>`)}
        </div>`}
        ${view === "results" && html`<${Results} question=${question} version=${server.version} />`}
        ${view === "why" && html`<${Why} question=${question} missed=${missed} choose=${choose("missed")} version=${server.version} />`}
        ${view === "agent" && html`<${AgentView} question=${question} form=${form} choose=${choose("form")} version=${server.version} />`}`
      : html`<p class="nothing">${missed ? `Type the question that should have found memory ${missed}.` : "Type a question: results come while you type, in the order in which agents get them."}</p>`}`;
}

/* A pattern for words that begin like one of these stems, or null. */
function wordsLike(stems) {
  const escaped = stems.map(escapedForPattern);
  return escaped.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})[\\p{L}\\p{N}]*`, "giu") : null;
}

function Results({ question, version }) {
  const { data, error, isOld } = useAnswer("search", question, version, TYPING);
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<${Fetching} what="Searching" />`;
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
  return html`<${Picker} key=${missed} name="missed" label="Which memory did you expect? Type a part of it, or its number" value=${missed} onChoose=${choose} />
    <${Failure} error=${error} />
    ${!data && !error && html`<${Fetching} what="Measuring" />`}
    ${data?.traces.length === 0 && html`<p class="nothing">Nothing was compared.</p>`}
    ${data?.traces.length > 0 && html`<div class=${isOld ? "old" : ""}><${Measured} ...${data} /></div>`}`;
}

/* The name of what was compared: its title, and its number, which other pages and commands ask for. */
const NameAndNumber = ({ memory, id }) => html`<${Glyph} kind=${memory?.memory_type} /> <${MemoryLink} id=${id} dir="auto">${memory ? nameOf(memory) : `Memory ${id}`}<//> <span class="facts">${nameOfKind(memory?.memory_type ?? "")} ${id}</span>`;

/* All that was compared in one table, best first, and one sentence on the memory that was expected. */
function Measured({ traces, memories, words }) {
  const whole = (stems) => stems.map((stem) => words[stem] ?? stem).join(" ");
  const explained = traces.find((trace) => trace.memory)?.memory;
  const rows = traces.flatMap((trace) => trace.candidates);
  if (explained?.best && !rows.some((one) => one.memory_id === explained.id)) rows.push(explained.best);
  rows.sort((one, other) => other.score - one.score || (other.memory_id === explained?.id) - (one.memory_id === explained?.id));
  const table = rows.map((one) => [html`<${NameAndNumber} memory=${memories[one.memory_id]} id=${one.memory_id} />`, ...[one.score, one.cosine, one.words].map(figure), whole(one.has), whole(one.lacks), PLACED[one.fate] ?? one.fate]);
  const headings = ["Memory", "Score", "Meaning", "Words", "Has", "Lacks", "Where it is"];
  return html`${explained && html`<p class="notice"><${NameAndNumber} memory=${memories[explained.id]} id=${explained.id} /><br />${whySentence(explained, traces, rows, whole)}</p>`}
    <section class="panel" aria-labelledby="compared-title"><h2 id="compared-title">What was compared</h2>
    <p class="hint">The best ${number.format(rows.length)} of ${number.format(comparedIn(traces))}. Has and lacks: words of the question, in its text or title, in any form.</p>
    <div class="compared"><${Table} caption="Best first" headings=${headings} rows=${table} meant=${rows.findIndex((one) => one.memory_id === explained?.id)} /></div>
    <details class="table-view"><summary>How scores are made</summary><ul class="plain">${traces.map(
      (trace) => html`<li key=${trace.filters.memory_type}>${nameOfKind(trace.filters.memory_type)}: score = ${trace.compared}.</li>`,
    )}</ul><p class="hint">Meaning is the cosine of two vectors; words, the share of the question's words, rare ones count more; late, a comparison token by token of the best.</p></details></section>`;
}

const comparedIn = (traces) => traces.reduce((sum, trace) => sum + trace.candidates_compared, 0);
const PLACED = { "on this page": "shown", "on a later page": "below those shown" };

function whySentence({ best, found, why }, traces, rows, whole) {
  if (!best) return why;
  const others = traces.filter((trace) => !trace.memory);
  const ahead = others.flatMap((trace) => trace.candidates).filter((one) => one.score > best.score).length;
  const isExact = others.every(({ candidates, candidates_compared: all }) => candidates.length === all || candidates.at(-1).score <= best.score);
  const last = rows.findLast((one) => one.fate === "on this page");
  const shares = !best.has.length ? "it shares no word with the question" : !best.lacks.length ? "it has all words of the question" : `it has “${whole(best.has)}”, and lacks “${whole(best.lacks)}”`;
  const meaning = best.cosine !== null && `; meaning ${figure(best.cosine)}${last && !found ? `, the last shown has ${figure(last.cosine)}` : ""}`;
  const fate = found ? " It is shown." : PLACED[best.fate] ? "" : ` It is not shown: ${best.fate}.`;
  return `Rank ${number.format(best.rank + ahead)}${isExact ? "" : " or later"} of ${number.format(comparedIn(traces))}: ${shares}${meaning || ""}.${fate}`;
}

/* --- The answer of the tool ------------------------------------------------------------------------------------------ */

function AgentView({ question, form, choose, version }) {
  const { data, error, isOld } = useAnswer("answer", { ...question, form }, version, TYPING);
  const forms = [["", "Full answers"], ["lean", "Lean answers, as with --profile core"]];
  return html`<${Choice} name="form" label="Form" value=${form} options=${forms} onChoose=${choose} />
    <${Failure} error=${error} />
    ${!data && isOld && !error && html`<${Fetching} what="Asking" />`}
    ${data === null && !error && !isOld && html`<p class="nothing">Agents have no tool that searches this kind.</p>`}
    ${data && html`<div class=${isOld ? "old" : ""}>
      <p class="outcome" role="status">${count(data.tokens, "token")}, ${count(data.text.length, "character")}</p>
      <pre class="call raw">${data.tool}(${JSON.stringify(data.arguments)})</pre>
      <pre class="call raw" tabindex="0" role="region" aria-label="The answer">${laidOut(data.text)}</pre>
      <${Copying} name="Copy text" text=${data.text} />
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
