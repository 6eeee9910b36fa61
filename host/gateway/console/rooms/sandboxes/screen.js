// The screen of a terminal: what a program writes, as lines of cells. It knows the sequences of xterm that programs use for moving, erasing,
// scrolling and colours. Other sequences are read and left out. It draws nothing and knows nothing of the page.

const history = 1000; // lines above the screen
const mostMarks = 4;  // combining marks on a letter
const plain = "";
const drawing = { j: "┘", k: "┐", l: "┌", m: "└", n: "┼", q: "─", t: "├", u: "┤", v: "┴", w: "┬", x: "│", a: "▒", o: "⎺", s: "⎽", "`": "◆", "~": "·" };

const blank = (cols) => Array.from({ length: cols }, () => [" ", plain]);

export class Screen {
  // answer is called with what the terminal itself replies to a program.
  constructor(rows, cols, answer = () => {}) {
    Object.assign(this, { rows, cols, answer, above: [], rest: "", keypad: false });
    this.reset();
  }

  reset() {
    Object.assign(this, { x: 0, y: 0, top: 0, bottom: this.rows - 1, style: {}, saved: null, other: null, wraps: false, shown: true, sets: ["B", "B"], set: 0 });
    this.lines = Array.from({ length: this.rows }, () => blank(this.cols));
  }

  // resize keeps the line with the cursor: what does not fit goes above the screen, or was empty below it.
  resize(rows, cols) {
    const out = Math.max(0, this.y - rows + 1);
    const fit = (lines) => {
      const all = lines.slice(out, out + rows).map((line) => [...line.slice(0, cols), ...blank(Math.max(0, cols - line.length))]);
      while (all.length < rows) all.push(blank(cols));
      return all;
    };
    if (!this.other) this.above.push(...this.lines.slice(0, out));
    Object.assign(this, { rows, cols, top: 0, bottom: rows - 1, lines: fit(this.lines), other: this.other && fit(this.other) });
    this.move(this.y - out, this.x);
  }

  // write takes output. A sequence may come in pieces.
  write(text) {
    const all = this.rest + text;
    this.rest = "";
    for (let i = 0; i < all.length;) {
      if (all[i] !== "\x1b") {
        const c = String.fromCodePoint(all.codePointAt(i));
        this.letter(c);
        i += c.length;
        continue;
      }
      const end = this.sequence(all, i);
      if (end < 0) {
        if (all.length - i < 4096) this.rest = all.slice(i);
        return;
      }
      i = end;
    }
  }

  letter(c) {
    const line = this.lines[this.y];
    switch (c) {
      case "\n": case "\v": case "\f": this.down(); return;
      case "\r": this.move(this.y, 0); return;
      case "\b": this.move(this.y, this.x - 1); return;
      case "\t": this.move(this.y, (Math.floor(this.x / 8) + 1) * 8); return;
      case "\x0e": this.set = 1; return;
      case "\x0f": this.set = 0; return;
    }
    if (/\p{Cc}/u.test(c)) return;
    if (/\p{M}/u.test(c)) {
      const cell = line[Math.max(0, this.x - (this.wraps ? 0 : 1))];
      if (cell[0].length < 1 + mostMarks) cell[0] += c;
      return;
    }
    if (/\p{C}|\p{Zl}|\p{Zp}/u.test(c)) c = "\uFFFD"; // it would change the order of what is shown
    if (this.wraps) {
      this.move(this.y, 0);
      this.down();
    }
    this.lines[this.y][this.x] = [this.sets[this.set] === "0" ? drawing[c] ?? c : c, this.styled()];
    if (this.x === this.cols - 1) this.wraps = true;
    else this.x++;
  }

  // styled is the style of the next letter as names of classes.
  styled() {
    const { bold, inverse, underline, fore, back } = this.style;
    return [bold && "tb", inverse && "ti", underline && "tu", fore !== undefined && "f" + fore, back !== undefined && "k" + back].filter(Boolean).join(" ");
  }

  move(y, x) {
    this.y = Math.max(0, Math.min(this.rows - 1, y));
    this.x = Math.max(0, Math.min(this.cols - 1, x));
    this.wraps = false;
  }

  down() {
    this.wraps = false;
    if (this.y === this.bottom) this.scroll(this.top, 1);
    else if (this.y < this.rows - 1) this.y++;
  }

  // scroll moves the lines from one on up, n of them out; with n below 0 down.
  scroll(from, n) {
    for (let i = 0; i < Math.min(Math.abs(n), this.rows); i++) {
      const [gone, come] = n > 0 ? [from, this.bottom] : [this.bottom, from];
      const [line] = this.lines.splice(gone, 1);
      this.lines.splice(come, 0, blank(this.cols));
      if (n > 0 && from === 0 && !this.other && this.above.push(line) > history) this.above.shift();
    }
  }

  // sequence carries out the escape sequence at i and returns where it ends, or -1 if more has to come.
  sequence(all, i) {
    const kind = all[i + 1];
    if (kind === undefined) return -1;
    if (kind === "[") {
      const found = /^([?>=!]?)([0-9;:]*)([ -/]*)([@-~])/.exec(all.slice(i + 2, i + 200));
      if (!found) return all.length - i > 200 || /[^0-9;:?>=! -/]/.test(all.slice(i + 2)) ? i + 2 : -1;
      if (!found[3]) this.control(found[1], found[2].split(";").map((n) => Math.min(parseInt(n, 10) || 0, 9999)), found[4]);
      return i + 2 + found[0].length;
    }
    if (kind === "]" || kind === "P" || kind === "^" || kind === "_") {
      const end = /\x07|\x1b\\/.exec(all.slice(i + 2));
      if (end) return i + 2 + end.index + end[0].length;
      return all.length - i > 4000 ? i + 2 : -1;
    }
    if ("()*+ #%".includes(kind)) {
      if (all[i + 2] === undefined) return -1;
      if (kind === "(") this.sets[0] = all[i + 2];
      if (kind === ")") this.sets[1] = all[i + 2];
      return i + 3;
    }
    switch (kind) {
      case "7": this.saved = [this.y, this.x, { ...this.style }]; break;
      case "8": this.restore(); break;
      case "D": this.down(); break;
      case "E": this.move(this.y, 0); this.down(); break;
      case "M": if (this.y === this.top) this.scroll(this.top, -1); else this.move(this.y - 1, this.x); break;
      case "c": this.reset(); break;
    }
    return i + 2;
  }

  restore() {
    const [y, x, style] = this.saved ?? [0, 0, {}];
    this.style = { ...style };
    this.move(y, x);
  }

  control(mark, n, what) {
    const one = n[0] || 1;
    if (mark === "?" && (what === "h" || what === "l")) {
      for (const mode of n) this.mode(mode, what === "h");
      return;
    }
    if (mark) return;
    switch (what) {
      case "A": this.move(this.bounded(-one), this.x); break;
      case "B": case "e": this.move(this.bounded(one), this.x); break;
      case "C": case "a": this.move(this.y, this.x + one); break;
      case "D": this.move(this.y, this.x - one); break;
      case "E": this.move(this.bounded(one), 0); break;
      case "F": this.move(this.bounded(-one), 0); break;
      case "G": case "`": this.move(this.y, one - 1); break;
      case "d": this.move(one - 1, this.x); break;
      case "H": case "f": this.move(one - 1, (n[1] || 1) - 1); break;
      case "J": this.eraseScreen(n[0]); break;
      case "K": this.erase(this.y, n[0] === 0 ? this.x : 0, n[0] === 1 ? this.x + 1 : this.cols); break;
      case "X": this.erase(this.y, this.x, this.x + one); break;
      case "L": this.insert(one); break;
      case "M": this.insert(-one); break;
      case "P": this.lines[this.y].splice(this.x, Math.min(one, this.cols)); this.fill(); break;
      case "@": this.lines[this.y].splice(this.x, 0, ...blank(Math.min(one, this.cols))); this.fill(); break;
      case "S": this.scroll(this.top, one); break;
      case "T": this.scroll(this.top, -one); break;
      case "r": this.region(one - 1, (n[1] || this.rows) - 1); break;
      case "s": this.saved = [this.y, this.x, { ...this.style }]; break;
      case "u": this.restore(); break;
      case "m": this.colour(n); break;
      case "c": this.answer("\x1b[?6c"); break;
      case "n": if (n[0] === 6) this.answer("\x1b[" + (this.y + 1) + ";" + (this.x + 1) + "R"); else if (n[0] === 5) this.answer("\x1b[0n"); break;
    }
  }

  // bounded is n lines further, but not out of the region that scrolls.
  bounded(n) {
    if (n < 0) return Math.max(this.y + n, this.y < this.top ? 0 : this.top);
    return Math.min(this.y + n, this.y > this.bottom ? this.rows - 1 : this.bottom);
  }

  // insert puts empty lines in at the cursor, or takes lines out if n is below 0; none of them goes above the screen.
  insert(n) {
    if (this.y < this.top || this.y > this.bottom) return;
    const [gone, come] = n < 0 ? [this.y, this.bottom] : [this.bottom, this.y];
    for (let i = 0; i < Math.min(Math.abs(n), this.rows); i++) {
      this.lines.splice(gone, 1);
      this.lines.splice(come, 0, blank(this.cols));
    }
    this.move(this.y, 0);
  }

  fill() {
    const line = this.lines[this.y];
    line.length = Math.min(line.length, this.cols);
    line.push(...blank(this.cols - line.length));
    this.wraps = false;
  }

  region(top, bottom) {
    [this.top, this.bottom] = top < bottom && bottom < this.rows ? [top, bottom] : [0, this.rows - 1];
    this.move(0, 0);
  }

  erase(y, from, to) {
    if (to >= this.cols) this.wraps = false;
    for (let x = from; x < Math.min(to, this.cols); x++) this.lines[y][x] = [" ", plain];
  }

  eraseScreen(part) {
    if (part === 3) this.above = [];
    for (let y = 0; y < this.rows; y++) {
      if (y === this.y && part < 2) this.erase(y, part === 0 ? this.x : 0, part === 1 ? this.x + 1 : this.cols);
      else if (part === 2 || (part === 0 ? y > this.y : part === 1 && y < this.y)) this.lines[y] = blank(this.cols);
    }
  }

  mode(mode, on) {
    if (mode === 1) this.keypad = on;
    if (mode === 25) this.shown = on;
    if (mode === 1049 && on) this.saved = [this.y, this.x, { ...this.style }];
    if (mode === 1049 || mode === 1047 || mode === 47) this.swap(on);
    if (mode === 1049 && !on) this.restore();
  }

  // swap shows the other screen, which begins empty, or the first one again.
  swap(on) {
    if (on === Boolean(this.other)) return;
    if (!on) this.lines = this.other;
    this.other = on ? this.lines : null;
    if (on) this.lines = Array.from({ length: this.rows }, () => blank(this.cols));
  }

  colour(n) {
    for (let i = 0; i < n.length; i++) {
      const code = n[i];
      const s = this.style;
      if (code === 0) this.style = {};
      else if (code === 1) s.bold = true;
      else if (code === 4) s.underline = true;
      else if (code === 7) s.inverse = true;
      else if (code === 22) s.bold = false;
      else if (code === 24) s.underline = false;
      else if (code === 27) s.inverse = false;
      else if (code >= 30 && code <= 37 || code >= 90 && code <= 97) s.fore = code % 10;
      else if (code >= 40 && code <= 47 || code >= 100 && code <= 107) s.back = code % 10;
      else if (code === 39) delete s.fore;
      else if (code === 49) delete s.back;
      else if (code === 38 || code === 48) {
        const [key, five] = [code === 38 ? "fore" : "back", n[i + 1] === 5];
        if (five && n[i + 2] < 16) s[key] = n[i + 2] % 8;
        i += five ? 2 : 4;
      }
    }
  }

  // text is what the screen shows, for people and tests.
  text() { return this.lines.map((line) => line.map(([c]) => c).join("").trimEnd()).join("\n").trimEnd(); }
}
