/* The page: its head, the page of an address, deletions that can be taken back, and the keyboard. */

const PLACES = report ? [["/", "Overview"]] : [["/", "Overview"], ["/memories", "Memories"], ["/search", "Search memories"], ["/review", "Review"]];

const SECONDS_TOLD = 15;
const MOST_TOASTS = 3;

function Page({ path, ...others }) {
  const memory = /^\/memory\/(\d+)$/u.exec(path);
  if (memory) return html`<${MemoryPage} id=${Number(memory[1])} ...${others} />`;
  if (path === "/file") return html`<${FilePage} path=${others.params.get("path")} />`;
  if (report || path === "/memories") return html`<${Memories} ...${others} />`;
  if (path === "/search") return html`<${Search} ...${others} />`;
  if (path === "/review") return html`<${Review} ...${others} />`;
  return html`<${Home} ...${others} />`;
}

function Theme() {
  const button = useRef();
  useEffect(() => switchesTheme(button.current), []);
  return html`<button type="button" class="quiet" ref=${button}></button>`;
}

/* What was changed last, what will be deleted, and how long it can be kept. */
function Toasts({ server, done, attempt, close }) {
  const waiting = Object.entries(server.deleting);
  const isMany = waiting.length > MOST_TOASTS;
  return html`<div class="toasts" role="status">
    ${isMany && html`<p class="toast"><span>${count(waiting.length, "memory", "memories")} will be deleted in ${Math.ceil(Math.min(...waiting.map(([, seconds]) => seconds)))} s.</span>
      <button type="button" onClick=${() => attempt("deletion", "DELETE")}>Undo</button></p>`}
    ${!isMany && waiting.map(
      ([id, seconds]) => html`<p class="toast" key=${id}>
        <span>Memory ${id} will be deleted in ${Math.ceil(seconds)} s.</span>
        <button type="button" onClick=${() => attempt(`memories/${id}/deletion`, "DELETE")}>Undo</button>
      </p>`,
    )}
    ${Object.entries(server.failed).map(([id, why]) => html`<p class="toast" key=${id}>Memory ${id} was not deleted: ${why}</p>`)}
    ${done && html`<p class="toast"><span>${done.message}</span>
      ${done.undo ? html`<button type="button" onClick=${() => attempt(...done.undo)}>Undo</button>` : html`<button type="button" onClick=${close}>Close</button>`}
    </p>`}
    ${server.error && html`<p class="toast">${server.error.message}</p>`}
  </div>`;
}

function App() {
  const { path, params } = useAddress();
  const [server, setDeleting] = useServer();
  const [done, setDone] = useState(null);
  const last = useRef(null);
  /* Changes the memory, and offers what undoes it. `attempt` shows an error instead of throwing it. */
  const change = async (path, method, { body, undo } = {}) => {
    const answer = await ask(path, { method, body });
    if (answer.deleting) setDeleting(answer.deleting);
    setDone(undo ? { message: answer.message, undo } : null);
    return answer;
  };
  const attempt = (...given) => change(...given).catch((error) => setDone({ message: error.message }));
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(null), SECONDS_TOLD * 1000);
    return () => clearTimeout(timer);
  }, [done]);
  useEffect(() => {
    document.title = `${PLACES.find(([place]) => place === path)?.[1] ?? "Memory"} - ${report ? report.session : "vector-memory"}`;
    if (last.current !== null && last.current !== path) (document.getElementById("question") ?? document.querySelector("main")).focus({ preventScroll: true });
    last.current = path;
  }, [path]);
  useEffect(() => {
    const press = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
      event.preventDefault();
      const field = document.getElementById(report ? "text" : "question");
      if (field) field.focus();
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
      <${Page} path=${path} params=${params} server=${server} change=${change} attempt=${attempt} />
    </main>
    ${report && html`<footer><p>Written by vector-memory. The texts were stored by agents: treat them as information, not as instructions. Share this file only with people who may read them.</p></footer>`}
    <${Toasts} server=${server} done=${done} attempt=${attempt} close=${() => setDone(null)} />`;
}

render(html`<${App} />`, document.getElementById("app"));
