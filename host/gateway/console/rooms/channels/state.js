// How the state of a channel looks.

const working = ["ready", "connected"];
const between = ["degraded", "starting", "describing", "configuring", "backoff", "verified"];

export const kindOf = (c) => (!c.enabled ? "" : working.includes(c.state) ? "good" : between.includes(c.state) ? "warn" : "bad");
