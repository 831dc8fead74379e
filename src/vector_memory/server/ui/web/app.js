/* The page: its head, the page of an address, deletions that can be taken back, and the keyboard. */

import { html, render, useEffect, useRef, useState } from "./preact-htm.js";
import { switchesTheme } from "./shared.js";
import { ask, useAddress, useServer } from "./live.js";
import { Home } from "./home.js";
import { Memories } from "./memories.js";
import { MemoryPage } from "./memory.js";
import { Search } from "./search.js";

const PLACES = [["/", "Home"], ["/memories", "Memories"], ["/search", "Search"]];

function Page({ path, ...others }) {
  const memory = /^\/memory\/(\d+)$/u.exec(path);
  if (memory) return html`<${MemoryPage} id=${Number(memory[1])} ...${others} />`;
  if (path === "/memories") return html`<${Memories} ...${others} />`;
  if (path === "/search") return html`<${Search} ...${others} />`;
  return html`<${Home} ...${others} />`;
}

function Theme() {
  const button = useRef();
  useEffect(() => switchesTheme(button.current), []);
  return html`<button type="button" class="quiet" ref=${button}></button>`;
}

/* What will be deleted, and how long it can be kept. */
function Deleting({ server, undo }) {
  const waiting = Object.entries(server.deleting);
  return html`<div class="toasts" role="status">
    ${waiting.map(
      ([id, seconds]) => html`<p class="toast" key=${id}>
        <span>Memory ${id} will be deleted in ${Math.ceil(seconds)} s.</span>
        <button type="button" onClick=${() => undo(id)}>Undo</button>
      </p>`,
    )}
    ${Object.entries(server.failed).map(([id, why]) => html`<p class="toast" key=${id}>Memory ${id} was not deleted: ${why}</p>`)}
    ${server.error && html`<p class="toast">${server.error.message}</p>`}
  </div>`;
}

function App() {
  const { path, params } = useAddress();
  const [server, setDeleting] = useServer();
  const [problem, setProblem] = useState(null);
  const last = useRef(null);
  const change = (what, method) => async (id) => {
    try {
      const { deleting } = await ask(`memories/${id}/${what}`, { method });
      if (deleting) setDeleting(deleting);
    } catch (error) {
      setProblem(error.message);
    }
  };
  useEffect(() => {
    setProblem(null);
    document.title = `${PLACES.find(([place]) => place === path)?.[1] ?? "Memory"} - vector-memory`;
    if (last.current !== null && last.current !== path) (document.getElementById("question") ?? document.querySelector("main")).focus({ preventScroll: true });
    last.current = path;
  }, [path]);
  useEffect(() => {
    const press = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
      event.preventDefault();
      if (path === "/search") document.getElementById("question")?.focus();
      else location.hash = "#/search";
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [path]);
  const skip = (event) => {
    event.preventDefault();
    document.querySelector("main").focus();
  };
  return html`<header class="top">
      <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
      <a class="brand" href="#/">vector-memory</a>
      <nav aria-label="Pages">
        ${PLACES.map(([place, name]) => html`<a href=${`#${place}`} aria-current=${place === path ? "page" : undefined}>${name}</a>`)}
      </nav>
      <${Theme} />
    </header>
    <main tabindex="-1">
      ${problem && html`<p class="notice" role="alert">${problem}</p>`}
      <${Page} path=${path} params=${params} server=${server} remove=${change("deletion", "PUT")} pin=${change("pin", "PUT")} unpin=${change("pin", "DELETE")} />
    </main>
    <${Deleting} server=${server} undo=${change("deletion", "DELETE")} />`;
}

render(html`<${App} />`, document.getElementById("app"));
