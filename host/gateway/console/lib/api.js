// Requests to the API below /api/v1.

import { token } from "./token.js";

const patience = 30000; // milliseconds

// Problem is an error of the API, as RFC 9457 has it. Its status is 0 when the host could not be reached.
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || "Flynn cannot be reached");
    this.status = status;
    this.code = body.code ?? "unreachable";
    this.errors = body.errors ?? [];
  }
}

// get returns what an address answers.
export const get = (path, options) => send("GET", path, undefined, options);

// send asks for something to be done. A body is sent as JSON, but a Blob as it is. The key makes a repeated request count once; wait is for
// what takes longer than usual, in milliseconds.
export async function send(method, path, body, { signal, key, wait = patience } = {}) {
  const headers = { Authorization: "Bearer " + token };
  if (key) headers["Idempotency-Key"] = key;
  if (body instanceof Blob) headers["Content-Type"] = body.type || "application/octet-stream";
  else if (body !== undefined) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(wait);
  let answer;
  try {
    answer = await fetch("/api/v1" + path, {
      method, headers, cache: "no-store", signal: signal ? AbortSignal.any([signal, limit]) : limit,
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0);
  }
  if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({ detail: path + " answered " + answer.status })));
  if (answer.status === 204) return null;
  return (answer.headers.get("Content-Type") ?? "").startsWith("application/json") ? answer.json() : answer.blob();
}

// at fills the names of a path: at`/people/${sender}`.
export const at = (parts, ...values) => parts.reduce((path, part, i) => path + encodeURIComponent(values[i - 1]) + part);
