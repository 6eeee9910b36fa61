// A terminal in a live sandbox, line by line: what the shell writes is text, and its control sequences are left out.

import { Badge, Notice, Page } from "../../lib/parts.js";
import { revealed, t } from "../../lib/text.js";
import { token } from "../../lib/token.js";
import { html, useEffect, useRef, useSignal } from "../../lib/ui.js";

const shown = 500;      // lines
const longest = 4000;   // characters of a line
const size = { rows: 40, cols: 100 };

const words = () => ({
  connecting: t("sandboxes.connecting"), ready: t("sandboxes.connected"), ended: t("sandboxes.ended"), error: t("sandboxes.refused"), lost: t("sandboxes.lost"),
});

// plain leaves out what moves a cursor or sets a colour.
const plain = (text) => text.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][A-Za-z0-9]|[=>78cDEHMNOZ])/g, "").replace(/\r+\n/g, "\n");

// written adds output to lines. A carriage return begins the line again, and a backspace takes a character back.
export function written(lines, text) {
  const all = lines.slice();
  let line = all.pop() ?? "";
  for (const c of plain(text)) {
    if (c === "\n") {
      all.push(line);
      line = "";
    } else if (c === "\r") line = "";
    else if (c === "\b") line = line.slice(0, -1);
    else if (c >= " " || c === "\t") line = line.length < longest ? line + c : line;
  }
  all.push(line);
  return all.slice(-shown);
}

export function Terminal({ id }) {
  const lines = useSignal([""]);
  const state = useSignal({ word: "connecting" });
  const typed = useSignal("");
  const socket = useRef(null);
  const output = useRef(null);
  useEffect(() => {
    const scheme = location.protocol === "https:" ? "wss://" : "ws://";
    const ws = new WebSocket(scheme + location.host + "/api/v1/sandboxes/" + encodeURIComponent(id) + "/terminal", ["flynn.terminal.v1"]);
    const decoder = new TextDecoder();
    ws.binaryType = "arraybuffer";
    ws.onopen = () => ws.send(JSON.stringify({ type: "hello", token, ...size }));
    ws.onmessage = (e) => {
      if (typeof e.data !== "string") {
        lines.value = written(lines.value, decoder.decode(e.data, { stream: true }));
        return;
      }
      const frame = JSON.parse(e.data);
      state.value = { word: frame.type, text: frame.message };
    };
    ws.onclose = () => { if (state.value.word === "connecting" || state.value.word === "ready") state.value = { word: "lost" }; };
    socket.current = ws;
    return () => {
      ws.onclose = null;
      ws.close();
    };
  }, [id]);
  useEffect(() => { output.current.scrollTop = output.current.scrollHeight; }, [lines.value]);
  const open = state.value.word === "ready";
  const send = (text) => { if (open) socket.current.send(new TextEncoder().encode(text)); };
  const enter = (e) => {
    e.preventDefault();
    send(typed.value + "\n");
    typed.value = "";
  };
  return html`<${Page} title=${t("sandboxes.terminalIn", { id: id.slice(0, 12) })} actions=${html`<${Badge} kind=${open ? "good" : "warn"}>${words()[state.value.word]}<//>`}>
    <p><a href="#sandboxes">${t("sandboxes.title")}</a></p>
    ${state.value.text && html`<${Notice} kind=${state.value.word === "error" ? "bad" : "info"}>${revealed(state.value.text)}<//>`}
    <pre ref=${output} class="source screen" tabindex="0" role="log" aria-label=${t("sandboxes.output")}>${lines.value.map((line, i) => html`<span key=${i}>${revealed(line)}${"\n"}</span>`)}</pre>
    <form class="typing" onSubmit=${enter}>
      <input type="text" aria-label=${t("sandboxes.line")} value=${typed.value} onInput=${(e) => { typed.value = e.target.value; }} disabled=${!open} autocomplete="off" autocapitalize="off" spellcheck="false" />
      <button type="submit" class="button main" disabled=${!open}>${t("sandboxes.send")}</button>
      <button type="button" class="button" disabled=${!open} onClick=${() => send("\x03")}>${t("sandboxes.interrupt")}</button>
      <button type="button" class="button" disabled=${!open} onClick=${() => send("\x04")}>${t("sandboxes.end")}</button>
    </form>
    <p class="small">${t("sandboxes.plain")}</p>
  <//>`;
}
