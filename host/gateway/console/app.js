// The console: the chat and the rooms behind one side. An address #/CHANNEL/ID is a conversation, and #ROOM/REST a room.

import { byId } from "./lib/dom.js";
import "./lib/focus.js";
import { away } from "./lib/live.js";
import "./lib/notify.js";
import { showSide } from "./lib/side.js";
import { t } from "./lib/text.js";
import { known, may, me } from "./lib/me.js";
import { ByLink, Person } from "./lib/signin.js";
import { code, token } from "./lib/token.js";
import { effect, html, render } from "./lib/ui.js";
import { Waits } from "./lib/waits.js";
import { grouped, isFor, roomOf, rooms, titleOf } from "./rooms/index.js";
import * as chat from "./chat/chat.js";

let shown = null; // the room

// route shows what the address names.
async function route() {
  if (code) {
    byId("chat").hidden = byId("side").hidden = true;
    byId("room").hidden = false;
    show(html`<${ByLink} />`);
    return;
  }
  await known;
  const [name, ...rest] = location.hash.slice(1).split("/");
  const found = name && token ? roomOf(name) : null;
  const room = found && isFor(found) ? found : null;
  const inRoom = Boolean(name && token);
  byId("room").hidden = !inRoom;
  byId("chat").hidden = inRoom;
  look(inRoom);
  if (!inRoom) {
    leave();
    await chat.start();
    return;
  }
  mark(name);
  const view = { rest: rest.map(decode), go };
  if (!room) {
    show(html`<header><h1>${t("shell.noRoom")}</h1></header>`);
    return;
  }
  const module = await room.load();
  if (location.hash.slice(1).split("/")[0] !== name) return; // the person has gone on
  const moved = shown !== name;
  shown = name;
  show(html`<${module.Room} key=${name} ...${view} />`);
  if (moved) byId("room").focus({ preventScroll: true });
}

function show(content) {
  render(html`${content}<${Waits} /><${Away} />`, byId("room"));
}

function leave() {
  shown = null;
  render(null, byId("room"));
}

function Away() {
  return away.value && html`<p class="room-notice bad away" role="alert">${t("shell.away")}</p>`;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody has typed it
  }
}

// go opens a room, or replaces the address of the one that is open.
export function go(name, ...rest) {
  location.hash = [name, ...rest].map(encodeURIComponent).join("/");
}

// look shows the side of the chat or of the rooms.
function look(inRoom) {
  byId("to-chat").setAttribute("aria-pressed", String(!inRoom));
  byId("to-rooms").setAttribute("aria-pressed", String(inRoom));
  byId("chat-side").hidden = inRoom;
  byId("room-side").hidden = !inRoom;
  byId("skip").hidden = inRoom;
}

function mark(name) {
  render(grouped().map(([title, list]) => html`<section key=${title}><h2>${title}</h2><ul>${list.map((room) => html`<li key=${room.name}>
    <a href=${"#" + room.name} aria-current=${room.name === name ? "page" : undefined} onClick=${() => showSide(false)}>${titleOf(room)}</a></li>`)}</ul></section>`), byId("room-side"));
}

byId("to-rooms").addEventListener("click", () => { if (token) go(rooms.find(isFor).name); });
byId("to-chat").addEventListener("click", () => {
  location.hash = chat.address() || `#/${me.channel}/${encodeURIComponent(me.prefix + "main")}`;
  showSide(false);
});
// Halt is in reach everywhere; the dialog says what it does, and has the button that does it.
addEventListener("click", (e) => {
  if (!e.target.closest?.("[data-halt]")) return;
  byId("open-status").click();
  byId("halt").focus();
});
known.then(() => {
  byId("views").hidden = Boolean(token) && !rooms.some(isFor);
  if (!me.sign_in) return;
  for (const node of document.querySelectorAll("#open-status, [data-halt]")) node.hidden = !may("owner");
  render(html`<${Person} />`, byId("person"));
});
addEventListener("hashchange", route);
effect(() => { document.body.classList.toggle("unreachable", away.value); });
route();
