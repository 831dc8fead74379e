/* What the page asks of its server, again whenever the memory has changed. */

import { useEffect, useRef, useState } from "./preact-htm.js";

const SECONDS_HIDDEN = 5;
const SECONDS_SHOWN = 0.5;

export function query(params) {
  const named = Object.entries(params).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  return new URLSearchParams(named.filter(([, value]) => value !== "" && value !== null && value !== undefined)).toString();
}

/* The answer to a request. `method`: of one that writes, `body`: what it sends. Throws an Error that says what to do. */
export async function ask(path, { method = "GET", body = null, signal } = {}) {
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
export function useAnswer(path, params, version, patience = 0) {
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
          const data = await ask(address, { signal: stop.signal });
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
export function useServer() {
  const [state, setState] = useState({ version: null, deleting: {}, failed: {}, error: null });
  useEffect(() => {
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
      timer = setTimeout(look, (document.hidden ? SECONDS_HIDDEN : SECONDS_SHOWN) * 1000);
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

/* --- Addresses: #/memories?kind=report ------------------------------------------------------------------------------ */

export function address() {
  const [path, rest] = location.hash.replace(/^#/u, "").split("?");
  return { path: path || "/", params: new URLSearchParams(rest ?? "") };
}

export const link = (path, params = {}) => `#${path}${query(params) ? `?${query(params)}` : ""}`;

/* Names the state of the page in its address without a new entry in the history: while typing. */
export function rename(path, params) {
  history.replaceState(null, "", link(path, params));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useAddress() {
  const [now, setNow] = useState(address());
  useEffect(() => {
    const follow = () => setNow(address());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return now;
}
