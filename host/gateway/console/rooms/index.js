// The rooms of the console, in the order of the side. A room is a module that exports Room, a component which gets {rest, go}: the parts of
// the address behind the room's name, and how to go elsewhere. least is the least role that it is for.

import { may, me } from "../lib/me.js";
import { t } from "../lib/text.js";

export const rooms = [
  { name: "today", group: "now", least: "owner", load: () => import("./today.js") },
  { name: "me", group: "now", least: "guest", signedIn: true, load: () => import("./me.js") },
  { name: "people", group: "people", least: "owner", load: () => import("./people.js") },
  { name: "policies", group: "safety", least: "owner", load: () => import("./policies.js") },
  { name: "timeline", group: "safety", least: "owner", load: () => import("./timeline.js") },
  { name: "sandboxes", group: "safety", least: "owner", load: () => import("./sandboxes.js") },
  { name: "previews", group: "safety", least: "guest", load: () => import("./previews.js") },
  { name: "agents", group: "agents", least: "owner", load: () => import("./agents.js") },
  { name: "schedules", group: "agents", least: "owner", load: () => import("./schedules.js") },
  { name: "memory", group: "agents", least: "owner", load: () => import("./memory.js") },
  { name: "models", group: "agents", least: "owner", load: () => import("./models.js") },
  { name: "channels", group: "reach", least: "owner", load: () => import("./channels.js") },
  { name: "settings", group: "host", least: "owner", load: () => import("./settings.js") },
  { name: "hosts", group: "host", least: "owner", load: () => import("./hosts.js") },
  { name: "doctor", group: "host", least: "owner", load: () => import("./doctor.js") },
];

// isFor reports whether a room is for the person who looks; one that is signedIn is not for the token of the machine.
export const isFor = (room) => may(room.least) && (!room.signedIn || Boolean(me.sign_in));

export const roomOf = (name) => rooms.find((r) => r.name === name);
export const titleOf = (room) => t(room.name + ".title");

// grouped are the rooms as the side shows them: [title, rooms].
export function grouped() {
  const groups = [];
  for (const room of rooms.filter(isFor)) {
    const title = t("shell." + room.group);
    const last = groups.at(-1);
    if (last?.[0] === title) last[1].push(room);
    else groups.push([title, [room]]);
  }
  return groups;
}
