package policy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// attack is a module that means no good, and how it must end: it cannot be loaded, its decisions fail in a class, or it
// answers and nothing is wrong. The corpus is testdata/hostile, where the comment at the head of each module has
//
//	;; ends: fuel                    every decision fails in this class ("answer-error" is the class answer)
//	;; ends: load "words"            it is not loaded, and the status says why
//	;; ends: answer none             it answers
//	;; rule: 7                       with this rule
//	;; limits: fuel=9 wall=20ms memory=65536
//	;; facts: large                  the frame does not fit the first buffer
//	;; wat2wasm: --enable-threads    options of the assembler
//
// and of what no text can say, the functions generated and malformed below.
type attack struct {
	wasm   []byte
	class  Class
	load   string
	answer string
	rule   uint32
	kind   string
	limits Limits
	large  bool
}

// corpus is all attacks by name.
func corpus(t testing.TB) map[string]attack {
	t.Helper()
	all := map[string]attack{}
	files, err := filepath.Glob("testdata/hostile/*.wat")
	if err != nil || len(files) < 170 {
		t.Fatalf("%d files in the corpus, %v", len(files), err)
	}
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".wat")] = readAttack(t, file)
	}
	for name, a := range generated() {
		all[name] = a
	}
	return all
}

var header = regexp.MustCompile(`(?m)^;; ([a-z0-9-]+): (.+)$`)

func readAttack(t testing.TB, file string) attack {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := attack{kind: KindRoute}
	if strings.Contains(string(text), `"flynn_tool"`) {
		a.kind = KindTool
	}
	var options []string
	for _, line := range header.FindAllStringSubmatch(string(text), -1) {
		key, value := line[1], line[2]
		switch key {
		case "ends":
			err = a.ends(value)
		case "rule":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 24)
			a.rule = uint32(n)
		case "limits":
			err = a.limit(value)
		case "facts":
			a.large = value == "large"
		case "wat2wasm":
			options = strings.Fields(value)
		default:
			err = fmt.Errorf("unknown key %s", key)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if a.class == "" && a.load == "" && a.answer == "" {
		t.Fatalf("%s does not say how it ends", file)
	}
	a.wasm = assemble(t, file, options)
	return a
}

func (a *attack) ends(value string) (err error) {
	how, rest, _ := strings.Cut(value, " ")
	switch how {
	case "load":
		a.load, err = strconv.Unquote(rest)
	case "answer":
		a.answer = rest
	case "answer-error":
		a.class = ClassAnswer
	default:
		a.class = Class(how)
	}
	return err
}

func (a *attack) limit(value string) (err error) {
	for _, one := range strings.Fields(value) {
		key, v, _ := strings.Cut(one, "=")
		switch key {
		case "fuel":
			a.limits.Fuel, err = strconv.ParseInt(v, 10, 64)
		case "memory":
			a.limits.Memory, err = strconv.ParseInt(v, 10, 64)
		case "wall":
			a.limits.Wall, err = time.ParseDuration(v)
		default:
			err = fmt.Errorf("unknown limit %s", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func assemble(t testing.TB, file string, options []string) []byte {
	t.Helper()
	tool, err := exec.LookPath("wat2wasm")
	need.Part(t, "wabt", err)
	out := filepath.Join(t.TempDir(), "attack.wasm")
	run(t, nil, tool, append(options, "-o", out, file)...)
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// source is the attack as a policy of a chain. Its time is none that a busy machine would use up.
func (a *attack) source(t testing.TB, name string) Source {
	limits := a.limits
	if limits.Wall == 0 {
		limits.Wall = unhurried
	}
	return Source{Name: name, Path: write(t, a.wasm), Kinds: []string{a.kind}, Limits: limits, OnErrorAgent: "errors"}
}

// facts are what the attack is asked.
func (a *attack) facts() (RouteFacts, ToolFacts) {
	route, call := routeFacts(), toolFacts()
	if a.large {
		label := strings.Repeat("x", 10_000)
		route.Labels, call.Labels = append(route.Labels, label), append(call.Labels, label)
	}
	return route, call
}

// generated are the attacks that are too large to be written down, or that no assembler would write.
func generated() map[string]attack {
	ok := w.I64(0)
	hook := func(locals string, body ...[]byte) []byte { return w.Policy(1).Hook("flynn_route", locals, body...) }
	refused := func(wasm []byte, why string) attack { return attack{wasm: wasm, load: why, kind: KindRoute} }
	fails := func(wasm []byte, class Class) attack { return attack{wasm: wasm, class: class, kind: KindRoute} }
	wide := strings.Repeat("i", 64)
	all := map[string]attack{
		"br-table-10000":        fails(hook("", w.Loop(w.Block(w.LocalGet(0), w.Op(0x0e), w.Unsigned(10_000), w.Repeat(10_000, w.Op(1)), w.Op(1))), ok), ClassFuel),
		"br-table-900000":       refused(hook("", w.Block(w.LocalGet(0), w.Op(0x0e), w.Unsigned(900_000), w.Repeat(900_001, w.Op(0))), ok), "blocks and branches"),
		"branches-200000":       refused(hook("", w.Block(w.Repeat(200_000, w.LocalGet(0), w.BrIf(0))), ok), "blocks and branches"),
		"locals-5000":           refused(hook(strings.Repeat("l", 5000), ok), "locals of one function"),
		"locals-large-frames":   fails(largeFrames(), ClassDepth),
		"function-1-megabyte":   refused(hook("", w.Repeat(600_000, w.I32(0), w.Op(0x1a)), ok), "bytes of one function"),
		"function-straight":     {wasm: hook("", w.Repeat(200_000, w.I32(0), w.Op(0x1a)), ok), answer: "abstain", kind: KindRoute},
		"blocks-5000":           refused(hook("", w.Repeat(5_000, w.Op(0x02, 0x40)), w.Repeat(5_000, w.Op(0x0b)), ok), "blocks in one function"),
		"loops-1100":            refused(hook("", w.Repeat(1_100, w.Op(0x03, 0x40)), w.Repeat(1_100, w.Op(0x0b)), ok), "loops in one function"),
		"operands-times-blocks": refused(hook("", w.Repeat(20_000, w.LocalGet(0)), w.Repeat(4_000, w.Block()), w.Repeat(20_000, w.Op(0x1a)), ok), "locals and operands"),
		"feature-call-ref":      refused(hook("", w.Op(0xd2, 0, 0x14, 0), ok), "instruction 0x14"),
		"functions-70000":       refused(manyFunctions(70_000), "functions"),
		"functions-50000":       {wasm: manyFunctions(50_000), answer: "abstain", kind: KindRoute},
	}
	m := w.Policy(1)
	f := m.Func(wide+">"+wide, "", w.Repeat(64, w.LocalGet(1)))
	m.Func(">", "", w.Repeat(64, w.I32(1)), w.Repeat(200_000, w.Call(f)), w.Repeat(64, w.Op(0x1a)))
	all["calls-of-64-values"] = refused(m.Hook("flynn_route", "", ok), "values passed by calls")
	for name, a := range malformed() {
		all[name] = a
	}
	return all
}

func largeFrames() []byte {
	m := w.Policy(1)
	self := m.Next()
	m.Func("", strings.Repeat("l", 4000), w.Call(self))
	return m.Hook("flynn_route", "", w.Call(self), w.I64(0))
}

func manyFunctions(n int) []byte {
	m := w.Policy(1)
	for range n {
		m.Func("", "")
	}
	return m.Hook("flynn_route", "", w.I64(0))
}

// malformed are files that say more than they have. Names of at most a few bytes stand for gigabytes.
func malformed() map[string]attack {
	const most = "\xff\xff\xff\xff\x0f" // 2^32-1
	magic := "\x00asm\x01\x00\x00\x00"
	all := map[string]attack{}
	add := func(name, why, wasm string) { all[name] = attack{wasm: []byte(wasm), load: why, kind: KindRoute} }
	add("file-empty", "not a WebAssembly module", "")
	add("file-text", "not a WebAssembly module", "(module)")
	add("file-elf", "not a WebAssembly module", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00")
	add("file-component", "not a WebAssembly module", "\x00asm\x0d\x00\x01\x00")
	add("file-head", "does not export", magic)
	add("section-huge", "malformed", magic+"\x01"+most)
	add("section-unknown", "section 99", magic+"\x63\x00")
	add("section-twice", "is duplicate", magic+"\x01\x01\x00\x01\x01\x00")
	add("section-order", "wrong place", magic+"\x03\x01\x00\x01\x01\x00")
	add("section-left-over", "left over", magic+"\x01\x02\x00\x00")
	add("section-long-number", "too long", magic+"\x01\x80\x80\x80\x80\x80\x80\x00")
	for id, name := range []string{1: "types", 2: "imports", 3: "functions", 4: "tables", 6: "globals", 7: "exports", 9: "elements", 10: "code", 11: "data"} {
		if name != "" {
			add("count-huge-"+name, "count larger", magic+string(rune(id))+"\x05"+most)
		}
	}
	// One function of 2^32-1 locals, and one that counts 16 times 2^28 of them, in a few bytes.
	function := magic + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a"
	add("locals-huge", "locals of one function", function+"\x0a\x01\x08\x01"+most+"\x7f\x0b")
	add("locals-huge-sum", "locals of one function", function+"\x10\x01\x0e\x02\x80\x80\x80\x80\x08\x7f\x80\x80\x80\x80\x08\x7f\x0b")
	add("locals-huge-groups", "count larger", function+"\x08\x01\x06"+most+"\x0b")
	add("body-huge", "count larger", function+"\x06\x01"+most)
	add("br-table-huge", "count larger", function+"\x0c\x01\x0a\x00\x41\x00\x0e"+most+"\x0b")
	add("name-huge", "count larger", magic+"\x07\x06\x01"+most)
	add("name-utf8", "not UTF-8", magic+"\x07\x05\x01\x01\xff\x00\x00")
	add("type-huge", "count larger", magic+"\x01\x07\x01\x60"+most)
	add("data-count-lies", "announced", magic+"\x05\x03\x01\x00\x01\x0c\x01\x07")
	add("code-missing", "function bodies", magic+"\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00")
	// Custom sections are not read, except for names, which are a comfort.
	good := string(w.Policy(1).Hook("flynn_route", "", w.I64(0)))
	custom := func(name, content string) string {
		body := string(w.Unsigned(uint32(len(name)))) + name + content
		return good + "\x00" + string(w.Unsigned(uint32(len(body)))) + body
	}
	for name, content := range map[string]string{"huge": strings.Repeat("x", 6<<20), "count": "\x01\x06" + most + "\x00", "overlap": "\x01\x7f\x01", "function": "\x01\x07\x01" + most + "\x00"} {
		all["names-"+name] = attack{wasm: []byte(custom("name", content)), answer: "abstain", kind: KindRoute}
	}
	all["custom-huge"] = attack{wasm: []byte(custom("x", strings.Repeat("\x00", 7<<20))), answer: "abstain", kind: KindRoute}
	add("custom-without-name", "count larger", good+"\x00\x05"+most)
	add("file-huge", "larger than", good+custom("x", strings.Repeat("\x00", 9<<20)))
	return all
}
