// A terminal in a live sandbox: a screen that takes keys, and a line below it for phones and readers of screens.

import { Badge, Notice, Page } from "../../lib/parts.js";
import { revealed, t } from "../../lib/text.js";
import { token } from "../../lib/token.js";
import { html, useEffect, useRef, useSignal } from "../../lib/ui.js";
import { leaves, pasted, sent } from "./keys.js";
import { Screen } from "./screen.js";

const chunk = 16000; // characters of a frame

const words = () => ({
  connecting: t("sandboxes.connecting"), ready: t("sandboxes.connected"), ended: t("sandboxes.ended"), error: t("sandboxes.refused"), lost: t("sandboxes.lost"),
});

// runs are the letters of a line with those of one style together.
function runs(line, cursor = -1) {
  const all = [];
  line.forEach(([c, style], x) => {
    const kind = x === cursor ? (style + " cursor").trim() : style;
    if (all.at(-1)?.[0] === kind) all.at(-1)[1] += c;
    else all.push([kind, c]);
  });
  return all.map(([kind, text]) => (kind ? html`<span class=${kind}>${text}</span>` : text));
}

const drawn = new WeakMap(); // of lines above the screen, which do not change
function Line(line, i) {
  if (!drawn.has(line)) drawn.set(line, html`<div key=${"a" + i}>${runs(line)}</div>`);
  return drawn.get(line);
}

// measure is how many letters fit.
function measure(box) {
  const probe = box.querySelector(".probe");
  const line = probe.getBoundingClientRect();
  const one = line.width / probe.textContent.length;
  return { rows: clamp(Math.floor((box.clientHeight - 22) / line.height), 5), cols: clamp(Math.floor((box.clientWidth - 28) / one), 20) };
}

const clamp = (n, least) => Math.max(least, Math.min(n || 0, 300));

// connect opens the socket of a terminal. It returns how to send, how to change the size and how to end.
function connect(id, size, { output, state }) {
  const scheme = location.protocol === "https:" ? "wss://" : "ws://";
  const ws = new WebSocket(scheme + location.host + "/api/v1/sandboxes/" + encodeURIComponent(id) + "/terminal", ["flynn.terminal.v1"]);
  const decoder = new TextDecoder();
  let word = "connecting";
  const become = (next, text) => {
    word = next;
    state(next, text);
  };
  ws.binaryType = "arraybuffer";
  ws.onopen = () => ws.send(JSON.stringify({ type: "hello", token, ...size }));
  ws.onmessage = (e) => {
    if (typeof e.data !== "string") {
      output(decoder.decode(e.data, { stream: true }));
      return;
    }
    const frame = JSON.parse(e.data);
    become(frame.type, frame.message);
  };
  ws.onclose = () => { if (word === "connecting" || word === "ready") become("lost"); };
  return {
    send(text) {
      const bytes = new TextEncoder();
      for (let i = 0; word === "ready" && i < text.length; i += chunk) ws.send(bytes.encode(text.slice(i, i + chunk)));
    },
    resize(next) { if (word === "ready") ws.send(JSON.stringify({ type: "resize", ...next })); },
    end() {
      ws.onclose = null;
      ws.close();
    },
  };
}

export function Terminal({ id }) {
  const box = useRef(null);
  const live = useRef({ send() {}, resize() {}, screen: null });
  const state = useSignal({ word: "connecting" });
  const picture = useSignal(0); // grows with each one
  useEffect(() => {
    const at = box.current;
    const size = measure(at);
    const screen = new Screen(size.rows, size.cols, (text) => line.send(text));
    let due = 0;
    const draw = () => { due ||= requestAnimationFrame(() => { due = 0; picture.value++; }); };
    const line = connect(id, size, { output: (text) => { screen.write(text); draw(); }, state: (word, text) => { state.value = { word, text }; } });
    live.current = { ...line, screen };
    const watch = new ResizeObserver(() => {
      const next = measure(at);
      if (next.rows === screen.rows && next.cols === screen.cols) return;
      screen.resize(next.rows, next.cols);
      line.resize(next);
      draw();
    });
    watch.observe(at);
    return () => {
      watch.disconnect();
      cancelAnimationFrame(due);
      line.end();
    };
  }, [id]);
  useEffect(() => { box.current.scrollTop = box.current.scrollHeight; }, [picture.value]);
  const open = state.value.word === "ready";
  useEffect(() => { if (open) box.current.focus(); }, [open]);
  const key = (e) => {
    const text = open ? sent(e, live.current.screen.keypad) : undefined;
    if (e.key === leaves) document.querySelector(".typing input").focus();
    if (text === undefined && e.key !== leaves) return;
    e.preventDefault();
    if (text !== undefined) live.current.send(text);
  };
  const paste = (e) => {
    e.preventDefault();
    live.current.send(pasted(e.clipboardData.getData("text")));
  };
  const screen = live.current.screen;
  return html`<${Page} title=${t("sandboxes.terminalIn", { id: id.slice(0, 12) })} actions=${html`<${Badge} kind=${open ? "good" : "warn"}>${words()[state.value.word]}<//>`}>
    <p><a href="#sandboxes">${t("sandboxes.title")}</a></p>
    ${state.value.text && html`<${Notice} kind=${state.value.word === "error" ? "bad" : "info"}>${revealed(state.value.text)}<//>`}
    <div ref=${box} class="source screen" tabindex="0" role="application" aria-label=${t("sandboxes.output")} onKeyDown=${key} onPaste=${paste}>
      <span class="probe" aria-hidden="true">00000000000000000000</span>
      ${screen && (screen.other ? [] : screen.above).map(Line)}
      ${screen?.lines.map((line, y) => html`<div key=${"s" + y}>${runs(line, screen.shown && open && y === screen.y ? screen.x : -1)}</div>`)}
    </div>
    <${Typing} open=${open} send=${(text) => live.current.send(text)} />
    <p class="small">${t("sandboxes.keys", { key: leaves })}</p>
  <//>`;
}

function Typing({ open, send }) {
  const typed = useSignal("");
  const enter = (e) => {
    e.preventDefault();
    send(typed.value + "\r");
    typed.value = "";
  };
  return html`<form class="typing" onSubmit=${enter}>
    <input type="text" aria-label=${t("sandboxes.line")} value=${typed.value} onInput=${(e) => { typed.value = e.target.value; }} disabled=${!open} autocomplete="off" autocapitalize="off" spellcheck="false" />
    <button type="submit" class="button main" disabled=${!open}>${t("sandboxes.send")}</button>
    <button type="button" class="button" disabled=${!open} onClick=${() => send("\x03")}>${t("sandboxes.interrupt")}</button>
    <button type="button" class="button" disabled=${!open} onClick=${() => send("\x04")}>${t("sandboxes.end")}</button>
  </form>`;
}
