/* Parts that several pages have. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact-htm.js";
import { count, cut, letScroll, number, pieces, plain, SHAPES, words } from "./shared.js";
import { link } from "./live.js";

export const KINDS = {
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

export const nameOfKind = (kind) => KINDS[kind] ?? plain(words(kind)).replace(/^\w/u, (first) => first.toUpperCase());

/* The sign of a kind: a shape and a colour. */
export function Glyph({ kind }) {
  const at = ORDER.includes(kind) ? ORDER.indexOf(kind) : ORDER.length;
  return html`<svg class="glyph" width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true">
    <path class=${`c${at % COLOURS}`} d=${SHAPES[at % SHAPES.length](5)} />
  </svg>`;
}

/* --- Times, in the clock of the reader ------------------------------------------------------------------------------- */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

export const secondsSince = (time) => (Date.now() - Date.parse(time)) / 1000;

export function ago(time) {
  const seconds = secondsSince(time);
  if (seconds < 45) return "just now";
  if (seconds < HOUR) return `${Math.max(1, Math.round(seconds / MINUTE))} min ago`;
  if (seconds < 5 * HOUR) return `${Math.round(seconds / HOUR)} h ago`;
  const date = new Date(time);
  if (date.toDateString() === new Date().toDateString()) return clock.format(date);
  if (date.toDateString() === new Date(Date.now() - DAY * 1000).toDateString()) return `yesterday ${clock.format(date)}`;
  return seconds < 6 * DAY ? dayAndClock.format(date) : day.format(date);
}

export const Ago = ({ time }) => html`<time datetime=${time} title=${exact.format(new Date(time))}>${ago(time)}</time>`;

export const On = ({ time }) => html`<time datetime=${time} title=${exact.format(new Date(time))}>${day.format(new Date(time))}</time>`;

/* --- Memories -------------------------------------------------------------------------------------------------------- */

/* A Markdown text as it is read, in one line. */
export function legible(text) {
  const bare = text.replace(/^---\n.*?\n---\n/su, "").replace(/<!--.*?(-->|$)/gsu, " ").replace(/!?\[([^\]]*)\]\([^)]*\)?/gu, "$1");
  return plain(bare.replace(/[#*`|]+|^ *>|:?-{3,}:?/gmu, " ")).replace(/ ([,.;:!?])/gu, "$1");
}

const NAME = 90;
const named = (text) => (text.length > NAME ? `${text.slice(0, NAME).replace(/[\s.,;:]+\S*$/u, "")}…` : text);

export const nameOf = (memory) => plain(memory.title ?? "") || named(legible(memory.beginning ?? memory.text ?? "")) || `Memory ${memory.memory_id}`;

/* The first words, without those that are the title. */
export function beginningOf(memory) {
  const [text, name] = [legible(memory.beginning), legible(nameOf(memory))];
  const rest = text.startsWith(name.replace(/…$/u, "")) ? text.slice(name.length - (name.endsWith("…") ? 1 : 0)) : text;
  const isCut = memory.content_length > memory.beginning.length;
  return rest.replace(/^[\s.:]+/u, "") + (isCut ? "…" : "");
}

export const Marked = ({ text, pattern }) => pieces(text, pattern).map(([part, hit]) => (hit ? html`<mark>${part}</mark>` : part));

/* Where a memory is from, in one line. */
export function Facts({ memory, session = true }) {
  const facts = [
    nameOfKind(memory.memory_type),
    memory.agent_id && html`<bdi>${memory.agent_id}</bdi>`,
    html`<${Ago} time=${memory.created_at} />`,
    session && memory.session_id && html`<bdi>${cut(memory.session_id, 40)}</bdi>`,
    memory.task_code && html`<bdi>${cut(memory.task_code, 30)}</bdi>`,
    memory.session_iter > 1 && `iteration ${memory.session_iter}`,
    memory.access_count > 0 && `read ${count(memory.access_count, "time")}`,
  ].filter(Boolean);
  return html`<p class="facts">${facts.map((fact, at) => [at > 0 && html`<span class="dot" aria-hidden="true">·</span>`, fact])}</p>`;
}

/* A memory, or a file, in addresses. */
export const pageOf = ({ memory_id: id, path }) => (id ? link(`/memory/${id}`) : link("/file", { path }));

export const MemoryLink = ({ id, children, ...others }) => html`<a href=${link(`/memory/${id}`)} ...${others}>${children}</a>`;

/* The only place that parses HTML: Python's rendering of a text, which contains no tag of the text itself. */
export function Rendered({ markup, title }) {
  const place = useRef();
  useLayoutEffect(() => {
    place.current.innerHTML = markup;
    const first = place.current.firstElementChild;
    if (/^H\d$/u.test(first?.tagName) && plain(first.textContent) === title) first.remove();
    letScroll(place.current);
  }, [markup]);
  return html`<div class="text" dir="auto" ref=${place}></div>`;
}

export const Failure = ({ error }) => error && html`<p class="notice" role="alert">${error.message}</p>`;

/* --- Changes --- */

/* A button that opens a dialog. `act` gets the form's data; what it throws is shown, and the dialog stays. */
export function Asking({ name, title, does, cancel = "Cancel", risky = false, act, children }) {
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
export function Replace({ id, other, isCopy, attempt, name }) {
  const [newer, older] = [Math.max(id, other), Math.min(id, other)];
  const act = () => attempt(`memories/${newer}/${isCopy ? "copies" : "older"}/${older}`, "PUT", { undo: [`memories/${newer}/older/${older}`, "DELETE"] });
  const said = isCopy ? "Merge" : name ?? (newer === id ? "This replaces it" : "It replaces this");
  const why = isCopy ? `Memory ${newer} says all that memory ${older} says: it replaces it, and gets its tags` : `Searches leave memory ${older} out from now on`;
  return html`<button type="button" class="small" title=${why} onClick=${act}>${said}</button>`;
}

/* --- Controls -------------------------------------------------------------------------------------------------------- */

export function Choice({ name, label, value, options, onChoose }) {
  return html`<div class="field">
    <label for=${name}>${label}</label>
    <select id=${name} value=${value} onChange=${(event) => onChoose(event.target.value)}>
      ${options.map(([key, said]) => html`<option key=${key} value=${key} selected=${key === value}>${said}</option>`)}
    </select>
  </div>`;
}

/* `onChoose` gets what was entered, `onType` what is being typed. */
export function Entry({ name, label, value, onChoose, onType = () => {}, type = "text", ...others }) {
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

export const kindOptions = (all, files) => [["", all], ...Object.entries(KINDS), ...(files ? [["memory_file", "Memory files"]] : [])];

export const size = (bytes) => (bytes < 1e6 ? `${number.format(Math.ceil(bytes / 1e3))} kB` : `${number.format(Math.round(bytes / 1e5) / 10)} MB`);

