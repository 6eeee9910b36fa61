// The token of the API. This machine's comes in the address's fragment or is typed, moves to sessionStorage and leaves the address bar. That of
// a sign-in comes for the code of a link, and lasts in localStorage until its end.

const key = "flynn.token";
const lasting = "flynn.sign-in";

const inFragment = (address, name) => new URLSearchParams(address.slice(address.indexOf("#") + 1)).get(name);

function take() {
  const given = tokenIn(location.hash);
  if (given) keep(given);
  if (given || code) history.replaceState(null, "", location.pathname);
  return given || sessionStorage.getItem(key) || localStorage.getItem(lasting) || "";
}

// tokenIn is the token of an address; nothing if it has none.
export function tokenIn(address) { return inFragment(address, "token"); }

export function keep(value) { sessionStorage.setItem(key, value); }

// stay keeps the token of a sign-in, instead of any other.
export function stay(value) {
  forget();
  localStorage.setItem(lasting, value);
}

export function forget() {
  sessionStorage.removeItem(key);
  localStorage.removeItem(lasting);
}

// code is that of a link to sign in; nothing if the address has none.
export const code = inFragment(location.hash, "sign-in");

export const token = take();

// A browser that only changes the fragment does not load the page again.
addEventListener("hashchange", () => { if (tokenIn(location.hash) || inFragment(location.hash, "sign-in")) location.reload(); });
