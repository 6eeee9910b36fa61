// The parts that rooms are made of.

import { Problem } from "./api.js";
import { html, useEffect, useId, useRef, useSignal } from "./ui.js";
import { revealed, t, time } from "./text.js";
import { showSide } from "./side.js";

// Page is a whole room: its title, what can be done to all of it, and its content.
export function Page({ title, lead, actions, children }) {
  useEffect(() => { document.title = title + " · Flynn"; }, [title]);
  return html`<header>
      <button class="icon only-phone" aria-label=${t("shell.showSide")} onClick=${() => showSide(true)}>☰</button>
      <h1>${title}</h1>
      <div class="actions">${actions}</div>
      <button class="halt small-halt only-phone" type="button" data-halt>${t("shell.halt")}</button>
    </header>
    <div class="room-scroll"><div class="room-column">${lead && html`<p class="room-lead">${lead}</p>`}${children}</div></div>`;
}

// Loaded shows what useLive gives: a word while it loads, what is wrong, or the content, which is a function of the value.
export function Loaded({ of, children }) {
  if (of.value === undefined && of.loading) return html`<p class="small" role="status">${t("shell.loading")}</p>`;
  return html`${of.error && html`<${Notice} kind="bad">${of.error.message}<//>`}${of.value !== undefined && children(of.value)}`;
}

// Notice is a sentence that asks for attention: kind is good, warn, bad or info.
export const Notice = ({ kind = "info", children }) => html`<p class=${"room-notice " + kind} role=${kind === "bad" ? "alert" : "status"}>${children}</p>`;

export const Empty = ({ children }) => html`<p class="room-empty">${children}</p>`;

export const Badge = ({ kind = "", children }) => html`<span class=${"badge " + kind}>${children}</span>`;

// When is a time in the reader's zone, whole on hover.
export const When = ({ at }) => (time(at) ? html`<time datetime=${at} title=${new Date(at).toString()}>${time(at)}</time>` : "");

// Text is a text of others.
export const Text = ({ children }) => html`<span class="theirs">${revealed(children)}</span>`;

// Source is a text as it was written, such as code.
export const Source = ({ children, label }) => html`<pre class="source" tabindex="0" aria-label=${label}>${revealed(children)}</pre>`;

// Diff is a difference in the unified form.
export function Diff({ children }) {
  const kind = (line) => ({ "+": "added", "-": "removed", "@": "where" })[line[0]] ?? "";
  return html`<pre class="source diff" tabindex="0" aria-label=${t("shell.difference")}>${String(children).split("\n").map((line) => html`<span class=${kind(line)}>${revealed(line)}\n</span>`)}</pre>`;
}

// Section is a part of a room with a title.
export function Section({ title, actions, children }) {
  const id = useId();
  return html`<section class="room-section" aria-labelledby=${id}><div class="section-head"><h2 id=${id}>${title}</h2>${actions}</div>${children}</section>`;
}

// Facts are names with values; those without a value are left out.
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => value || value === 0).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// Table shows rows. Columns are {title, cell(row), number}; a narrow page shows each row as a card.
export function Table({ caption, columns, rows, keyOf, empty }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  return html`<div class="room-table" tabindex="0" role="group" aria-label=${caption}><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.number ? "number" : ""}>${c.title}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)}>${columns.map((c) => html`<td data-title=${c.title} class=${c.number ? "number" : ""}>${c.cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

// Button does something that may take a while: it cannot be pressed meanwhile, and shows what went wrong.
export function Button({ kind = "", does, children, ...rest }) {
  const busy = useSignal(false);
  const trouble = useSignal("");
  const press = async () => {
    busy.value = true;
    trouble.value = "";
    try {
      await does();
    } catch (error) {
      trouble.value = error instanceof Problem ? error.message : t("shell.broken", { error: error.message });
    }
    busy.value = false;
  };
  return html`<span class="button-with-trouble"><button type="button" class=${"button " + kind} disabled=${busy.value} onClick=${press} ...${rest}>${children}</button>
    ${trouble.value && html`<span class="trouble" role="alert">${trouble.value}</span>`}</span>`;
}

// Danger is a Button that asks first. Its question says what happens, and Enter does not do it.
export function Danger({ question, word, does, children, ...rest }) {
  const open = useSignal(false);
  return html`<${Button} kind="quiet" does=${() => { open.value = true; }} ...${rest}>${children}<//>
    ${open.value && html`<${Dialog} title=${word} close=${() => { open.value = false; }}
      actions=${html`<${Button} kind="danger" does=${async () => { await does(); open.value = false; }}>${word}<//>`}><p>${question}</p><//>`}`;
}

// Dialog is a question or a form over the page. Escape and the first button close it; the keyboard returns to where it was.
export function Dialog({ title, close, actions, children, wide, leave }) {
  const ref = useRef(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${"room-dialog" + (wide ? " wide" : "")} aria-labelledby=${id} onClose=${close}>
    <header><h2 id=${id}>${title}</h2></header>
    <div class="dialog-body">${children}</div>
    <footer><div class="buttons"><button type="button" class="button" onClick=${close}>${leave ?? t("shell.cancel")}</button>${actions}</div></footer>
  </dialog>`;
}

// Field is one value of a form with its name, help and what is wrong with it. kind is an input's type, or "text" with many lines if rows is set.
export function Field({ label, help, error, value, change, kind = "text", rows, options, ...rest }) {
  const id = useId();
  const common = {
    id, "aria-describedby": (help ? id + "-help " : "") + (error ? id + "-error" : ""), "aria-invalid": error ? "true" : undefined,
    onInput: (e) => change(kind === "checkbox" ? e.target.checked : e.target.value), ...rest,
  };
  const input = options ? html`<select ...${common} value=${value}>${options.map((o) => html`<option value=${o.value ?? o} selected=${(o.value ?? o) === value}>${o.title ?? o}</option>`)}</select>`
    : rows ? html`<textarea ...${common} rows=${rows} value=${value} />`
    : kind === "checkbox" ? html`<input type="checkbox" ...${common} checked=${value} />` : html`<input type=${kind} ...${common} value=${value} />`;
  return html`<div class=${"field " + kind}>${kind === "checkbox" && input}<label for=${id}>${label}</label>${kind !== "checkbox" && input}
    ${help && html`<p class="small" id=${id + "-help"}>${help}</p>`}${error && html`<p class="trouble" id=${id + "-error"}>${error}</p>`}</div>`;
}

// Tabs show one of several parts: of are [key, title].
export const Tabs = ({ of, now, choose, label }) => html`<div class="views" role="group" aria-label=${label}>${of.map(([key, title]) =>
  html`<button type="button" aria-pressed=${key === now ? "true" : "false"} onClick=${() => choose(key)}>${title}</button>`)}</div>`;
