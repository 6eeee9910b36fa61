// The addresses of conversations: #/CHANNEL/ID.

// addressed is the conversation in the address bar; null for none.
export function addressed() {
  const parts = location.hash.split("/");
  if (parts.length !== 3 || parts[0] !== "#") return null;
  try {
    return parts.slice(1).map(decodeURIComponent);
  } catch {
    return null; // somebody has typed it
  }
}

export const addressOf = (channel, id) => "#/" + encodeURIComponent(channel) + "/" + encodeURIComponent(id);

// parts are channel and id of "channel:id". Names of channels have no colon.
export function parts(key) {
  const colon = key.indexOf(":");
  return [key.slice(0, colon), key.slice(colon + 1)];
}
