/* What may be out of date, line by line: what later memories on a subject replace, and what nobody reads. */

function Review({ params, server, attempt }) {
  const session = params.get("session") ?? "";
  const { data, error } = useAnswer("review", { session }, server.version);
  const lines = (data?.lines ?? []).filter((line) => !(line.id in server.deleting));
  const [place, act] = useKeptFocus(data, attempt);
  if (!data) return html`<h1>Review</h1>${error ? html`<${Failure} error=${error} />` : html`<${Fetching} what="Comparing memories" />`}`;
  const [conflicts, unread] = [lines.filter((line) => line.later), lines.filter((line) => !line.later)];
  const held = (data.held ?? []).filter((line) => !line.held_until);
  const deleted = (data.held ?? []).filter((line) => line.held_until);
  const edits = server.read_only ? null : act;
  return html`<h1>Review</h1>
    <p class="summary">What may be out of date${session && html` in session <bdi>${session}</bdi>. <a href="#/review">All sessions</a>`}</p>
    <${Failure} error=${error} />
    <div ref=${place} tabindex="-1">
      ${lines.length + held.length + deleted.length === 0 && html`<p class="nothing">Nothing to review: no memory has a newer one on its topic, and none is old and unread.</p>`}
      ${held.length > 0 && html`<section class="panel" aria-labelledby="held-title"><h2 id="held-title">Held back</h2>
        <p class="hint">No agent finds these.</p>
        <ul class="plain">${held.map((line) => html`<${Held} key=${line.id} line=${line} attempt=${edits} />`)}</ul></section>`}
      ${deleted.length > 0 && html`<section class="panel" aria-labelledby="deleted-title"><h2 id="deleted-title">Deleted by agents</h2>
        <p class="hint">No agent finds these. You can bring them back until they are erased.</p>
        <ul class="plain">${deleted.map((line) => html`<${Held} key=${line.id} line=${line} attempt=${edits} />`)}</ul></section>`}
      ${conflicts.length > 0 && html`<p class="outcome">${count(conflicts.length, "memory has", "memories have")} a newer one on the topic. Is the earlier one outdated?</p>`}
      ${conflicts.map((line) => html`<${Conflict} key=${line.id} line=${line} changed=${data.changed?.[line.id]} mayHold=${data.may_hold} attempt=${edits} />`)}
      ${unread.length > 0 && html`<section class="panel" aria-labelledby="unread-title"><h2 id="unread-title">Never read in 30 days</h2>
        <ul class="plain">${unread.map((line) => html`<${Unread} key=${line.id} line=${line} attempt=${edits} />`)}</ul></section>`}
      ${data.total > data.lines.length && html`<p class="hint">${count(data.total - data.lines.length, "more line")} will follow these.</p>`}
    </div>`;
}

/* Keeps the keyboard in the list when the line that it was in goes. */
function useKeptFocus(data, attempt) {
  const place = useRef();
  const wasIn = useRef(false);
  useEffect(() => {
    if (wasIn.current && !place.current?.contains(document.activeElement)) (place.current?.querySelector("button") ?? place.current)?.focus({ preventScroll: true });
    wasIn.current = false;
  }, [data]);
  const act = (...given) => {
    wasIn.current = true;
    return attempt(...given);
  };
  return [place, act];
}

function Conflict({ line, changed, mayHold, attempt }) {
  const hold = `memories/${line.later.id}/hold`;
  return html`<section class="panel conflict" aria-label=${`Memory ${line.id} and memory ${line.later.id}`}>
    <div class="halves"><${Side} name="Earlier" memory=${line} pieces=${changed} mark="del" /><${Side} name="Later" memory=${line.later} pieces=${changed?.map(([earlier, later]) => [later, earlier])} mark="ins" /></div>
    ${!changed && line.differences?.length > 0 && html`<ul class="differences">${line.differences.map((one) => html`<li key=${one} dir="auto">${one}</li>`)}</ul>`}
    ${line.is_repeated && html`<p class="hint">The later one repeats all of the earlier one.</p>`}
    ${attempt && html`<div class="tools">
      <${Replace} id=${line.id} other=${line.later.id} isCopy=${line.is_repeated} attempt=${attempt} name="The earlier one is outdated" />
      ${mayHold && html`<button type="button" class="small" title=${`Take memory ${line.later.id} out of use: no agent finds it, and it is listed here until you decide`} onClick=${() => attempt(hold, "POST", { undo: [hold, "DELETE"] })}>The later one is wrong</button>`}
      <button type="button" class="small" title="Stop listing the memories stored so far as newer on this topic" onClick=${() => attempt(`memories/${line.id}/later`, "DELETE")}>Both are right</button>
    </div>`}
  </section>`;
}

const asListed = (line) => ({ ...line, beginning: line.content, memory_id: line.id, content_length: line.content.length });

/* A memory of the two, with the sentence that changed; without one, with how it begins. */
function Side({ name, memory, pieces, mark }) {
  const begun = asListed(memory);
  return html`<div>
    <p class="facts">${name}: <${Glyph} kind=${memory.memory_type} /> ${nameOfKind(memory.memory_type)} ${memory.id} · <bdi>${memory.agent_id}</bdi> · <${At} time=${memory.created_at} /></p>
    <h2><${MemoryLink} id=${memory.id} dir="auto">${nameOf(begun)}<//></h2>
    <p dir="auto">${pieces ? pieces.map(([piece, other]) => (piece === other || !piece ? piece : html`<${mark}>${piece}<//>`)) : beginningOf(begun)}</p>
    ${memory.session_id && html`<p class="facts">in <a href=${link("/review", { session: memory.session_id })}><bdi>${memory.session_id}</bdi></a></p>`}
  </div>`;
}

const HOLDS = { pending: "Awaits review", quarantined: "Taken out", deleted: "Deleted" };

function Held({ line, attempt }) {
  const begun = asListed(line);
  return html`<li class="held" dir="auto"><p class="facts">${HOLDS[line.held]} (${line.held_for})${line.held_until && html`, until <${At} time=${line.held_until} />`} · ${nameOfKind(line.memory_type)} ${line.id} · <bdi>${line.agent_id}</bdi> · <${At} time=${line.created_at} /></p>
    <h3>${nameOf(begun)}</h3>
    <p>${beginningOf(begun)}</p>
    ${attempt && html`<div class="tools"><button type="button" class="small" onClick=${() => attempt(`memories/${line.id}/hold`, "DELETE")}>${line.held_until ? "Undo" : "Accept"}</button>
      <${Asking} name="Delete for good …" title="Delete this memory for good?" does="Delete for good" cancel="Keep it" risky=${true} act=${() => attempt(`memories/${line.id}/hold`, "PUT")}><p>Nothing can bring it back.</p><//></div>`}</li>`;
}

function Unread({ line, attempt }) {
  return html`<${Line} memory=${asListed(line)}>${nameOfKind(line.memory_type)} · <${AgentAndTime} memory=${line} />
    ${attempt && html` <button type="button" class="small" onClick=${() => attempt(`memories/${line.id}/pin`, "PUT", { undo: [`memories/${line.id}/pin`, "DELETE"] })}>Pin</button>
      <button type="button" class="small risky" onClick=${() => attempt(`memories/${line.id}/deletion`, "PUT")}>Delete</button>`}<//>`;
}
