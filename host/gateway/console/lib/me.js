// The person at the console, as the host says it: what he may do follows from that, and is checked by the host in any case.

import { get } from "./api.js";
import { away, watch } from "./live.js";
import { forget, token } from "./token.js";

const ranks = ["guest", "member", "owner"];
const again = 1000; // milliseconds between two tries to reach the host

// me is {sender, role, sign_in, channel, prefix}: new conversations are on channel, and their ids begin with prefix.
export let me = { sender: "", role: "", channel: "web", prefix: "" };

// may reports whether the person has a role or one above it.
export const may = (least) => ranks.indexOf(me.role) >= ranks.indexOf(least);

// writes reports whether the person can write to a conversation.
export const writes = (channel, id) => (me.sign_in ? channel === me.channel && id.startsWith(me.prefix) : true);

export const fresh = () => [me.channel, me.prefix + crypto.randomUUID()];

// known is done once the host has answered.
export const known = token ? learn() : Promise.resolve();

async function learn() {
  for (;;) {
    try {
      me = await get("/me");
      watch(["people", "sign-ins"], check);
      return;
    } catch (error) {
      if (error.status === 401) forget();
      if (error.status) return;
      away.value = true;
      await new Promise((resolve) => setTimeout(resolve, again));
    }
  }
}

// check shows another page to a person whose role has changed.
async function check() {
  try {
    if ((await get("/me")).role !== me.role) location.reload();
  } catch (error) {
    if (error.status === 401) location.reload();
  }
}
