// The rooms of the console, in the order of the side. A room is a module that exports Room, a component which gets {rest, go}: the parts of
// the address behind the room's name, and how to go elsewhere. least is the least role that it is for.

import { may } from "../lib/me.js";
import { t } from "../lib/text.js";

export const rooms = [
  { name: "today", group: "now", least: "owner", load: () => import("./today.js") },
  { name: "people", group: "people", least: "owner", load: () => import("./people.js") },
];

export const roomOf = (name) => rooms.find((r) => r.name === name);
export const titleOf = (room) => t(room.name + ".title");

// grouped are the rooms as the side shows them: [title, rooms].
export function grouped() {
  const groups = [];
  for (const room of rooms.filter((r) => may(r.least))) {
    const title = t("shell." + room.group);
    const last = groups.at(-1);
    if (last?.[0] === title) last[1].push(room);
    else groups.push([title, [room]]);
  }
  return groups;
}
