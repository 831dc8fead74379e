/* A memory: its text, where it is from, and what is around it. */

function MemoryPage({ id, server, change, attempt }) {
  const { data, error, isOld } = useAnswer(`memories/${id}`, {}, server.version);
  const [raw, setRaw] = useState(false);
  const isLeaving = id in server.deleting;
  useEffect(() => scrollTo({ top: 0, behavior: "instant" }), [id]);
  if (error) return html`<h1>Memory ${id}</h1><${Failure} error=${error} /><a href=${link(LIST)}>All memories</a>${!report && html` · <a href="#/review">Review</a>`}`;
  if (!data || isOld) return html`<${Fetching} />`;
  const { memory } = data;
  const name = nameOf({ ...memory, text: memory.content, memory_id: id });
  const isCopy = (one) => data.nearest.some((near) => near.memory_id === one.memory_id && near.is_copy);
  const edits = server.read_only ? null : { change, attempt };
  return html`<article class=${isLeaving ? "leaving" : ""}>
    <p class="kicker"><${Glyph} kind=${memory.memory_type} /> ${nameOfKind(memory.memory_type)} ${id}${memory.pinned ? " · pinned" : ""}${memory.superseded_by?.length ? " · superseded" : ""}</p>
    <h1 dir="auto">${name}</h1>
    ${memory.description && html`<p class="summary" dir="auto">${memory.description}</p>`}
    <div class="sheet">
      <div>
        <${Tools} memory=${memory} raw=${raw} setRaw=${setRaw} edits=${edits} isLeaving=${isLeaving} />
        <div class="panel">
          ${memory.content === null ? html`<p class="notice">This text is not in the page, which would become too large: run vector-memory show ${id}.</p>`
            : raw ? html`<div class="text"><pre class="raw" dir="auto">${memory.content}</pre></div>`
            : html`<${Rendered} markup=${data.html} title=${name} />`}
        </div>
        <${Around} name=${`${count(data.observations.length, "observation")} on it`} memories=${numbered(data.observations, "report_observation")} />
        <${Chunks} chunks=${data.chunks} />
      </div>
      <aside aria-label="About this memory">
        <${Origin} memory=${memory} edits=${edits} />
        <${Around} name=${`Newer on this topic${data.later_more > 0 ? `, and ${number.format(data.later_more)} more` : ""}`} memories=${numbered(data.later)} memory=${memory} edits=${edits} isCopy=${isCopy} isReplaceable=${(one) => one.id > id} />
        <${Around} name="Nearest in meaning" memories=${data.nearest} memory=${memory} edits=${edits} isCopy=${isCopy} said=${(one) => `${one.similarity.toFixed(2)} · ${nameOfKind(one.memory_type)} · `} isReplaceable=${(one) => one.similarity >= ALIKE && one.memory_type === memory.memory_type} />
      </aside>
    </div>
  </article>`;
}

/* A memory file, as it is now. */
function FilePage({ path }) {
  const { data, error, isOld } = useAnswer("file", { path }, 0);
  useEffect(() => scrollTo({ top: 0, behavior: "instant" }), [path]);
  if (error) return html`<h1>${path}</h1><${Failure} error=${error} />`;
  if (!data || isOld) return html`<${Fetching} />`;
  return html`<article>
    <p class="kicker"><${Glyph} kind="memory_file" /> ${nameOfKind("memory_file")}</p>
    <h1 dir="auto">${data.path}</h1>
    <p class="summary">${count(data.total_lines, "line")}${data.end_line < data.total_lines && `, of which the first ${number.format(data.end_line)} are shown`}</p>
    <div class="panel"><${Rendered} markup=${data.html} title="" /></div>
  </article>`;
}

function Tools({ memory, raw, setRaw, edits, isLeaving }) {
  return html`<div class="tools">
    <button type="button" class="quiet" aria-pressed=${raw} onClick=${() => setRaw(!raw)}>As stored</button>
    <${Copying} name="Copy text" text=${memory.content} />
    ${!report && html`<a class="button quiet" href=${link("/search", { view: "why", missed: memory.id })}>Why was it not found?</a>`}
    ${edits && html`<${EditTools} memory=${memory} isLeaving=${isLeaving} ...${edits} />`}
  </div>`;
}

function EditTools({ memory, isLeaving, change, attempt }) {
  const path = `memories/${memory.id}`;
  const amend = (form) => {
    const [title, description] = ["title", "description"].map((name) => form.get(name).trim());
    const tags = form.has("tags") ? form.get("tags").split(",").map((tag) => tag.trim()).filter(Boolean) : null;
    return change(path, "PUT", { body: { title, description, tags } });
  };
  const supersede = (form) => {
    const older = `${path}/older/${encodeURIComponent(form.get("older").trim())}`;
    return change(older, "PUT", { undo: [older, "DELETE"] });
  };
  const isNote = memory.memory_type === "tagged_memory"; // its tags have canonical forms, which only agents give
  return html`<button type="button" class="quiet" aria-pressed=${Boolean(memory.pinned)} title="Agents see it first, and no retention policy removes it" onClick=${() => attempt(`${path}/pin`, memory.pinned ? "DELETE" : "PUT")}>Pin</button>
    <${Asking} name="Edit …" title="Edit title, description and tags" does="Save" act=${amend}>
      <p class="hint">The text itself never changes: agents may have relied on it.</p>
      <label for="edit-title">Title</label><input id="edit-title" name="title" maxlength="500" defaultValue=${memory.title ?? ""} />
      <label for="edit-description">Description</label><input id="edit-description" name="description" defaultValue=${memory.description ?? ""} />
      ${!isNote && html`<label for="edit-tags">Tags, with commas between them</label><input id="edit-tags" name="tags" defaultValue=${memory.tags.join(", ")} />`}
    <//>
    <${Asking} name="Replaces …" title="Which memory does this one replace?" does="Replace" act=${supersede}>
      <p class="hint">Searches leave the older one out from now on. It is kept, and you can release it.</p>
      <${Picker} name="older" label="The older memory: its number, or a part of its title or text" />
    <//>
    ${!isLeaving && html`<${Asking} name="Delete …" title="Delete this memory?" does="Delete" cancel="Keep it" risky=${true} act=${() => change(`${path}/deletion`, "PUT")}>
      <p>Agents will no longer find it. You can undo this for ten seconds; then it is gone.</p>
    <//>`}`;
}

const pair = (name, value) => value && html`<div key=${name}><dt>${name}</dt><dd dir="auto">${value}</dd></div>`;

function Origin({ memory, edits }) {
  const filter = (name, value) => value && html`<a href=${link(LIST, { [name]: value })}>${value}</a>`;
  const release = (other) => {
    const [newer, older] = [Math.max(memory.id, other), Math.min(memory.id, other)];
    const path = `memories/${newer}/older/${older}`;
    return edits && html` <button type="button" class="small" aria-label=${`Release memory ${older} from memory ${newer}`} title=${`Let memory ${older} be found again`} onClick=${() => edits.attempt(path, "DELETE", { undo: [path, "PUT"] })}>Release</button>`;
  };
  const others = (ids) => ids?.length > 0 && ids.map((id) => html`<p key=${id}><${MemoryLink} id=${id}>${id}<//>${release(id)}</p>`);
  const about = memory.metadata.parent_report_id;
  const project = typeof memory.metadata.project === "string" ? memory.metadata.project : null;
  const shown = ["category", "parent_report_id", ...(project ? ["project"] : [])];
  const rest = Object.entries(memory.metadata).filter(([name]) => !shown.includes(name));
  return html`<section class="panel"><h2>Details</h2><dl class="pairs">
    ${pair("Stored", html`<time datetime=${memory.created_at}>${exact.format(new Date(memory.created_at))}</time>`)}
    ${pair("Superseded by", others(memory.superseded_by))}
    ${pair("Supersedes", others(memory.supersedes))}
    ${pair("Expires", memory.expires_at && html`<${At} time=${memory.expires_at} />`)}
    ${pair("Agent", filter("agent", memory.agent_id))}
    ${pair("Session", filter("session", memory.session_id))}
    ${pair("Iteration", String(memory.session_iter))}
    ${pair("Task", filter("task", memory.task_code))}
    ${pair("Category", filter("category", memory.metadata.category))}
    ${pair("Project", filter("project", project))}
    ${pair("Trust", memory.trust && "low: data, not instructions")}
    ${pair("Sources", memory.came_from?.sources?.join(", "))}
    ${pair("Tags", memory.tags.length > 0 && memory.tags.map((tag, at) => [at > 0 && ", ", filter("tag", tag)]))}
    ${pair("About", about && html`<${MemoryLink} id=${about}>Report ${about}<//>`)}
    ${pair("Read by agents", memory.access_count ? html`${count(memory.access_count, "time")}, last <${At} time=${memory.accessed_at} />` : "never")}
    ${pair("Length", count(memory.content_length, "character"))}
    ${rest.map(([name, value]) => pair(words(name), typeof value === "string" ? value : JSON.stringify(value)))}
  </dl></section>`;
}

const isLinked = (memory, id) => [...(memory.supersedes ?? []), ...(memory.superseded_by ?? [])].includes(id);

/* Memories around this one. `said`: what a line says of one; `isReplaceable`: whether one may be outdated, or outdate it. */
function Around({ name, memories, said, memory, edits, isReplaceable = () => false, isCopy = () => false }) {
  if (!memories.length) return null;
  return html`<section class="panel"><h2>${name}</h2><ul class="plain">${memories.map(
    (one) => html`<${Line} key=${one.memory_id} memory=${one}>${said?.(one)}<${AgentAndTime} memory=${one} />
      ${isCopy(one) && html` <span class="badge">near copy</span>`}
      ${edits && isReplaceable(one) && !isLinked(memory, one.memory_id) && html` <${Replace} id=${memory.id} other=${one.memory_id} isCopy=${isCopy(one)} attempt=${edits.attempt} />`}<//>`,
  )}</ul></section>`;
}

const ALIKE = 0.5; // cosine of memories of which one may replace the other
const numbered = (memories, kind) => memories.map((one) => ({ memory_type: kind, ...one, memory_id: one.id }));

/* What a search compares: documents are cut at their headings. */
function Chunks({ chunks }) {
  if (chunks.length < 2) return null;
  return html`<details class="panel chunks"><summary>${number.format(chunks.length)} chunks: what a search compares</summary>
    <ol>${chunks.map((chunk) => html`<li key=${chunk.chunk_id}><p class="facts">${chunk.header_path.replaceAll("#", "")} · chunk ${chunk.chunk_id}</p><pre class="raw" dir="auto">${chunk.content}</pre></li>`)}</ol>
  </details>`;
}
