/**
 * The runtime of a policy's module: memory that is given out from one end and taken back all at once.
 *
 * What a module makes while it starts stays for good. What a hook makes lasts until it has answered; then `reset` takes
 * it back. So memory does not grow from decision to decision, nothing is collected in between, and the same question costs the
 * same fuel each time, whatever was asked before.
 *
 * Nothing of a decision may be reached from what outlives it. A store of one into the other traps: into a field or an element at
 * once, into a global variable when the hook has answered.
 *
 * asconfig.json puts alloc to visit into the place of what the compiler's own runtime has for them.
 */

// What stands before an object; the compiler reads the last two. Objects are aligned to 16, for v128.
const HEADER: usize = 16;
const ID: usize = 8; // bytes before the object
const SIZE: usize = 4;
const MOST: usize = 1 << 28;

// Room for what a hook makes, before the memory has to grow: twice the longest text, and then some.
const ROOM: usize = 256 << 10;
const PAGE: usize = 64 << 10;
const OPEN: usize = usize.MAX_VALUE;

// These have their values before any module's start has run: others may make objects before this one's has.
let top: usize = 0; // the first free byte
let limit: usize = 0; // the end of memory
let mark: usize = OPEN; // where the memory of decisions begins; everything before outlives them

// @ts-ignore: decorator
@inline
function aligned(at: usize): usize {
  return (at + 15) & ~15;
}

/** Makes sure that there are size bytes at top. */
// @ts-ignore: decorator
@inline
function ensure(size: usize): void {
  if (size > MOST || aligned(top + size) > limit || top == 0) grow(size);
}

function grow(size: usize): void {
  if (size > MOST) unreachable();
  if (top == 0) top = aligned(__heap_base);
  const end = aligned(top + size);
  limit = <usize>memory.size() * PAGE;
  if (end <= limit) return;
  if (memory.grow(<i32>((end - limit + PAGE - 1) / PAGE)) < 0) unreachable();
  limit = <usize>memory.size() * PAGE;
}

/** Ends the start: what has been made until now stays. */
export function seal(): void {
  if (mark != OPEN) return;
  ensure(ROOM);
  mark = top;
}

/** Makes size bytes that stay, between two decisions. */
export function keep(size: usize): usize {
  ensure(size + ROOM);
  const at = take(size);
  mark = top;
  return at;
}

/** Takes back what the decision has made and leaves zeros, of which new objects consist. */
export function reset(): void {
  __visit_globals(0);
  memory.fill(mark, 0, top - mark);
  top = mark;
}

/** The address at which take gives out the next bytes. */
export function next(): usize {
  return top;
}

/** How many bytes there are before the memory has to grow. */
export function room(): i32 {
  return <i32>(limit - top);
}

/** Makes room for size bytes. */
export function reserve(size: usize): void {
  ensure(size);
}

/** Gives out size bytes that there is room for. */
export function take(size: usize): usize {
  const at = top;
  top = aligned(at + size);
  return at;
}

export function alloc(size: usize): usize {
  ensure(size);
  return take(size);
}

export function realloc(ptr: usize, size: usize): usize {
  throw new Error("heap.realloc is not for policies: make a new block");
}

export function free(ptr: usize): void {}

/** Makes an object of a class. */
export function make(size: usize, id: u32): usize {
  const ptr = alloc(HEADER + size) + HEADER;
  store<u32>(ptr - ID, id);
  store<u32>(ptr - SIZE, <u32>size);
  return ptr;
}

/** Makes an object larger or smaller, in its place if it is the last one. */
export function remake(old: usize, size: usize): usize {
  const had = <usize>load<u32>(old - SIZE);
  if (size <= had || (old >= mark && aligned(old + had) == top)) {
    if (size > had) {
      top = old; // aligned, as every object
      ensure(size);
      take(size);
    } else {
      memory.fill(old + size, 0, had - size);
    }
    store<u32>(old - SIZE, <u32>size);
    return old;
  }
  const ptr = make(size, load<u32>(old - ID));
  memory.copy(ptr, old, had);
  return ptr;
}

/** Is told of each object that is stored into another one. */
export function link(parent: usize, child: usize, expectMultiple: bool): void {
  if (child >= mark && parent < mark) throw new Error("an object that outlives the decision was given one that does not");
}

/** Is told of each object that a global variable has. */
export function visit(ptr: usize, cookie: u32): void {
  if (ptr >= mark) throw new Error("a global variable keeps an object of the decision");
}
