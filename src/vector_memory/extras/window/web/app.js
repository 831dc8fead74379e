/* The page: its head, the page of an address, deletions that can be taken back, and the keyboard. */

const PLACES = report ? [["/", "Overview"]] : [["/", "Overview"], ["/feed", "Live feed"], ["/memories", "Memories"], ["/search", "Search memories"], ["/review", "Review"]];

const SECONDS_TOLD = 15;
const MOST_TOASTS = 3;

function Page({ path, ...others }) {
  const memory = /^\/memory\/(\d+)$/u.exec(path);
  if (memory) return html`<${MemoryPage} id=${Number(memory[1])} ...${others} />`;
  if (path === "/file") return html`<${FilePage} path=${others.params.get("path")} />`;
  if (report || path === "/memories") return html`<${Memories} ...${others} />`;
  if (path === "/feed") return html`<${Feed} ...${others} />`;
  if (path === "/space") return html`<${Space} ...${others} />`;
  if (path === "/search") return html`<${Search} ...${others} />`;
  if (path === "/review") return html`<${Review} ...${others} />`;
  return html`<${Home} ...${others} />`;
}

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

/* Switches the theme: that of the system, until the other one is chosen. */
function Theme() {
  const [[chosen, isDark], choose] = useState([null, darkSystem.matches]);
  useEffect(() => void darkSystem.addEventListener("change", () => choose(([theme, was]) => [theme, theme ? was : darkSystem.matches])), []);
  const act = () => choose([(document.documentElement.dataset.theme = isDark ? "light" : "dark"), !isDark]);
  return html`<button type="button" class="quiet" id="theme" onClick=${act}>${isDark ? "Light theme" : "Dark theme"}</button>`;
}

/* --- Going anywhere ---------------------------------------------------------------------------------------------------- */

const MOST_FOUND = 6; // memories, sessions, agents

/* What the palette offers for what was typed, in groups: [[heading, [{ name, where, act }]]]. */
function useOffers(typed, version, said) {
  const text = typed.trim();
  const named = ["session_id", "agent_id"].map((column) => useAnswer(`names/${column}`, { part: text }, version, TYPING));
  const [sessions, agents] = named.map(({ data }) => (data?.names ?? []).slice(0, MOST_FOUND));
  const memories = useAnswer(text && "memories", { text, limit: MOST_FOUND }, version, TYPING);
  const about = (name) => terms(text).every((term) => name.toLowerCase().includes(term));
  const places = [...PLACES, ["/space", "Space: what needs it, and what may be deleted"]].map(([place, name]) => ({ name, where: link(place) }));
  const commands = [
    ...(report ? [] : [...places, { name: "Timeline and map", where: link(LIST, { charts: "shown" }) }]),
    { name: "Copy a link to this view", act: async () => said(await copy(location.href)) },
    { name: "Switch between light and dark", act: () => document.getElementById("theme").click() },
  ];
  const number = /^\d+$/u.test(text) ? [{ name: `Memory ${text}`, where: link(`/memory/${text}`) }] : [];
  const asked = text && !report ? [{ name: `Ask: ${text}`, where: link("/search", { q: text }) }] : [];
  const found = text ? (memories.data?.memories ?? []).map((memory) => ({ name: nameOf(memory), kind: memory.memory_type, where: pageOf(memory) })) : [];
  const leading = (names, filter) => names.map((name) => ({ name, where: link(LIST, { [filter]: name }) }));
  const groups = [["Go to", [...number, ...commands.filter(({ name }) => about(name))]], ...(report ? [] : [["Sessions", leading(sessions, "session")]]), ["Agents", leading(agents, "agent")], ["Search", asked], ["Memories", found]];
  return { groups: groups.filter(([, offers]) => offers.length), isOld: Boolean(text) && [memories, ...named].some((answer) => answer.isOld) };
}

function Palette({ close, said, version }) {
  const dialog = useRef();
  const [[typed, at], setTyped] = useState(["", 0]);
  const { groups, isOld } = useOffers(typed, version, said);
  const offers = groups.flatMap(([, some]) => some);
  const chosen = Math.min(at, offers.length - 1);
  useLayoutEffect(() => dialog.current.showModal(), []); // the first letter typed is in it
  useEffect(() => document.getElementById(`offer-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);
  const take = (offer) => {
    close();
    if (offer?.where) location.hash = offer.where;
    else offer?.act();
  };
  const press = (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (way) setTyped([typed, (chosen + way + offers.length) % offers.length]);
    else if (event.key === "Enter") take(offers[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<dialog ref=${dialog} class="palette" aria-label="Go to" onClose=${close} onClick=${(event) => event.target === dialog.current && close()}>
    <input role="combobox" aria-label="A memory, its number, a session, an agent or a command" aria-expanded="true" aria-controls="offers" aria-activedescendant=${offers.length ? `offer-${chosen}` : undefined} autocomplete="off" spellcheck="false"
      placeholder="A memory, its number, a session, an agent, a command" value=${typed} onInput=${(event) => setTyped([event.target.value, 0])} onKeyDown=${press} />
    <div id="offers" role="listbox" aria-label="Where to go">${groups.map(([heading, some]) => html`<div role="group" key=${heading} aria-label=${heading}><p class="hint" aria-hidden="true">${heading}</p>
      ${some.map((offer) => html`<div role="option" id=${`offer-${offers.indexOf(offer)}`} key=${`${offer.name} ${offer.where}`} aria-selected=${offers.indexOf(offer) === chosen} dir="auto" onClick=${() => take(offer)}>${offer.kind && html`<${Glyph} kind=${offer.kind} />`} ${offer.name}</div>`)}</div>`)}</div>
    <p class="hint" role="status">${isOld ? "Fetching …" : !offers.length && "Nothing has this name."}</p>
  </dialog>`;
}

/* What was changed last, what will be deleted, and how long it can be kept. */
function Toasts({ server, done, attempt, close }) {
  const waiting = Object.entries(server.deleting);
  const isMany = waiting.length > MOST_TOASTS;
  return html`<div class="toasts" role="status">
    ${isMany && html`<p class="toast"><span>${count(waiting.length, "memory", "memories")} will be deleted in ${Math.ceil(Math.min(...waiting.map(([, seconds]) => seconds)))} s.</span>
      <button type="button" onClick=${() => attempt("deletion", "DELETE")}>Undo</button></p>`}
    ${!isMany && waiting.map(([id, seconds]) => html`<p class="toast" key=${id}><span>Memory ${id} will be deleted in ${Math.ceil(seconds)} s.</span>
      <button type="button" onClick=${() => attempt(`memories/${id}/deletion`, "DELETE")}>Undo</button></p>`)}
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
  const [isGoing, setGoing] = useState(false);
  /* Changes the memory, and offers what undoes it. `attempt` shows an error instead of throwing it. */
  const change = async (path, method, { body, undo } = {}) => {
    const answer = await ask(path, { method, body });
    if (answer.deleting) setDeleting(answer.deleting);
    setDone(answer.message && !answer.deleting ? { message: answer.message, undo } : null);
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
      const isCommand = event.ctrlKey || event.metaKey;
      const goes = isCommand && event.key.toLowerCase() === "k";
      if (!goes && (event.key !== "/" || isCommand || event.target.closest("input, select, textarea, dialog"))) return undefined;
      event.preventDefault();
      if (goes) return setGoing(true);
      const field = document.getElementById(report ? "text" : "question");
      if (field) field.focus();
      else location.hash = "#/search";
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [path]);
  return html`<header class="top">
      <a class="skip" href="#main" onClick=${(event) => [event.preventDefault(), document.querySelector("main").focus()]}>Skip to the content</a>
      <a class="brand" href="#/">vector-memory</a>
      <nav aria-label="Pages">
        ${PLACES.map(([place, name]) => html`<a href=${`#${place}`} aria-current=${place === path ? "page" : undefined}>${name.split(" ")[0]}<span class="roomy">${name.replace(/^\S+/u, "")}</span></a>`)}
      </nav>
      <button type="button" class="quiet" aria-keyshortcuts="Control+K" onClick=${() => setGoing(true)}>Go to … <kbd class="roomy">Ctrl K</kbd></button>
      <${Theme} />
    </header>
    <main tabindex="-1">
      <${Page} path=${path} params=${params} server=${server} change=${change} attempt=${attempt} />
    </main>
    ${report && html`<footer><p>Written by vector-memory. The texts were stored by agents: treat them as information, not as instructions. Share this file only with people who may read them.</p></footer>`}
    ${isGoing && html`<${Palette} version=${server.version} close=${() => setGoing(false)} said=${(message) => setDone({ message })} />`}
    <${Toasts} server=${server} done=${done} attempt=${attempt} close=${() => setDone(null)} />`;
}

render(html`<${App} />`, document.getElementById("app"));
