package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Ids as they are given, a minute apart.
var (
	id1 = store.LeastID(noon)
	id2 = store.LeastID(noon.Add(time.Minute))
	id3 = store.LeastID(noon.Add(2 * time.Minute))
)

const (
	said   = `{"said":[{"event":"e1","text":"hi <b>"}],"generation":1,"labels":["sender:guest"]}`
	answer = `{"message":{"role":"assistant","text":"hello"},"stop":"end","usage":{}}`
)

func fill(t *testing.T, s *sqlite.Store, key message.SessionKey) {
	t.Helper()
	for i, id := range []string{id1, id2, id3} {
		tn := turnlog.Turn{
			ID: id, Session: key, Agent: "main", Channel: "irc", Conversation: message.Conversation{ID: "ann", Kind: message.DM}, Sender: "irc:ann",
			State: turnlog.TurnDone, Started: noon.Add(time.Duration(i) * time.Minute), Ended: noon.Add(time.Hour),
		}
		steps := []turnlog.Step{{Turn: id, Kind: turnlog.StepUser, Data: []byte(said), At: noon}, {Turn: id, Seq: 1, Kind: turnlog.StepModel, Data: []byte(answer), At: noon}}
		if id == id3 {
			tn.State, tn.Ended = turnlog.TurnRunning, time.Time{}
			steps = steps[:1]
		}
		if err := s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Steps: steps}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnOlderPrivateSessionIsPrivate imports a file of the time when a private chat was called like a group with the same id.
func TestAnOlderPrivateSessionIsPrivate(t *testing.T) {
	for was, want := range map[message.SessionKey]message.SessionKey{"irc:ann:main": "irc/dm:ann:main", "irc:ann:main#4": "irc/dm:ann:main#4", "@zoe:main": "@zoe:main"} {
		from, to := open(t), open(t)
		fill(t, from, was)
		var file bytes.Buffer
		if err := Export(t.Context(), from, was, noon, &file); err != nil {
			t.Fatal(err)
		}
		s, err := Import(t.Context(), to, &file)
		if err != nil || s.Key != want {
			t.Errorf("%s came as %s, want %s (%v)", was, s.Key, want, err)
		}
		if turns, err := to.SessionTurns(t.Context(), want); err != nil || len(turns) != 2 {
			t.Errorf("%s has %d turns, %v", want, len(turns), err)
		}
	}
}

// TestThereAndBack: what is imported is exported again byte for byte, but for the label that says so; a session that is there is not
// touched.
func TestThereAndBack(t *testing.T) {
	for _, key := range []message.SessionKey{"irc/dm:ann:main", "irc/dm:ann:main#4"} {
		t.Run(string(key), func(t *testing.T) {
			from, to := open(t), open(t)
			fill(t, from, key)
			sum := turnlog.Summary{ID: id2, Session: key, Through: id1, Turns: 1, Text: "hi and hello", Labels: []string{"web:x"}, At: noon}
			if err := from.CommitTurn(t.Context(), turnlog.Commit{Turn: turnlog.Turn{ID: id3, Session: key, State: turnlog.TurnRunning}, Summary: &sum}); err != nil {
				t.Fatal(err)
			}
			var first, second bytes.Buffer
			if err := Export(t.Context(), from, key, noon, &first); err != nil {
				t.Fatal(err)
			}
			s, err := Import(t.Context(), to, bytes.NewReader(first.Bytes()))
			if err != nil {
				t.Fatalf("%v in\n%s", err, &first)
			}
			if want := (turnlog.Session{Key: key, Agent: "main", Turns: 2, Last: noon.Add(time.Minute)}); s != want { // the third turn runs
				t.Errorf("imported %+v, want %+v", s, want)
			}
			if err := Export(t.Context(), to, key, noon, &second); err != nil {
				t.Fatal(err)
			}
			labelled := strings.NewReplacer("[\"sender:guest\"]", "[\"other:imported\",\"sender:guest\"]", "[\"web:x\"]", "[\"other:imported\",\"web:x\"]").Replace(first.String())
			if d := cmp.Diff(labelled, second.String()); d != "" {
				t.Error(d)
			}
			if _, err := Import(t.Context(), to, bytes.NewReader(first.Bytes())); !errors.Is(err, store.ErrConflict) {
				t.Errorf("imported twice: %v", err)
			}
		})
	}
	if err := Export(t.Context(), open(t), "irc:none:main", noon, &bytes.Buffer{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
}

func sample(t testing.TB) string {
	return strings.Join([]string{
		`{"flynn_session":1,"key":"irc:ann:main","agent":"main","exported":"2026-11-21T12:00:00Z"}`,
		`{"turn":{"id":"` + id1 + `","channel":"irc","conversation":{"id":"ann","kind":"dm"},"sender":"irc:ann","state":"done","started":"2026-11-21T12:00:00Z","ended":"2026-11-21T12:00:00Z"}}`,
		`{"step":{"kind":"user","at":"2026-11-21T12:00:00Z","data":` + said + `}}`,
		`{"step":{"kind":"model","at":"2026-11-21T12:00:00Z","data":` + answer + `}}`,
		`{"end":{"turns":1,"steps":2}}`,
	}, "\n") + "\n"
}

func sumLine(through, id string, turns int) string {
	return fmt.Sprintf(`{"summary":{"id":"%s","through":"%s","turns":%d,"text":"hi and hello","labels":["web:x"],"at":"2026-11-21T12:00:00Z"}}`+"\n", id, through, turns)
}

// labelsOf are those of a turn's first step.
func labelsOf(t *testing.T, turn turnlog.SessionTurn) []string {
	t.Helper()
	var u transcript.UserStep
	if err := json.Unmarshal(turn.Steps[0].Data, &u); err != nil {
		t.Fatal(err)
	}
	return u.Labels
}

// TestImportedIsLabelled: whatever the file says of its labels, policies see that it is from elsewhere, and no flood of labels gets in.
func TestImportedIsLabelled(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprintf("kind%d:%s", i, strings.Repeat("x", 1000))
	}
	flood, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]string{"none": `[]`, "some": `["sender:guest","web:x"]`, "that it is not": `["imported:no"]`, "many": string(flood)} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(sample(t), `["sender:guest"]`, labels, 1)
			f, err := Read(strings.NewReader(strings.Replace(text, `{"end":`, sumLine(id1, id2, 1)+`{"end":`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			got := labelsOf(t, f.Turns[0])
			if !slices.Contains(got, tool.Imported) || len(got) > 3*tool.MaxLabels {
				t.Errorf("%d labels: %.300q", len(got), got)
			}
			if name == "some" && !slices.Contains(got, "web:x") || !slices.Contains(f.Summary.Labels, tool.Imported) || !slices.Contains(f.Summary.Labels, "web:x") {
				t.Errorf("labels %q, of the summary %q", got, f.Summary.Labels)
			}
		})
	}
}

func TestFilesOfAnOlderVersion(t *testing.T) {
	if f, err := Read(strings.NewReader(sample(t))); err != nil || f.Session.Turns != 1 || f.Summary != nil {
		t.Errorf("read %+v (%v)", f, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	good := sample(t)
	if _, err := Read(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"another version", `"flynn_session":1`, `"flynn_session":3`, "line 1: unknown format version 3"},
		{"another agent", `"agent":"main"`, `"agent":"admin"`, "line 1: \"irc:ann:main\" is not a session key of agent \"admin\""},
		{"a key in another spelling", `"irc:ann:main"`, `"irc:ann:main#1"`, "line 1: \"irc:ann:main#1\" is not a session key"},
		{"a further key", `"exported"`, `"owner":true,"exported"`, "line 1: json: unknown field \"owner\""},
		{"a further key of a turn", `"id":"` + id1 + `"`, `"session":"irc:bob:main","id":"t1"`, "line 2: json: unknown field \"session\""},
		{"a running turn", `"state":"done"`, `"state":"running"`, "line 5: turn " + id1 + " has the state \"running\""},
		{"done without an answer", `{"step":{"kind":"model","at":"2026-11-21T12:00:00Z","data":` + answer + "}}\n", "", "line 4: turn " + id1 + " is done without an answer"},
		{"a step before its turn", `{"turn":`, `{"step":{"kind":"user","at":"2026-11-21T12:00:00Z","data":{}}}` + "\n" + `{"turn":`, "line 2: a step without a turn"},
		{"a result before any answer", `{"kind":"model"`, `{"kind":"tool_result"`, `no call "" without a result`},
		{"a kind that there is not", `{"kind":"model"`, `{"kind":"thought"`, "line 5: decode step 1"},
		{"said twice", `{"kind":"model"`, `{"kind":"user"`, `line 5: decode step 1 of turn ` + id1 + `: a step of kind "user" cannot be number 1`},
		{"two at once", `{"end":`, `{"turn":null,"step":{"kind":"user","at":"2026-11-21T12:00:00Z","data":{}},"end":`, "line 5: not a"},
		{"nothing", `{"end":{"turns":1,"steps":2}}`, `{}`, "line 5: not a"},
		{"too few", `"steps":2`, `"steps":3`, "line 5: the file has 1 turns and 2 steps, but its end counts 1 and 3"},
		{"cut off", `{"end":{"turns":1,"steps":2}}` + "\n", "", "line 5: unexpected end of file"},
		{"something behind", `"steps":2}}` + "\n", `"steps":2}}` + "\n{}\n", "line 6: data after the end"},
		{"something behind a value", `"steps":2}}`, `"steps":2}} {}`, "line 5: data after the value"},
		{"a sender of elsewhere", `"sender":"irc:ann"`, `"sender":"web:owner"`, "line 2: the sender \"web:owner\" does not belong to channel \"irc\""},
		{"a kind of conversation", `"kind":"dm"`, `"kind":"owner"`, "line 2: unknown kind of conversation"},
		{"a name with a line end", `"id":"ann"`, `"id":"an\nn"`, "line 2: the turn has an invalid name"},
		{"a time that cannot be kept", `"started":"2026-`, `"started":"9026-`, "line 2: the turn has an invalid time"},
		{"an id that nobody gives", id1, "zz", "line 2: the turn has an invalid name"},
		{"an id of a time to come", id1, store.LeastID(time.Now().Add(2 * maxAhead)), "line 2: the turn has an invalid name"},
		{"a summary of other turns", `{"end":`, sumLine(id2, id3, 1) + `{"end":`, "line 5: the summary covers turns that are missing"},
		{"a summary of more turns", `{"end":`, sumLine(id1, id2, 2) + `{"end":`, "line 5: the summary covers 2 of 1 turns"},
		{"a summary that sorts before", `{"end":`, sumLine(id1, id1, 1) + `{"end":`, "line 5: the summary has an invalid name"},
		{"a summary of a time to come", `{"end":`, sumLine(id1, store.LeastID(time.Now().Add(2*maxAhead)), 1) + `{"end":`, "line 5: the summary has an invalid name"},
		{"two summaries", `{"end":`, sumLine(id1, id2, 1) + sumLine(id1, id3, 1) + `{"end":`, "line 6: data between"},
		{"an empty summary", `{"end":`, strings.Replace(sumLine(id1, id2, 1), "hi and hello", " ", 1) + `{"end":`, "line 5: the summary has an invalid text"},
		{"labels that are none", `"labels":["sender:guest"]`, `"labels":"owner"`, "line 5: decode step 0"},
		{"no JSON", `{"end"`, `end"`, "line 5: invalid character"},
		{"no UTF-8", `hi <b>`, "\xff", "line 3: not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if text == good {
				t.Fatal("nothing was changed")
			}
			if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

// FuzzRead: whatever is read without an error can be written to a store and comes back from there.
func FuzzRead(f *testing.F) {
	f.Add(sample(f))
	f.Add(strings.Replace(sample(f), "irc:ann:main", "irc:ann:main#7", 1))
	f.Add(strings.Replace(sample(f), `{"end":`, sumLine(id1, id2, 1)+`{"end":`, 1))
	f.Add("{}\n{}")
	s, err := sqlite.Open(f.Context(), f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		f, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if f.Session.Turns > 0 && !slices.Contains(labelsOf(t, f.Turns[0]), tool.Imported) {
			t.Errorf("not labelled: %s", f.Turns[0].Steps[0].Data)
		}
		session := f.Session
		if err := s.PutSession(t.Context(), session, f.Turns, f.Summary); errors.Is(err, store.ErrConflict) {
			return // of another input
		} else if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Export(t.Context(), s, session.Key, noon, &out); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(&out); err != nil || again.Session != session || (again.Summary == nil) != (f.Summary == nil) {
			t.Errorf("%+v is read again as %+v, %v", f, again, err)
		}
		if err := s.DeleteSession(t.Context(), turnlog.Deletion{Key: session.Key}); err != nil {
			t.Fatal(err)
		}
	})
}
