// Drawing with preact: html`<b>...</b>` makes nodes, signals hold the state. Text is always text: nothing here parses HTML.

import { h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { render };
export { Fragment } from "../vendor/preact.js";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";

export const html = htm.bind(h);
