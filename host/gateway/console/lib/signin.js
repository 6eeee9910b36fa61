// Signing in by a link, and out again.

import { at, Problem, send } from "./api.js";
import { me } from "./me.js";
import { Badge, Button, Text } from "./parts.js";
import { code, forget, stay } from "./token.js";
import { t } from "./text.js";
import { html, useSignal } from "./ui.js";

// ByLink asks before it uses a link, because another person may have sent it, and because programs open links to look at them.
export function ByLink() {
  const trouble = useSignal("");
  const use = async () => {
    try {
      stay((await send("POST", "/sign-in", { code })).token);
      location.reload();
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      trouble.value = error.message;
    }
  };
  return html`<div class="column sign-in"><h1>${t("signin.title")}</h1>
    ${trouble.value ? html`<p class="room-notice bad" role="alert">${trouble.value}</p><a href="/">${t("signin.back")}</a>`
    : html`<p>${t("signin.question")}</p><${Button} kind="primary" does=${use}>${t("signin.do")}<//>`}</div>`;
}

// Person says at the foot of the side who is signed in.
export function Person() {
  if (!me.sign_in) return null;
  const out = async () => {
    try {
      await send("DELETE", at`/sign-ins/${me.sign_in}`);
    } catch (error) {
      if (!error.status) throw error; // it has ended if the host does not know it
    }
    forget();
    location.reload();
  };
  return html`<p class="person"><${Text}>${me.sender}<//> <${Badge}>${me.role}<//></p><${Button} kind="quiet" does=${out}>${t("signin.out")}<//>`;
}
