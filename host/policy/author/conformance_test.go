package author

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/policy"
)

// sibling is one of several policies that hash everything their SDK can read. They are one question asked in all languages
// that have an SDK; testdata/conformance-LANGUAGE holds each.
type sibling struct {
	language string
	*Loading
}

// siblings are built here and now, C first. One whose toolchain is missing is left out, where that is not required.
func siblings(t *testing.T) []sibling {
	t.Helper()
	var all []sibling
	for _, language := range []string{"c", "go", "rust", "assemblyscript"} {
		dir := filepath.Join("testdata", "conformance-"+language)
		if part, err := toolchain(t, dir); err != nil && !need.Required(part) {
			t.Logf("without %s: %v", language, err)
			continue
		}
		mustBuild(t, dir)
		all = append(all, sibling{language, mustOpen(t, dir, map[string]string{"key": "välue"})})
	}
	if len(all) < 2 {
		t.Skip("there is nobody to agree with")
	}
	return all
}

// askAll returns the siblings' one answer. Fuel and time are what differs between languages.
func askAll(t rapid.TB, all []sibling, name string, ask func(*Loading) Outcome) Outcome {
	t.Helper()
	var first Outcome
	for i, s := range all {
		o := ask(s.Loading)
		o.Fuel, o.Took = 0, 0
		if i == 0 {
			first = o
		} else if o != first {
			t.Errorf("%s:\n  %s: %+v\n  %s: %+v", name, all[0].language, first, s.language, o)
		}
	}
	return first
}

// askCase asks one case of all.
func askCase(t rapid.TB, all []sibling, c Case) Outcome {
	t.Helper()
	if err := c.Ask.Settle(); err != nil {
		t.Fatal(err)
	}
	return askAll(t, all, c.Name, func(a *Loading) Outcome { return outcomeOf(a.ask(context.Background(), c, nil)) })
}

func TestSDKsAgree(t *testing.T) {
	t.Parallel()
	all := siblings(t)
	t.Run("table", func(t *testing.T) { agreeOnTable(t, all) })
	t.Run("whatever comes", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { askCase(t, all, drawCase(t)) })
	})
	t.Run("broken frames", func(t *testing.T) { agreeOnBrokenFrames(t, all) })
}

func agreeOnTable(t *testing.T, all []sibling) {
	rules := map[uint32]bool{}
	asked := 0
	for _, c := range conformanceCases() {
		o := askCase(t, all, c)
		if o.Error != "" {
			t.Errorf("%s: %s", c.Name, o.Error)
		}
		rules[o.Rule] = true
		asked++
	}
	if asked < 60 || len(rules) < asked*9/10 {
		t.Errorf("%d questions gave %d different hashes: the policies do not see what differs", asked, len(rules))
	}
	t.Logf("%d questions, %d different hashes", asked, len(rules))
}

// Frames come from the host and are right; a reader that trusts them has no second line. All SDKs have to make the
// same of a broken one, without a trap. Where a text in it is none, only those agree that read bytes.
func agreeOnBrokenFrames(t *testing.T, all []sibling) {
	c := Case{Kind: policy.KindRoute, Ask: everyFact()}
	if err := c.Ask.Settle(); err != nil {
		t.Fatal(err)
	}
	whole := all[0].ask(t.Context(), c, nil)
	rapid.Check(t, func(t *rapid.T) {
		frame := slices.Clone(whole.Frame)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			// Most of what can break is in the header and the table.
			at := rapid.OneOf(rapid.IntRange(0, abi.HeaderSize+29*abi.EntrySize), rapid.IntRange(0, len(frame)-1)).Draw(t, "at")
			frame[min(at, len(frame)-1)] = rapid.Byte().Draw(t, "byte")
		}
		ask := func(a *Loading) Outcome { return outcomeOf(a.ask(context.Background(), c, frame)) }
		if textual(frame) {
			askAll(t, all, "broken frame", ask)
		} else {
			askAll(t, readingBytes(all), "broken frame", ask)
		}
		for _, s := range all {
			if o := ask(s.Loading); o.Class() == "trap" {
				t.Errorf("a trap in %s: %s", s.language, o.Error)
			}
		}
	})
}

// readingBytes are the siblings whose texts may be any bytes. In the others' a text that is none reads as empty.
func readingBytes(all []sibling) (some []sibling) {
	for _, s := range all {
		if s.language == "c" || s.language == "go" {
			some = append(some, s)
		}
	}
	return some
}

// textual reports whether the texts of a frame, as far as they lie in it, are UTF-8.
func textual(frame []byte) bool {
	le := binary.LittleEndian
	for at := abi.HeaderSize; at+abi.EntrySize <= len(frame) && at < abi.HeaderSize+abi.EntrySize*int(le.Uint16(frame[6:])); at += abi.EntrySize {
		off, n := uint64(le.Uint32(frame[at+4:])), uint64(le.Uint32(frame[at+8:]))
		if off+n > uint64(len(frame)) {
			continue
		}
		texts := []string{string(frame[off : off+n])}
		switch le.Uint16(frame[at+2:]) {
		case abi.TypeList:
			texts = listItems(frame[off : off+n])
		case abi.TypeString:
		default:
			continue
		}
		if slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }) {
			return false
		}
	}
	return true
}

// conformanceCases vary one fact at a time, for each form of answer.
func conformanceCases() []Case {
	variants := []struct {
		name string
		set  func(*Facts)
	}{
		{"as it is", func(*Facts) {}},
		{"another channel", func(f *Facts) { f.Channel, f.Sender = "telegram", "telegram:1" }},
		{"sender with colons", func(f *Facts) { f.Sender = "matrix:@bob:example.com" }},
		{"glob fits", func(f *Facts) { f.Sender = "irc:bob" }},
		{"sender without id", func(f *Facts) { f.Sender = "irc:" }},
		{"thread", func(f *Facts) { f.ConversationKind, f.Parent = "thread", "c0" }},
		{"group", func(f *Facts) { f.ConversationKind, f.Conversation = "group", "#general" }},
		{"name in another script", func(f *Facts) { f.SenderName = "Ωμέγα 🜁" }},
		{"account", func(f *Facts) { f.Account = "bob@example.com" }},
		{"owner", func(f *Facts) { f.Role = "owner" }},
		{"not addressed", func(f *Facts) { f.Addressed = false }},
		{"attachments", func(f *Facts) { f.Attachments = 3 }},
		{"labels", func(f *Facts) { f.Labels = []string{"web:example.com", "file:ä.md", "sender:guest"} }},
		{"an empty label", func(f *Facts) { f.Labels = []string{""} }},
		{"web", func(f *Facts) { f.Door = "web" }},
		{"zone and day", func(f *Facts) { f.Now, f.Zone = "2026-12-31T23:59:59Z", "Asia/Tokyo" }},
		{"before 1970", func(f *Facts) { f.Now = "1960-02-29T00:00:00Z" }},
		{"edited", func(f *Facts) { f.Edited = true }},
		{"mentioned", func(f *Facts) { f.Mentioned = true }},
		{"attachment types", func(f *Facts) { f.AttachmentTypes = []string{"image/png", "", "text/plain"} }},
		{"platform roles", func(f *Facts) { f.SenderRoles = []string{"moderator", "ä"} }},
		{"tokens", func(f *Facts) { f.SessionTokens = 1 << 40 }},
		{"cost", func(f *Facts) { f.SessionCost = 1 }},
		{"age", func(f *Facts) { f.SessionAge = 3600 }},
		{"turns", func(f *Facts) { f.Turns = 7 }},
		{"negative seed", func(f *Facts) { f.Seed = -1 << 62 }},
	}
	var cases []Case
	for _, v := range variants {
		for _, text := range []string{"agent", "last", "drop", "glob", ""} {
			f := conformanceFacts()
			f.Text = text
			v.set(&f)
			cases = append(cases, Case{Name: "route, " + v.name + ", " + text, Kind: policy.KindRoute, Ask: f})
		}
		f := conformanceFacts()
		v.set(&f)
		cases = append(cases, Case{Name: "tool, " + v.name, Kind: policy.KindTool, Ask: f, Args: json.RawMessage(`{"command":"ls"}`)})
	}
	for i, args := range []string{`{}`, `{"command":""}`, `{"command":"ls \"x\"\n\u00e4"}`, `{"command":["a"],"list":[1,"two"]}`, `{"list":[true,null]}`,
		`{"a/b":{"x":1.5}}`, `{"command":null}`, `{"command":"` + strings.Repeat("long ", 2000) + `"}`} {
		f := conformanceFacts()
		f.CallsInTurn = i
		f.Labels = []string{"strict"}
		cases = append(cases, Case{Name: fmt.Sprintf("tool, restrictions %d", i), Kind: policy.KindTool, Ask: f, Args: json.RawMessage(args)})
	}
	for _, n := range []int{1023, 1024, 1025, 5000, 60_000} {
		f := conformanceFacts()
		f.Text = strings.Repeat("é€x", n/6) + "."
		cases = append(cases, Case{Name: fmt.Sprintf("route, text of %d", n), Kind: policy.KindRoute, Ask: f})
	}
	return cases
}

func conformanceFacts() Facts {
	f := defaultFacts()
	f.Candidate, f.Agents = "helper", []string{"coder", "helper", "ops"}
	f.SenderName, f.Tool, f.Effect = "Bob", "shell.exec", "execute"
	return f
}

// everyFact is a question whose frame has all that a routing frame can have.
func everyFact() Facts {
	f := conformanceFacts()
	f.Parent, f.Account, f.Edited, f.Mentioned = "c0", "bob@example.com", true, true
	f.AttachmentTypes, f.SenderRoles = []string{"image/png"}, []string{"moderator"}
	f.SessionTokens, f.SessionCost, f.SessionAge, f.Turns = 1, 2, 3, 4
	return f
}

func drawCase(t *rapid.T) Case {
	word := rapid.StringN(0, 12, 40)
	f := conformanceFacts()
	f.Sender = rapid.StringMatching(`[a-z]{1,8}:`).Draw(t, "channel") + word.Draw(t, "sender")
	f.SenderName, f.Account, f.Role = word.Draw(t, "name"), word.Draw(t, "account"), word.Draw(t, "role")
	f.Text = rapid.OneOf(rapid.SampledFrom([]string{"agent", "last", "drop", "glob"}), rapid.StringN(0, 3000, 4000)).Draw(t, "text")
	f.Labels = rapid.SliceOfN(word, 0, 5).Draw(t, "labels")
	f.Seed, f.Attachments = rapid.Int64().Draw(t, "seed"), rapid.IntRange(0, 9).Draw(t, "attachments")
	f.CallsInTurn, f.Turns = rapid.IntRange(0, 7).Draw(t, "calls"), rapid.IntRange(0, 1<<30).Draw(t, "turns")
	f.Edited, f.Mentioned = rapid.Bool().Draw(t, "edited"), rapid.Bool().Draw(t, "mentioned")
	f.AttachmentTypes, f.SenderRoles = rapid.SliceOfN(word, 0, 3).Draw(t, "types"), rapid.SliceOfN(word, 0, 3).Draw(t, "roles")
	f.SessionTokens, f.SessionCost = rapid.Int64().Draw(t, "tokens"), rapid.Int64().Draw(t, "cost")
	f.SessionAge = rapid.Int64Range(0, 1<<33).Draw(t, "age")
	args, err := json.Marshal(map[string]any{"command": word.Draw(t, "command"), "list": []any{rapid.Float64().Draw(t, "number"), nil}})
	if err != nil {
		t.Fatal(err)
	}
	return Case{Name: "drawn", Kind: rapid.SampledFrom([]string{policy.KindRoute, policy.KindTool}).Draw(t, "kind"), Ask: f, Args: args}
}
