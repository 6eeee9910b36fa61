// What changes while it is looked at. The host tells of changes in one stream of events (GET /api/v1/events); each says of which kind a
// change is, and what shows that kind loads it again. A stream that was cut goes on behind the last event that came.

import { get, Problem } from "./api.js";
import { token } from "./token.js";
import { signal, useEffect, useSignal } from "./ui.js";

const firstWait = 500;
const longestWait = 10000;
const silence = 45000; // milliseconds without a line after which the stream is taken for dead
const slowly = 15000;  // between two looks of a host without the stream
const often = 300;     // between two looks at one thing, however often it changes
const unseen = 10000;  // out of sight, after which a tab leaves the stream

const watchers = new Set(); // of {kinds, look}

// away is true while the host cannot be reached.
export const away = signal(false);

// inTurn returns a function that calls f, and never before the last call of it has ended: calls that come meanwhile are one call after it.
export function inTurn(f) {
  let now = null;
  let next = null;
  return function call() {
    if (!now) return now = f().finally(() => { now = null; });
    return next ??= now.then(() => {
      next = null;
      return call();
    });
  };
}

// paced is inTurn with a pause after each call, so that many calls in a short time are few.
export const paced = (f) => inTurn(() => Promise.all([f(), new Promise((resolve) => setTimeout(resolve, often))]));

// watch calls changed() when something of these kinds may have changed; many changes in a short time are one. It returns how to end that.
export function watch(kinds, changed) {
  const look = paced(async () => { if (watchers.has(watcher)) await changed(); });
  const watcher = { kinds, look };
  watchers.add(watcher);
  begin();
  return () => watchers.delete(watcher);
}

function tell(kind) {
  for (const w of watchers) if (!kind || w.kinds.includes(kind)) w.look();
}

let running = false;
let last = "";
let stream = null;

// stay is true while a tab that nobody looks at keeps the stream. All tabs of a browser share six connections to the host.
export const stay = signal(false);

const rests = () => document.visibilityState === "hidden" && !stay.value;

let leaving = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (rests()) leaving = setTimeout(() => stream?.abort(), unseen);
});

const looked = () => new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));

function begin() {
  if (running || !token) return;
  running = true;
  follow();
}

async function follow() {
  for (let wait = firstWait; ;) {
    while (rests()) await looked();
    stream = new AbortController();
    try {
      const answer = await fetch("/api/v1/events", {
        headers: { Authorization: "Bearer " + token, ...(last && { "Last-Event-ID": last }) }, cache: "no-store", signal: stream.signal,
      });
      if (!answer.ok) throw new Problem(answer.status);
      away.value = false;
      wait = firstWait;
      await read(answer.body);
    } catch (error) {
      if (error.status === 401) return; // the chat asks for the token
      if (rests()) continue;
      away.value = !(error.status > 0);
      if (error.status > 0) tell();
      if (error.status === 404) wait = slowly;
    }
    await pause(wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, longestWait);
  }
}

// pause ends sooner when the machine comes back to the network or the person to the page.
function pause(ms) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      document.removeEventListener("visibilitychange", shown);
      resolve();
    };
    const shown = () => { if (document.visibilityState === "visible") end(); };
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
    document.addEventListener("visibilitychange", shown);
  });
}

// read handles the lines of a stream until it ends.
async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = {};
  for (;;) {
    const dead = setTimeout(() => stream.abort(), silence);
    const { value, done } = await reader.read().finally(() => clearTimeout(dead));
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        dispatch(event);
        event = {};
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
    }
  }
}

function dispatch({ id, event, data }) {
  if (id) last = id;
  if (event === "ready" || event === "reset") tell();
  else if (event && data) tell(event);
}

// useLive loads a path, and loads it again when something of these kinds changes. What was there stays until the new is.
export function useLive(path, ...kinds) {
  const state = useSignal({ loading: true });
  const load = useSignal(() => {});
  useEffect(() => {
    let current = true;
    const run = inTurn(async () => {
      try {
        const value = await get(path);
        if (current) state.value = { value, loading: false };
      } catch (error) {
        if (current) state.value = { ...state.value, error, loading: false };
      }
    });
    state.value = { loading: true };
    load.value = run;
    run();
    const end = watch(kinds, run);
    return () => {
      current = false;
      end();
    };
  }, [path]);
  return { ...state.value, again: load.value };
}
