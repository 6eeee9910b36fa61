package wire

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/model"
)

func TestNames(t *testing.T) {
	long := "plugin." + strings.Repeat("very_", 20) + "long"
	for name, want := range map[string]string{
		"shell.exec":      "shell__exec",
		"read_file":       "read_file",
		"mcp.git-hub.get": "mcp__git-hub__get",
		"already__there":  "already__there_", // and a digest
		"a._b":            "a___b_",
		"späße":           "sp__e_",
		long:              "plugin__very_",
		"":                "_",
	} {
		got := Name(name)
		if !strings.HasPrefix(got, want) || (strings.HasSuffix(want, "_") == (got == want)) {
			t.Errorf("Name(%q) is %q, want %q...", name, got, want)
		}
		if !isWord(got) || len(got) > maxName {
			t.Errorf("Name(%q) is %q, which no vendor takes", name, got)
		}
	}
}

func TestNamesAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-zA-Z_.\-é]{0,70}`), rapid.ID[string]).Draw(t, "names")
		var req model.Request
		for _, name := range names {
			req.Tools = append(req.Tools, model.Tool{Name: name})
		}
		table, err := NewNames(req)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if got := table.Back(Name(name)); got != name {
				t.Errorf("%q comes back as %q", name, got)
			}
		}
	})
}

func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if id := ID(a); !isWord(id) || len(id) > maxID {
			t.Errorf("ID(%q) is %q", a, id)
		}
		if a != b && ID(a) == ID(b) {
			t.Errorf("%q and %q share an id", a, b)
		}
	})
	if a, b := NewID(), NewID(); a == b || !isWord(a) || len(a) > maxID {
		t.Errorf("new ids are %q and %q", a, b)
	}
}

func TestRepairMakesValidTranscripts(t *testing.T) {
	id := rapid.SampledFrom([]string{"a", "b", "c"})
	message := rapid.Custom(func(t *rapid.T) model.Message {
		m := model.Message{Role: rapid.SampledFrom([]model.Role{model.User, model.Assistant}).Draw(t, "role")}
		m.Text = rapid.SampledFrom([]string{"", "text"}).Draw(t, "text")
		for _, id := range rapid.SliceOfN(id, 0, 3).Draw(t, "calls") {
			m.Calls = append(m.Calls, model.ToolCall{ID: id})
		}
		for _, id := range rapid.SliceOfN(id, 0, 3).Draw(t, "results") {
			m.Results = append(m.Results, model.ToolResult{ID: id, Text: "r"})
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(message, 0, 8).Draw(t, "messages")
		before, _ := json.Marshal(in)
		out := Repair(in)
		if after, _ := json.Marshal(in); string(after) != string(before) {
			t.Fatalf("the caller's messages were changed")
		}
		var open []string
		for i, m := range out {
			if i == 0 && m.Role != model.User {
				t.Fatalf("begins with %s", m.Role)
			}
			if m.Text == "" && len(m.Calls)+len(m.Results) == 0 {
				t.Fatalf("message %d is empty", i)
			}
			var answered []string
			for _, r := range m.Results {
				answered = append(answered, r.ID)
			}
			if !cmp.Equal(answered, open) {
				t.Fatalf("message %d answers %v, want %v", i, answered, open)
			}
			open = nil
			seen := map[string]bool{}
			for _, c := range m.Calls {
				if seen[c.ID] || m.Role != model.Assistant {
					t.Fatalf("message %d has a bad call", i)
				}
				seen[c.ID] = true
				open = append(open, c.ID)
			}
		}
		if open != nil {
			t.Fatalf("calls %v are left open", open)
		}
	})
}

func TestObject(t *testing.T) {
	for in, want := range map[string]string{
		``:             `{}`,
		` {"a": 1} `:   `{"a": 1}`,
		`{"a": `:       `{"_invalid":"{\"a\":"}`,
		`[1]`:          `{"_invalid":"[1]"}`,
		`null`:         `{"_invalid":"null"}`,
		"{\"a\":\xff}": `{"_invalid":"{\"a\":` + "\uFFFD" + `}"}`,
	} {
		if got := string(Object(json.RawMessage(in))); got != want {
			t.Errorf("Object(%q) is %s, want %s", in, got, want)
		}
	}
}

func TestTextIsWholeHoweverItIsSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "string")
		var emitted strings.Builder
		a := NewAnswer(func(d model.Delta) {
			if !utf8.ValidString(d.Text) || d.Text == "" {
				t.Fatalf("emitted %q", d.Text)
			}
			emitted.WriteString(d.Text)
		})
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			a.Text(rest[:n])
			rest = rest[n:]
		}
		got := a.Message(&Names{}).Text
		if got != emitted.String() {
			t.Fatalf("emitted %q, answered %q", emitted.String(), got)
		}
		if utf8.ValidString(text) && got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		key, value string
		want       time.Duration
	}{
		"seconds":      {"Retry-After", "12", 12 * time.Second},
		"fraction":     {"Retry-After", "0.25", 250 * time.Millisecond},
		"date":         {"Retry-After", now.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		"past date":    {"Retry-After", now.Add(-time.Minute).Format(http.TimeFormat), 0},
		"milliseconds": {"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		"negative":     {"Retry-After", "-3", 0},
		"huge":         {"Retry-After", "1e300", maxRetryAfter},
		"infinite":     {"Retry-After", "Inf", maxRetryAfter},
		"no number":    {"Retry-After", "NaN", 0},
		"words":        {"Retry-After", "soon", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RetryAfter(http.Header{test.key: {test.value}}, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "0.5", "-1", "Inf", "Fri, 02 Jan 2026 03:04:05 GMT", "1e999", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, key := range []string{"Retry-After", "Retry-After-Ms"} {
			if d := RetryAfter(http.Header{key: {value}}, time.Unix(0, 0)); d < 0 || d > maxRetryAfter {
				t.Errorf("%s: %q gives %s", key, value, d)
			}
		}
	})
}

func FuzzFailure(f *testing.F) {
	for _, seed := range []string{
		`{"error":{"type":"overloaded_error","message":"Overloaded"}}`, `{"error":"text"}`, `[{"error":{"code":429}}]`,
		`{"detail":"no"}`, `{"error":null}`, `[]`, `<html>`, "", "\x00\xff", `{"error":{"message":{"a":["sk-secret"]}}}`,
	} {
		f.Add(400, []byte(seed))
	}
	edge := NewEdge("test", "sk-secret", http.NewFileTransport(http.Dir("/nonexistent")))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		err := edge.classed(status, parseFailure(body))
		text := err.Error()
		if err.Kind == "" || len(text) > 8<<10 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00") {
			t.Errorf("error is %q", text)
		}
		if strings.Contains(text, "sk-secret") {
			t.Errorf("the error shows the key: %q", text)
		}
	})
}
