/* What the page asks of its server, again whenever the memory has changed; of a report, what is in the page. */

const SECONDS_HIDDEN = 5;
const SECONDS_VISIBLE = 0.5;

function query(params) {
  const named = Object.entries(params).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  return new URLSearchParams(named.filter(([, value]) => value !== "" && value !== null && value !== undefined)).toString();
}

/* Filters as the server takes them: with the times that a period means now. */
function timed({ since, until, ...others }) {
  const time = (at, given) => (given && Number.isFinite(at) ? new Date(at).toISOString() : given);
  return report ? { since, until, ...others } : { ...others, since: time(startOf(since), since), until: time(endOf(until), until) };
}

/* The answer to a request. `method`: of one that writes, `body`: what it sends. Throws an Error that says what to do. */
async function ask(path, { method = "GET", body = null, signal } = {}) {
  if (report) return fromReport(path);
  const headers = method === "GET" ? {} : { "X-Vector-Memory": "page" };
  const sent = body && JSON.stringify(body);
  let response;
  try {
    response = await fetch(`api/${path}`, { method, signal, headers, body: sent });
  } catch (error) {
    throw signal?.aborted ? error : new Error("The server does not answer. If it has ended, start it again.");
  }
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  const answer = isJson ? await response.json() : null;
  if (response.status === 413) throw new Error("This is too large to be sent by the page: use vector-memory import.");
  if (!response.ok) throw new Error(answer?.message ?? "This page was closed: run vector-memory ui for a new link.");
  return answer;
}

/* The answer to a request, and to the same request after each change. The last one stays until the next is there. What
   changes while it is being answered is asked for after a pause of the same length: agents may store faster than a large
   memory answers, and have the other half of its time.
   `patience`: milliseconds in which the request may still change, because somebody is typing. */
function useAnswer(path, params, version, patience = 0) {
  const [answer, setAnswer] = useState({ data: null, error: null });
  const address = path && `${path}?${query(params)}`;
  const [latest, follow] = [useRef(), useRef()];
  latest.current = version;
  useEffect(() => {
    if (!address || version === null) return undefined; // the version comes at once
    const stop = new AbortController();
    let [asked, isAsking] = [null, true];
    const begin = async () => {
      isAsking = true;
      while (asked !== latest.current && !stop.signal.aborted) {
        asked = latest.current;
        const began = performance.now();
        try {
          const data = await ask(`${path}?${query(timed(params))}`, { signal: stop.signal });
          setAnswer({ data, error: null, address });
        } catch (error) {
          if (!stop.signal.aborted) setAnswer((last) => ({ ...last, error, address }));
        }
        const taken = performance.now() - began;
        await new Promise((go) => setTimeout(go, taken));
      }
      isAsking = false;
    };
    follow.current = () => isAsking || begin();
    const timer = setTimeout(begin, patience);
    return () => {
      clearTimeout(timer);
      stop.abort();
      follow.current = null;
    };
  }, [address, version === null]);
  useEffect(() => void follow.current?.(), [version]);
  return { ...answer, isOld: answer.address !== address };
}

/* What changes without being asked for: the version of the memory, and which memories will be deleted. */
function useServer() {
  const [state, setState] = useState({ version: report ? "" : null, read_only: true, deleting: {}, failed: {}, error: null });
  useEffect(() => {
    if (report) return undefined;
    let timer = 0;
    const look = async () => {
      clearTimeout(timer);
      try {
        const next = { ...(await ask("state")), error: null };
        setState((last) => (JSON.stringify(last) === JSON.stringify(next) ? last : next));
      } catch (error) {
        setState((last) => ({ ...last, error }));
      }
      clearTimeout(timer);
      timer = setTimeout(look, (document.hidden ? SECONDS_HIDDEN : SECONDS_VISIBLE) * 1000);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return [state, (deleting) => setState((last) => ({ ...last, deleting }))];
}

/* --- A report ---------------------------------------------------------------------------------------------------------- */

for (const memory of report?.memories ?? []) memory.beginning ??= memory.content.slice(0, 400);
const reported = new Map(report?.memories.map((memory) => [memory.memory_id, memory]));

function fromReport(path) {
  const [name, params] = path.split("?");
  const given = Object.fromEntries(new URLSearchParams(params));
  const [kind, which] = name.split("/");
  if (kind === "names") return namesIn(which, (given.part ?? "").toLowerCase());
  if (kind === "chart") return { ...report, memories: report.memories.map((memory) => ({ ...memory, out: !isNamed(memory, given) })) };
  if (which) return pageIn(Number(which));
  const found = report.memories.filter((memory) => isNamed(memory, given)).reverse();
  const [start, pattern] = [Number(given.offset ?? 0), finder(given.text ?? "")];
  const shown = found.slice(start, start + Number(given.limit));
  return { memories: shown.map((memory) => ({ ...memory, excerpt: pattern && around(memory.content ?? "", pattern) })), total: found.length, files: 0, superseded: 0 };
}

function namesIn(column, part) {
  const names = [...new Set(report.memories.map((memory) => memory[column]))].filter((name) => name?.toLowerCase().includes(part));
  return { names: names.sort(collator.compare) };
}

/* Whether filters name a memory. One of them is words and "phrases", which its text or what is told of it contains. */
function isNamed(memory, { text = "", kind, agent, task, iteration, tag, since, until }) {
  memory.words ??= [nameOf(memory), memory.description, memory.tags.join(" "), memory.agent_id, memory.task_code, memory.content].join("\n").toLowerCase();
  const wanted = [[kind, memory.memory_type], [agent, memory.agent_id], [task, memory.task_code], [iteration?.replace(/^v/u, ""), String(memory.session_iter)]];
  return (
    wanted.every(([filter, value]) => !filter || filter === value) &&
    (!tag || memory.tags.includes(tag)) &&
    isWithin(Date.parse(memory.created_at), since, until) &&
    terms(text).every((term) => memory.words.includes(term))
  );
}

function pageIn(id) {
  const memory = reported.get(id);
  if (!memory) throw new Error(`Memory ${id} is not in this report.`);
  const observations = report.memories.filter((other) => Number(other.metadata.parent_report_id) === id);
  return {
    memory: { ...memory, id },
    html: memory.html,
    chunks: [],
    observations: observations.map((one) => ({ ...one, id: one.memory_id })),
    nearest: memory.near.map(([other, similarity]) => ({ ...reported.get(other), similarity })),
    later: [],
  };
}

/* --- Addresses: #/memories?kind=report ------------------------------------------------------------------------------ */

function address() {
  const linked = /^#m(\d+)$/u.exec(location.hash);
  if (linked) return { path: `/memory/${linked[1]}`, params: new URLSearchParams() };
  const [path, rest] = location.hash.replace(/^#/u, "").split("?");
  return { path: path || "/", params: new URLSearchParams(rest ?? "") };
}

const LIST = report ? "/" : "/memories"; // where all memories are listed

const link = (path, params = {}) => `#${path}${query(params) ? `?${query(params)}` : ""}`;

/* Names the state of the page in its address without a new entry in the history: while typing. */
function rename(path, params) {
  history.replaceState(history.state, "", link(path, params));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function useAddress() {
  const [now, setNow] = useState(address());
  useEffect(() => {
    const follow = () => setNow(address());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return now;
}
