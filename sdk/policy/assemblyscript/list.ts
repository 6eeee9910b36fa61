import { Utf8, utf8 } from "./utf8";

/**
 * A list of texts inside the frame. It is walked once, each reading of a fact gives a new one:
 *
 *	const labels = facts.labels;
 *	for (let label = labels.next(); label !== null; label = labels.next()) { ... }
 */
@final
export class List {
  constructor(
    private at: usize,
    private readonly end: usize,
  ) {}

  /** The next text, or null behind the last. */
  next(): Utf8 | null {
    const left = this.end - this.at;
    if (left < 4) return null;
    const n = <usize>load<u32>(this.at);
    if (n > left - 4) return null;
    const item = new Utf8(this.at + 4, <i32>n);
    this.at += 4 + n;
    return item;
  }

  /** Whether one of the texts that are left is exactly this one. */
  contains<S>(text: S): bool {
    const wanted = utf8(text);
    for (let item = this.next(); item !== null; item = this.next()) {
      if (item.is(wanted)) return true;
    }
    return false;
  }

  /** The texts that are left. */
  toArray(): Utf8[] {
    const all: Utf8[] = [];
    for (let item = this.next(); item !== null; item = this.next()) all.push(item);
    return all;
  }
}
