import { Level, log } from "./host";

/**
 * What `throw` and failed assertions come to: the message with its place goes to the decision's record, and the policy fails.
 * asconfig.json puts it into the place of the compiler's own, which would ask for a host's function.
 */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const what = message !== null ? message : "the policy gave up";
  const where = file !== null ? file : "policy";
  log(Level.Error, what + " (" + where + ":" + decimal(line) + ":" + decimal(column) + ")");
  unreachable();
}

// toString of a number would bring tables for every base along, three times the size of the rest.
function decimal(n: u32): string {
  const digit = String.fromCharCode(48 + <i32>(n % 10));
  return n < 10 ? digit : decimal(n / 10) + digit;
}
