"use strict";
// The tools of the agent that wrote this program: flynn.call("web.fetch", {url: "https://example.com"}) returns a tool's text.
// A call that is refused, or that fails, throws flynn.Failure with the reason. Files of a result lie in the workspace; the
// text names them.
const { spawnSync } = require("node:child_process");

class Failure extends Error {}

function call(tool, args = {}) {
  const done = spawnSync("/.flynn/bin/flynn-call", [tool], { input: JSON.stringify(args), maxBuffer: 64 << 20 });
  if (done.error || done.status !== 0) {
    throw new Failure(String(done.stderr ?? "").trim() || String(done.error ?? "the host did not answer"));
  }
  const answer = JSON.parse(done.stdout);
  if (answer.error) {
    throw new Failure(answer.text);
  }
  return answer.text;
}

module.exports = { Failure, call };
