import { ENTRY_SIZE, HEADER_SIZE, MAGIC, TYPE_BOOL, TYPE_INT, TYPE_LIST, TYPE_STRING } from "./abi";
import { List } from "./list";
import { Utf8, none } from "./utf8";

const ANY: u32 = 0; // makes find accept a field of any type

// Where find puts what it has found; a result of two words would be an object for each fact that is read.
let valueAt: usize = 0;
let valueLength: u32 = 0;

/**
 * The host's table of facts. Every offset is checked when it is used: a wrong frame has missing facts, and never a read
 * outside of it.
 */
export class Frame {
  constructor(
    private readonly base: usize,
    private readonly size: u32,
    private readonly count: u32,
  ) {}

  /** Whether the host stated the fact at all, which tells an absent one from an empty one. */
  has(field: u32): bool {
    return this.find(field, ANY);
  }

  protected string(field: u32): Utf8 {
    return this.find(field, TYPE_STRING) ? new Utf8(valueAt, <i32>valueLength) : none;
  }

  protected integer(field: u32): i64 {
    return this.find(field, TYPE_INT) && valueLength == 8 ? load<i64>(valueAt) : 0;
  }

  protected flag(field: u32): bool {
    return this.find(field, TYPE_BOOL) && valueLength == 1 && load<u8>(valueAt) == 1;
  }

  protected list(field: u32): List {
    return this.find(field, TYPE_LIST) ? new List(valueAt, valueAt + <usize>valueLength) : new List(0, 0);
  }

  // Ids are sorted, unique and start at 1, so that id n cannot stand behind entry n: the search begins there and goes
  // backwards, and finds a field of a full frame at once.
  private find(field: u32, type: u32): bool {
    const first = this.base + <usize>HEADER_SIZE;
    for (let entry = first + <usize>(min(field, this.count) * ENTRY_SIZE); entry > first; ) {
      entry -= <usize>ENTRY_SIZE;
      const head = load<u32>(entry);
      if ((head & 0xffff) > field) continue;
      if ((head & 0xffff) != field || (type != ANY && head >> 16 != type)) return false;
      const offset = load<u32>(entry, 4);
      const length = load<u32>(entry, 8);
      if (offset > this.size || length > this.size - offset) return false;
      valueAt = this.base + <usize>offset;
      valueLength = length;
      return true;
    }
    return false;
  }
}

/** Whether the size bytes at base begin like a frame of this kind. */
export function isFrame(base: usize, size: u32, kind: u32): bool {
  if (size < HEADER_SIZE || load<u32>(base) != MAGIC) return false;
  const head = load<u32>(base, 4);
  const total = load<u32>(base, 8);
  return (head & 0xffff) == kind && total <= size && HEADER_SIZE + (head >> 16) * ENTRY_SIZE <= total;
}
