package policy

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"pgregory.net/rapid"
)

// caller is a tool policy that makes one call of flynn1 with the given texts in its memory and answers with its result as the rule.
func caller(name, signature string, args func(text func(string) [][]byte) [][]byte) []byte {
	m := w.New()
	f := m.Import("flynn1", name, signature)
	m.Memory(2, -1)
	at := int32(70_000)
	code := args(func(s string) [][]byte {
		m.Data(at, []byte(s))
		defer func() { at += int32(len(s)) }()
		return [][]byte{w.I32(at), w.I32(int32(len(s)))}
	})
	code = append(code, w.Call(f))
	if strings.HasSuffix(signature, ">") {
		code = append(code, w.I32(0))
	}
	return m.Hook("flynn_tool", "", append(code, w.I32(0xffff), w.Op(0x71), w.Op(0xad), w.I64(8), w.Op(0x86))...)
}

// ask loads a policy and makes one decision.
func ask(t *testing.T, wasm []byte, f ToolFacts) Record {
	t.Helper()
	source := tool("p", write(t, wasm))
	source.Data = map[string]string{"greeting": "hello", "empty": ""}
	s := engine(t, source).Pin()
	defer s.Release()
	_, records := s.Tool(t.Context(), f)
	return records[0]
}

const none = 0xffff // -1 in the bits that caller keeps

func TestGet(t *testing.T) {
	f := toolFacts()
	f.Message.Text = strings.Repeat("é", 1000)
	for name, c := range map[string]struct {
		field abi.Field
		index int32
		want  uint32
		data  string
	}{
		"string":       {abi.Channel, 0, 3, "irc"},
		"joined":       {abi.Sender, 0, 9, "irc:alice"},
		"all the text": {abi.Text, 0, 2000, f.Message.Text},
		"first label":  {abi.Labels, 0, 15, "web:example.com"},
		"second label": {abi.Labels, 1, 12, "sender:guest"},
		"third label":  {abi.Labels, 2, none, ""},
		"absent":       {abi.Account, 0, none, ""},
		"other kind":   {abi.Candidate, 0, none, ""},
		"unknown":      {999, 0, none, ""},
		"int":          {abi.Seed, 0, 8, "\x2a\x00\x00\x00\x00\x00\x00\x00"},
		"bool":         {abi.Addressed, 0, 1, "\x00"},
		"no list":      {abi.Channel, 1, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, caller("get", "iiii>i", func(func(string) [][]byte) [][]byte {
				return [][]byte{w.I32(int32(c.field)), w.I32(c.index), w.I32(80_000), w.I32(4000)}
			}), f)
			if r.Rule != c.want || r.Error != "" || len(r.Calls) != 1 || string(r.Calls[0].Data) != c.data {
				t.Errorf("got %d, %q, calls %+v; want %d", r.Rule, r.Error, r.Calls, c.want)
			}
		})
	}
}

func TestArg(t *testing.T) {
	f := toolFacts()
	f.Args = json.RawMessage(`{"a":"text","b":[1,2.50,{"c/d":null,"e~f":true}],"o":{"x":1},"s":"<>"}`)
	for pointer, c := range map[string]struct {
		kind int
		text string
	}{
		"":          {abi.KindObject, `{"a":"text","b":[1,2.50,{"c/d":null,"e~f":true}],"o":{"x":1},"s":"<>"}`},
		"/a":        {abi.KindString, "text"},
		"/s":        {abi.KindString, "<>"},
		"/b":        {abi.KindArray, `[1,2.50,{"c/d":null,"e~f":true}]`},
		"/b/1":      {abi.KindNumber, "2.50"},
		"/b/01":     {abi.KindAbsent, ""},
		"/b/3":      {abi.KindAbsent, ""},
		"/b/-":      {abi.KindAbsent, ""},
		"/b/2/c~1d": {abi.KindNull, "null"},
		"/b/2/e~0f": {abi.KindBool, "true"},
		"/o":        {abi.KindObject, `{"x":1}`},
		"/z":        {abi.KindAbsent, ""},
		"a":         {abi.KindAbsent, ""},
		"/a/b":      {abi.KindAbsent, ""},
	} {
		t.Run(pointer, func(t *testing.T) {
			r := ask(t, caller("arg_kind", "ii>i", func(text func(string) [][]byte) [][]byte { return text(pointer) }), f)
			if int(r.Rule) != c.kind || r.Error != "" {
				t.Errorf("kind %d, %q, want %d", r.Rule, r.Error, c.kind)
			}
			r = ask(t, caller("arg", "iiii>i", func(text func(string) [][]byte) [][]byte {
				return append(text(pointer), w.I32(80_000), w.I32(200))
			}), f)
			want := uint32(len(c.text))
			if c.kind == abi.KindAbsent {
				want = none
			}
			if r.Rule != want || string(r.Calls[0].Data) != c.text {
				t.Errorf("text of %d bytes, %q, want %q", r.Rule, r.Calls[0].Data, c.text)
			}
		})
	}
}

func TestData(t *testing.T) {
	for key, want := range map[string]uint32{"greeting": 5, "empty": 0, "missing": none} {
		r := ask(t, caller("data", "iiii>i", func(text func(string) [][]byte) [][]byte {
			return append(text(key), w.I32(80_000), w.I32(2)) // too small: nothing is written, the length comes back
		}), toolFacts())
		if r.Rule != want || r.Error != "" {
			t.Errorf("%s: %d, %q, want %d", key, r.Rule, r.Error, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		kind       int32
		pattern, s string
		want       uint32
	}{
		{abi.MatchGlob, "slack:*", "slack:T1/U0", 1},
		{abi.MatchGlob, "slack:*", "irc:x", 0},
		{abi.MatchGlob, "[", "x", none},
		{abi.MatchCIDR, "10.0.0.0/8", "10.1.2.3", 1},
		{abi.MatchCIDR, "10.0.0.0/8", "::ffff:10.1.2.3", 1},
		{abi.MatchCIDR, "10.0.0.0/8", "11.1.2.3", 0},
		{abi.MatchCIDR, "10.0.0.0/8", "ten", 0},
		{abi.MatchCIDR, "192.0.2.7", "192.0.2.7", 1},
		{abi.MatchCIDR, "2001:db8::/32", "2001:db8::1", 1},
		{abi.MatchCIDR, "10.0.0.0/99", "10.0.0.1", none},
		{abi.MatchRE2, "^a+b", "aaab", 1},
		{abi.MatchRE2, "^a+b", "caab", 0},
		{abi.MatchRE2, "a(", "a", none},
		{abi.MatchRE2, "((a{100}){100}){100}", "a", none},
		{abi.MatchDomain, "example.com", "example.com", 1},
		{abi.MatchDomain, "example.com", "WWW.Example.com.", 1},
		{abi.MatchDomain, "example.com", "notexample.com", 0},
		{abi.MatchDomain, "example.com", ".example.com", 0},
		{abi.MatchDomain, "", "example.com", none},
		{99, "x", "x", none},
		{abi.MatchGlob, strings.Repeat("a", maxPattern+1), "a", none},
	} {
		r := ask(t, caller("match", "iiiii>i", func(text func(string) [][]byte) [][]byte {
			return append(append([][]byte{w.I32(c.kind)}, text(c.pattern)...), text(c.s)...)
		}), toolFacts())
		if r.Rule != c.want || r.Error != "" {
			t.Errorf("match %d %q %q: %d, %q, want %d", c.kind, c.pattern, c.s, r.Rule, r.Error, c.want)
		}
	}
}

func TestExpensiveMatchIsNotAffordable(t *testing.T) {
	f := toolFacts()
	f.Message.Text = strings.Repeat("a", 60_000)
	m := w.New()
	match, get := m.Import("flynn1", "match", "iiiii>i"), m.Import("flynn1", "get", "iiii>i")
	m.Memory(4, -1)
	m.Data(70_000, []byte(strings.Repeat("a?", 300)+strings.Repeat("a", 300)))
	r := ask(t, m.Hook("flynn_tool", "", w.I32(int32(abi.Text)), w.I32(0), w.I32(100_000), w.I32(60_000), w.Call(get), w.Op(0x1a),
		w.I32(abi.MatchRE2), w.I32(70_000), w.I32(900), w.I32(100_000), w.I32(60_000), w.Call(match), w.Op(0x1a), w.I64(0)), f)
	if !strings.HasPrefix(r.Error, "fuel: ") || r.Took > slack {
		t.Errorf("error %q after %v", r.Error, r.Took)
	}
}

func TestTraceAndLogAreKept(t *testing.T) {
	r := ask(t, caller("trace", "ii>", func(func(string) [][]byte) [][]byte { return [][]byte{w.I32(7), w.I32(1)} }), toolFacts())
	if len(r.Calls) != 1 || r.Calls[0].Name != "trace" || !slices.Equal(r.Calls[0].Args, words(7, 1)) {
		t.Errorf("calls %+v", r.Calls)
	}
	r = ask(t, caller("log", "iii>", func(text func(string) [][]byte) [][]byte {
		return append([][]byte{w.I32(2)}, text(strings.Repeat("x", maxLog+100))...)
	}), toolFacts())
	if len(r.Calls) != 1 || len(r.Calls[0].Args) != 4+maxLog {
		t.Errorf("the log has %d bytes, want the first %d", len(r.Calls[0].Args)-4, maxLog)
	}
}

// TestClockAndRandomAreOfTheFrame asks a module that answers with what WASI tells it.
func TestClockAndRandomAreOfTheFrame(t *testing.T) {
	m := w.New()
	clock, random := m.Import(wasi, "clock_time_get", "ili>i"), m.Import(wasi, "random_get", "ii>i")
	m.Memory(1, -1)
	wasm := m.Hook("flynn_tool", "", w.I32(0), w.I64(0), w.I32(16), w.Call(clock), w.Op(0x1a), w.I32(24), w.I32(8), w.Call(random), w.Op(0x1a),
		w.I32(16), w.Load(0x29, 0), w.I64(1_000_000_000), w.Op(0x80), w.I32(24), w.Load(0x29, 0), w.Op(0x85), w.I64(0xffff), w.Op(0x83), w.I64(8), w.Op(0x86))
	first := ask(t, wasm, toolFacts())
	again := ask(t, wasm, toolFacts())
	later, seeded := toolFacts(), toolFacts()
	later.Now = later.Now.Add(time.Hour)
	seeded.Seed++
	if first.Error != "" || first.Rule != again.Rule || first.Fuel != again.Fuel {
		t.Errorf("the same facts give %+v and %+v", first, again)
	}
	if a, b := ask(t, wasm, later), ask(t, wasm, seeded); a.Rule == first.Rule || b.Rule == first.Rule {
		t.Errorf("another time gives %d, another seed %d, both %d", a.Rule, b.Rule, first.Rule)
	}
}

// openTool opens a tool policy until the test ends.
func openTool(t *testing.T, wasm []byte) *Module {
	t.Helper()
	m, err := Open(t.Context(), tool("p", write(t, wasm)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestReplay(t *testing.T) {
	messages, _ := ruleMessages()
	path := rulesGo(t)
	source := Source{Name: "rules", Path: path, Kinds: []string{KindRoute}, Isolation: IsolationPure, Limits: Limits{Wall: unhurried}}
	s := engine(t, source).Pin()
	defer s.Release()
	m, err := Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, f := range messages {
		_, records := s.Route(t.Context(), f)
		stored, err := json.Marshal(records[0])
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := json.Unmarshal(stored, &r); err != nil {
			t.Fatal(err)
		}
		got, err := m.Replay(t.Context(), r)
		if err != nil || !got.Same() || got.Is.Digest != r.Digest {
			t.Errorf("message %d: %v, was %+v, is %+v", i, err, got.Was, got.Is)
		}
		r.Fuel++
		if got, err := m.Replay(t.Context(), r); err != nil || got.Same() || got.Fuel || !got.Answer {
			t.Errorf("message %d: other fuel is not noticed: %v", i, err)
		}
	}
}

func TestReplayOfACandidate(t *testing.T) {
	old := caller("arg", "iiii>i", func(text func(string) [][]byte) [][]byte { return append(text("/command"), w.I32(80_000), w.I32(200)) })
	candidate := caller("arg", "iiii>i", func(text func(string) [][]byte) [][]byte { return append(text("/n"), w.I32(80_000), w.I32(200)) })
	r := ask(t, old, toolFacts())
	got, err := openTool(t, candidate).Replay(t.Context(), r)
	if err != nil || got.Same() || got.Call != 0 || got.Is.Rule != uint32(len(`[1,{"a/b":true}]`)) {
		t.Errorf("%v: %+v", err, got)
	}
	for name, bad := range map[string]Record{"kind": {Kind: "taste"}, "frame": {Kind: KindTool, Frame: []byte("FLN1")}, "other": {Kind: KindRoute, Frame: r.Frame}} {
		if _, err := openTool(t, candidate).Replay(t.Context(), bad); err == nil {
			t.Errorf("%s: replayed", name)
		}
	}
}

// TestFrame compares frames with what went in.
func TestFrame(t *testing.T) {
	text := rapid.StringN(0, 600, 2000)
	rapid.Check(t, func(t *rapid.T) {
		f := RouteFacts{Facts: someFacts()}
		f.Now = time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "unix"), 0).In(time.FixedZone("Test/Zone", rapid.IntRange(-50_000, 50_000).Draw(t, "offset")))
		f.Message.Text, f.Message.Sender.Account, f.Candidate = text.Draw(t, "text"), text.Draw(t, "account"), text.Draw(t, "candidate")
		f.Labels, f.Agents = rapid.SliceOf(text).Draw(t, "labels"), rapid.SliceOfN(text, 1, 3).Draw(t, "agents")
		f.Message.Addressed, f.Seed = rapid.Bool().Draw(t, "addressed"), rapid.Int64().Draw(t, "seed")
		q := routeQuery(&f, "Local/Zone", newAgentList(f.Agents))
		if q.err != nil {
			t.Fatal(q.err)
		}
		if err := checkFrame(q.frame, abi.FrameRoute); err != nil {
			t.Fatal(err)
		}
		want := map[abi.Field]string{abi.Text: cut.Head(f.Message.Text, abi.TextInFrame), abi.Sender: "irc:alice", abi.Zone: "Test/Zone", abi.Door: "channel"}
		if f.Message.Sender.Account != "" {
			want[abi.Account] = f.Message.Sender.Account
		}
		if f.Candidate != "" {
			want[abi.Candidate] = f.Candidate
		}
		for id, s := range want {
			if v, ok := fieldOf(q.frame, id); !ok || string(v.bytes) != s || v.kind != abi.TypeString {
				t.Fatalf("field %d is %q, want %q", id, v.bytes, s)
			}
		}
		hour, minute, _ := f.Now.Clock()
		for id, n := range map[abi.Field]int64{abi.UnixTime: f.Now.Unix(), abi.MinuteOfDay: int64(hour*60 + minute), abi.Weekday: int64(f.Now.Weekday()), abi.Seed: f.Seed, abi.TextLen: int64(len(f.Message.Text))} {
			if got := intOf(q.frame, id); got != n {
				t.Fatalf("field %d is %d, want %d", id, got, n)
			}
		}
		if agents, err := agentsOf(q.frame); err != nil || !slices.Equal(agents, f.Agents) {
			t.Fatalf("agents %q, want %q: %v", agents, f.Agents, err)
		}
		checkTable(t, q.frame)
	})
}

func checkTable(t *rapid.T, frame []byte) {
	last := -1
	for i := range int(binary.LittleEndian.Uint16(frame[6:])) {
		e := frame[abi.HeaderSize+abi.EntrySize*i:]
		id, kind, at := int(binary.LittleEndian.Uint16(e)), binary.LittleEndian.Uint16(e[2:]), binary.LittleEndian.Uint32(e[4:])
		if id <= last {
			t.Fatalf("field %d behind field %d", id, last)
		}
		if kind == abi.TypeInt && at%8 != 0 {
			t.Fatalf("the int %d at %d is not aligned", id, at)
		}
		last = id
	}
}

func TestToolFrame(t *testing.T) {
	f := toolFacts()
	q := toolQuery(&f, "Local/Zone")
	if err := checkFrame(q.frame, abi.FrameTool); err != nil {
		t.Fatal(err)
	}
	got := map[abi.Field]string{}
	for _, id := range []abi.Field{abi.Agent, abi.Tool, abi.Effect, abi.Session, abi.ArgsDigest, abi.Sandboxed} {
		v, _ := fieldOf(q.frame, id)
		got[id] = string(v.bytes)
	}
	want := map[abi.Field]string{abi.Agent: "main", abi.Tool: "shell", abi.Effect: "execute", abi.Session: "s", abi.Sandboxed: "\x00",
		abi.ArgsDigest: fileDigest(f.Args)}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFactsTooLargeFailClosed(t *testing.T) {
	f := toolFacts()
	f.Labels = []string{strings.Repeat("x", maxFrame)}
	if r := ask(t, version(0, 1), f); !strings.HasPrefix(r.Error, "facts: ") || r.Answer != "deny" {
		t.Errorf("%+v", r)
	}
}

func TestCancelledDecisionFails(t *testing.T) {
	s := engine(t, tool("p", write(t, w.Policy(1).Hook("flynn_tool", "l", w.I64(20_000), w.LocalSet(1), w.Loop(w.LocalGet(1), w.I64(1), w.Op(0x7d), w.Op(0x22, 1), w.I64(0), w.Op(0x52), w.BrIf(0)), w.I64(0))))).Pin()
	defer s.Release()
	ctx, cancel := context.WithCancel(t.Context())
	if _, r := s.Tool(ctx, toolFacts()); r[0].Error != "" {
		t.Fatal(r[0].Error)
	}
	cancel()
	if got, r := s.Tool(ctx, toolFacts()); !got.Deny || !strings.Contains(r[0].Error, "gave up") {
		t.Errorf("%+v", r[0])
	}
}

// FuzzOutput feeds answers and output frames that no honest module gives.
func FuzzOutput(f *testing.F) {
	f.Add(int64(abi.RouteAgent), output(abi.OutAgent, "main"))
	f.Add(int64(-1), []byte{})
	f.Add(int64(1)|40<<32, output(abi.OutReason, "because"))
	f.Fuzz(func(t *testing.T, raw int64, region []byte) {
		for _, kind := range []string{KindRoute, KindTool} {
			var in interned
			var v decision
			v.read(kind, raw, region, &in)
			if v.err != nil {
				continue
			}
			if kind == KindTool && v.code > 7 || kind == KindRoute && v.code > 2 {
				t.Fatalf("decision %d is taken", v.code)
			}
		}
	})
}

// FuzzFrame feeds frames as a log could bring them.
func FuzzFrame(f *testing.F) {
	facts := routeFacts()
	f.Add(routeQuery(&facts, "UTC", newAgentList(facts.Agents)).frame, uint16(21), uint32(1))
	f.Fuzz(func(t *testing.T, frame []byte, id uint16, index uint32) {
		if checkFrame(frame, abi.FrameRoute) != nil {
			return
		}
		if v, ok := fieldOf(frame, abi.Field(id)); ok {
			v.item(index % 1000)
		}
		if _, err := queryOf(Record{Kind: KindRoute, Frame: frame}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCacheIsPrivate(t *testing.T) {
	dir := t.TempDir() + "/cache"
	path := write(t, version(1, 1))
	open := func() error {
		e, err := New(t.Context(), Config{Sources: []Source{tool("p", path)}, CacheDir: dir})
		if err != nil {
			return err
		}
		return e.Close()
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the cache has %d entries, %v", len(entries), err)
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("a cache that others can read is used: %v", err)
	}
}
