// The token of the API. It comes in the address's fragment or is typed, moves to sessionStorage and leaves the address bar.

const key = "flynn.token";

function take() {
  const given = tokenIn(location.hash);
  if (given) {
    keep(given);
    history.replaceState(null, "", location.pathname);
  }
  return given || sessionStorage.getItem(key) || "";
}

// tokenIn is the token of an address; nothing if it has none.
export function tokenIn(address) { return new URLSearchParams(address.slice(address.indexOf("#") + 1)).get("token"); }

export function keep(value) { sessionStorage.setItem(key, value); }

export function forget() { sessionStorage.removeItem(key); }

export const token = take();

// A browser that only changes the fragment does not load the page again.
addEventListener("hashchange", () => { if (tokenIn(location.hash)) location.reload(); });
