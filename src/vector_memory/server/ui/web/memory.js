/* A memory: its text, where it is from, and what is around it. */

import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { copyText, count, number, words } from "./shared.js";
import { link, useAnswer } from "./live.js";
import { Ago, Failure, Glyph, MemoryLink, nameOf, nameOfKind, On, Rendered } from "./parts.js";

export function MemoryPage({ id, server, remove, pin, unpin }) {
  const { data, error, isOld } = useAnswer(`memories/${id}`, {}, server.version);
  const [raw, setRaw] = useState(false);
  const isLeaving = id in server.deleting;
  useEffect(() => scrollTo({ top: 0, behavior: "instant" }), [id]);
  if (error) return html`<h1>Memory ${id}</h1><p class="notice" role="alert">${error.message}</p><a href="#/memories">All memories</a>`;
  if (!data || isOld) return null;
  const { memory } = data;
  return html`<article class=${isLeaving ? "leaving" : ""}>
    <p class="kicker"><${Glyph} kind=${memory.memory_type} /> ${nameOfKind(memory.memory_type)} ${id}${memory.pinned ? " · pinned" : ""}${memory.superseded_by?.length ? " · superseded" : ""}</p>
    <h1 dir="auto">${nameOf({ ...memory, text: memory.content, memory_id: id })}</h1>
    ${memory.description && html`<p class="summary" dir="auto">${memory.description}</p>`}
    <div class="sheet">
      <div>
        <${Tools}
          memory=${memory} raw=${raw} setRaw=${setRaw}
          remove=${isLeaving || server.read_only ? null : () => remove(id)}
          pin=${server.read_only ? null : () => (memory.pinned ? unpin : pin)(id)}
        />
        <div class="panel">
          ${raw ? html`<div class="text"><pre class="raw" dir="auto">${memory.content}</pre></div>` : html`<${Rendered} markup=${data.html} title=${memory.title} />`}
        </div>
        <${Observations} observations=${data.observations} />
        <${Chunks} chunks=${data.chunks} />
      </div>
      <aside aria-label="About this memory">
        <${Origin} memory=${memory} />
        <${Later} later=${data.later} more=${data.later_more} />
        <${Nearest} nearest=${data.nearest} />
      </aside>
    </div>
  </article>`;
}

function Tools({ memory, raw, setRaw, remove, pin }) {
  const copy = useRef();
  const dialog = useRef();
  return html`<div class="tools">
    <button type="button" class="quiet" aria-pressed=${raw} onClick=${() => setRaw(!raw)}>As stored</button>
    <button type="button" class="quiet" ref=${copy} onClick=${() => copyText(copy.current, memory.content)}>Copy text</button>
    ${pin && html`<button type="button" class="quiet" aria-pressed=${Boolean(memory.pinned)} title="Agents are told of it first, and no policy removes it" onClick=${pin}>Pin</button>`}
    ${remove && html`<button type="button" class="quiet risky" onClick=${() => dialog.current.showModal()}>Delete …</button>`}
    <dialog ref=${dialog} aria-labelledby="delete-title">
      <h2 id="delete-title">Delete this memory?</h2>
      <p>Agents will no longer find it. You can undo this for ten seconds; then it is gone.</p>
      <form method="dialog" class="tools">
        <button type="submit">Keep it</button>
        <button type="submit" class="danger" onClick=${remove}>Delete</button>
      </form>
    </dialog>
  </div>`;
}

const pair = (name, value) => value && html`<div key=${name}><dt>${name}</dt><dd dir="auto">${value}</dd></div>`;

function Origin({ memory }) {
  const filter = (name, value) => value && html`<a href=${link("/memories", { [name]: value })}>${value}</a>`;
  const others = (ids) => ids?.length > 0 && ids.map((id, at) => [at > 0 && ", ", html`<${MemoryLink} id=${id}>${id}<//>`]);
  const about = memory.metadata.parent_report_id;
  const rest = Object.entries(memory.metadata).filter(([name]) => !["category", "parent_report_id"].includes(name));
  return html`<section class="panel"><h2>Where it is from</h2><dl class="pairs">
    ${pair("Stored", html`<${Ago} time=${memory.created_at} />`)}
    ${pair("Superseded by", others(memory.superseded_by))}
    ${pair("Supersedes", others(memory.supersedes))}
    ${pair("Expires", memory.expires_at && html`<${On} time=${memory.expires_at} />`)}
    ${pair("Agent", filter("agent", memory.agent_id))}
    ${pair("Session", filter("session", memory.session_id))}
    ${pair("Iteration", String(memory.session_iter))}
    ${pair("Task", filter("task", memory.task_code))}
    ${pair("Category", filter("category", memory.metadata.category))}
    ${pair("Tags", memory.tags.length > 0 && memory.tags.map((tag, at) => [at > 0 && ", ", filter("tag", tag)]))}
    ${pair("About", about && html`<${MemoryLink} id=${about}>Report ${about}<//>`)}
    ${pair("Read by agents", memory.access_count ? html`${count(memory.access_count, "time")}, last <${Ago} time=${memory.accessed_at} />` : "never")}
    ${pair("Length", count(memory.content_length, "character"))}
    ${rest.map(([name, value]) => pair(words(name), typeof value === "string" ? value : JSON.stringify(value)))}
  </dl></section>`;
}

/* Newer memories that seem to be on the same subject. */
function Later({ later, more }) {
  if (!later.length) return null;
  return html`<section class="panel"><h2>Later on its subject</h2><ul class="plain">
    ${later.map(
      (one) => html`<li key=${one.id} class="line">
        <div><${MemoryLink} id=${one.id} dir="auto">${nameOf({ ...one, memory_id: one.id })}<//>
          <p class="facts"><bdi>${one.agent_id}</bdi> · <${Ago} time=${one.created_at} /></p></div>
      </li>`,
    )}
  </ul>${more > 0 && html`<p class="facts">and ${number.format(more)} more</p>`}</section>`;
}

function Nearest({ nearest }) {
  if (!nearest.length) return null;
  return html`<section class="panel"><h2>Nearest in meaning</h2><ul class="plain">
    ${nearest.map(
      (other) => html`<li key=${other.memory_id} class="line">
        <${Glyph} kind=${other.memory_type} />
        <div><${MemoryLink} id=${other.memory_id} dir="auto">${nameOf(other)}<//>
          <p class="facts">${other.similarity.toFixed(2)} · ${nameOfKind(other.memory_type)} · <bdi>${other.agent_id}</bdi> · <${Ago} time=${other.created_at} /></p></div>
      </li>`,
    )}
  </ul></section>`;
}

function Observations({ observations }) {
  if (!observations.length) return null;
  return html`<section class="panel"><h2>${count(observations.length, "observation")} on it</h2><ul class="plain">
    ${observations.map(
      (one) => html`<li key=${one.id} class="line"><${Glyph} kind="report_observation" />
        <div><${MemoryLink} id=${one.id} dir="auto">${one.beginning}<//><p class="facts"><bdi>${one.agent_id}</bdi> · <${Ago} time=${one.created_at} /></p></div></li>`,
    )}
  </ul></section>`;
}

/* What a search compares: documents are cut at their headings. */
function Chunks({ chunks }) {
  if (chunks.length < 2) return null;
  return html`<details class="panel chunks"><summary>${number.format(chunks.length)} chunks: what a search compares</summary>
    <ol>${chunks.map((chunk) => html`<li key=${chunk.chunk_id}><p class="facts">${chunk.header_path.replaceAll("#", "")} · chunk ${chunk.chunk_id}</p><pre class="raw" dir="auto">${chunk.content}</pre></li>`)}</ol>
  </details>`;
}
