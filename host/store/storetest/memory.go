package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store"
)

func note(agent, person, key, text string) memory.Note {
	return memory.Note{
		Agent: agent, Person: person, Key: key, Text: text, By: "irc:ann", Turn: "t1", Labels: []string{"web:x"}, Updated: noon,
	}
}

func keys(notes []memory.Note) []string {
	var out []string
	for _, n := range notes {
		out = append(out, n.Agent+"/"+n.Person+"/"+n.Key)
	}
	return out
}

func notes(t *testing.T, open Opener) {
	s := open()
	write := func(agent, key, text string) { check(t, s.WriteNote(t.Context(), note(agent, "", key, text), 0)) }
	write("helper", "cat", "the cat is called Mia")
	write("helper", "dog", "the dog is called Rex")
	write("coder", "cat", "cat(1) prints Mia")
	write("helper", "dog", "the dog is called Bello")
	search := func(words string, any bool) []memory.Note {
		return must[[]memory.Note](t)(s.SearchNotes(t.Context(), memory.NoteQuery{Agent: "helper", Words: words, Any: any, Limit: 10}))
	}
	found := search("called mia", false)
	if len(found) != 1 || found[0].Key != "cat" || found[0].By != "irc:ann" || found[0].Turn != "t1" || !slices.Equal(found[0].Labels, []string{"web:x"}) {
		t.Fatalf("found %+v", found)
	}
	if old := search("Rex", false); len(old) != 0 {
		t.Fatalf("overwritten text is still found: %+v", old)
	}
	if some := search("mia unheard-of", true); len(some) != 1 {
		t.Fatalf("one word of two finds %+v", some)
	}
	for _, q := range []string{`"`, `a" OR "b`, "NEAR(", "*", "key:cat", "\x00", "-", "- cat"} {
		search(q, false)
		search(q, true)
	}
	n := must[memory.Note](t)(open().ReadNote(t.Context(), "helper", "", "dog"))
	equal(t, "note", n.Text, "the dog is called Bello")
	_, err := open().ReadNote(t.Context(), "helper", "", "bird")
	wantErr(t, err, store.ErrNotFound)
}

func notesOfPersons(t *testing.T, open Opener) {
	s := open()
	for _, n := range []memory.Note{
		note("helper", "", "pet", "pets are welcome"), note("helper", "irc:ann", "pet", "Ann's pet is a cat"),
		note("helper", "irc:bob", "pet", "Bob's pet is a dog"), note("coder", "irc:ann", "pet", "a pet project"),
	} {
		check(t, s.WriteNote(t.Context(), n, 0))
	}
	for _, c := range []struct {
		name string
		q    memory.NoteQuery
		want []string
	}{
		{"own and a person's", memory.NoteQuery{Agent: "helper", Persons: []string{memory.Own, "irc:ann"}, Words: "pet"}, []string{"helper//pet", "helper/irc:ann/pet"}},
		{"a person's alone", memory.NoteQuery{Agent: "helper", Persons: []string{"irc:bob"}}, []string{"helper/irc:bob/pet"}},
		{"own alone", memory.NoteQuery{Agent: "helper", Persons: []string{memory.Own}}, []string{"helper//pet"}},
		{"of nobody", memory.NoteQuery{Persons: []string{}}, nil},
		{"of all agents", memory.NoteQuery{Persons: []string{"irc:ann"}}, []string{"coder/irc:ann/pet", "helper/irc:ann/pet"}},
		{"all", memory.NoteQuery{Words: "dog OR cat"}, nil},
		{"limited", memory.NoteQuery{Limit: 1}, []string{"coder/irc:ann/pet"}},
	} {
		got := keys(must[[]memory.Note](t)(s.SearchNotes(t.Context(), c.q)))
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	n := must[memory.Note](t)(open().ReadNote(t.Context(), "helper", "irc:bob", "pet"))
	equal(t, "note", n.Text, "Bob's pet is a dog")
}

func notesAreBounded(t *testing.T, open Opener) {
	s := open()
	for i := range 3 {
		check(t, s.WriteNote(t.Context(), note("helper", "irc:ann", fmt.Sprint(i), "x"), 3))
	}
	wantErr(t, s.WriteNote(t.Context(), note("helper", "irc:ann", "3", "x"), 3), store.ErrNoRoom)
	check(t, s.WriteNote(t.Context(), note("helper", "irc:ann", "2", "replaced"), 3))
	check(t, s.WriteNote(t.Context(), note("helper", "irc:bob", "3", "x"), 3))
}

func notesAreMended(t *testing.T, open Opener) {
	s := open()
	n := note("helper", "irc:ann", "pet", "a cat")
	n.Turn, n.Labels, n.Updated = "t1", []string{memory.Extracted}, noon
	check(t, s.WriteNote(t.Context(), n, 0))
	c := turnlog.Commit{Turn: turn("t2"), Extract: true}
	c.Turn.State = turnlog.TurnDone
	check(t, s.CommitTurn(t.Context(), c))
	check(t, s.FinishExtraction(t.Context(), "t2", []memory.Note{note("helper", "irc:ann", "age", "of 3")}, 9))
	id := must[memory.Note](t)(s.ReadNote(t.Context(), "helper", "irc:ann", "age")).ID
	later := noon.Add(time.Hour)
	got := must[memory.Note](t)(s.MendNote(t.Context(), id, "of 3", "a dog: \" OR 1 \x00", "web:owner", later))
	equal(t, "who mended it, and when", fmt.Sprint(got.Text, got.MendedBy, got.Mended.Equal(later), got.By, got.Turn), fmt.Sprint("a dog: \" OR 1 \x00", "web:owner", true, "irc:ann", "t1"))
	_, err := s.MendNote(t.Context(), id, "of 3", "a second person's", "web:owner", later)
	wantErr(t, err, store.ErrConflict)
	_, err = s.MendNote(t.Context(), 99, "", "x", "web:owner", later)
	wantErr(t, err, store.ErrNotFound)
	s = open()
	c.Turn.ID = "t3"
	check(t, s.CommitTurn(t.Context(), c))
	check(t, s.FinishExtraction(t.Context(), "t3", []memory.Note{note("helper", "irc:ann", "age", "of 3, says a model")}, 9))
	found := must[[]memory.Note](t)(s.SearchNotes(t.Context(), memory.NoteQuery{Words: "dog"}))
	if len(found) != 1 || found[0].MendedBy != "web:owner" {
		t.Errorf("after an extraction: %+v", found)
	}
	check(t, s.WriteNote(t.Context(), note("helper", "irc:ann", "age", "of 4"), 9))
	if anew := must[memory.Note](t)(s.ReadNote(t.Context(), "helper", "irc:ann", "age")); anew.MendedBy != "" || !anew.Mended.IsZero() {
		t.Errorf("written anew: %+v", anew)
	}
}

// notesComeInPages reads many notes of the same moment page by page while one is forgotten and one is written.
func notesComeInPages(t *testing.T, open Opener) {
	s := open()
	for i := range 25 {
		n := note("helper", "irc:ann", fmt.Sprintf("k%02d", i), "word")
		n.Updated = noon.Add(time.Duration(i/10) * time.Second)
		check(t, s.WriteNote(t.Context(), n, 0))
	}
	for _, words := range []string{"", "word"} {
		var got []string
		q := memory.NoteQuery{Words: words, Latest: true, Limit: 4}
		for {
			page := must[[]memory.Note](t)(s.SearchNotes(t.Context(), q))
			if len(page) == 0 {
				break
			}
			for _, n := range page {
				got = append(got, n.Key)
			}
			last := page[len(page)-1]
			q.Before = &memory.Position{Updated: last.Updated, ID: last.ID}
			must[[]memory.Note](t)(s.ForgetNotes(t.Context(), memory.NoteQuery{ID: last.ID})) // the cursor's own note
			check(t, s.WriteNote(t.Context(), last, 0))
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(got))); len(unique) != 25 {
			t.Errorf("words %q: %d notes of 25: %v", words, len(unique), got)
		}
	}
}

func notesAreForgotten(t *testing.T, open Opener) {
	s := open()
	for _, n := range []memory.Note{
		note("helper", "", "pet", "pets are welcome"), note("helper", "irc:ann", "pet", "a cat"), note("helper", "irc:ann", "car", "a van"),
	} {
		check(t, s.WriteNote(t.Context(), n, 0))
	}
	gone := must[[]memory.Note](t)(s.ForgetNotes(t.Context(), memory.NoteQuery{Persons: []string{"irc:ann"}, Key: "pet"}))
	equal(t, "forgotten", keys(gone), []string{"helper/irc:ann/pet"})
	if again := must[[]memory.Note](t)(s.ForgetNotes(t.Context(), memory.NoteQuery{Persons: []string{"irc:ann"}, Key: "pet"})); len(again) != 0 {
		t.Errorf("forgotten twice: %+v", again)
	}
	if _, err := s.ForgetNotes(t.Context(), memory.NoteQuery{Words: "pets"}); err == nil {
		t.Error("a search forgets")
	}
	s = open()
	equal(t, "left", len(must[[]memory.Note](t)(s.SearchNotes(t.Context(), memory.NoteQuery{}))), 2)
	equal(t, "found", len(must[[]memory.Note](t)(s.SearchNotes(t.Context(), memory.NoteQuery{Words: "cat"}))), 0)
}

func extractions(t *testing.T, open Opener) {
	s := open()
	c := turnlog.Commit{Turn: turn("t1"), Extract: true}
	c.Turn.State = turnlog.TurnDone
	check(t, s.CommitTurn(t.Context(), c))
	s = open()
	check(t, s.RetryExtraction(t.Context(), "t1"))
	waiting := must[[]memory.Extraction](t)(s.PendingExtractions(t.Context(), 10))
	if len(waiting) != 1 || waiting[0].Turn.ID != "t1" || waiting[0].Turn.Sender != "irc:ann" || waiting[0].Attempts != 1 {
		t.Fatalf("waiting: %+v", waiting)
	}
	check(t, s.WriteNote(t.Context(), note("helper", "irc:ann", "written", "stays"), 0))
	facts := []memory.Note{note("helper", "irc:ann", "written", "guessed")}
	for i := range 3 {
		n := note("helper", "irc:ann", fmt.Sprint(i), "x")
		n.Labels, n.Updated = []string{memory.Extracted}, noon.Add(time.Duration(i)*time.Minute)
		facts = append(facts, n)
	}
	check(t, s.FinishExtraction(t.Context(), "t1", facts, 3))
	wantErr(t, s.FinishExtraction(t.Context(), "t1", facts, 3), store.ErrConflict)
	s = open()
	got := keys(must[[]memory.Note](t)(s.SearchNotes(t.Context(), memory.NoteQuery{})))
	slices.Sort(got)
	equal(t, "notes", got, []string{"helper/irc:ann/1", "helper/irc:ann/2", "helper/irc:ann/written"})
	equal(t, "written", must[memory.Note](t)(s.ReadNote(t.Context(), "helper", "irc:ann", "written")).Text, "stays")
}

func summaries(t *testing.T, open Opener) {
	s := open()
	_, err := s.LatestSummary(t.Context(), "irc:#flynn:helper")
	wantErr(t, err, store.ErrNotFound)
	sum := func(id, through string) turnlog.Summary {
		return turnlog.Summary{
			ID: id, Session: "irc:#flynn:helper", Through: through, Turns: 2, Text: "they met \x00", Labels: []string{"web:x"}, By: id, Tokens: 5, CostUSD: 0.5, At: noon,
		}
	}
	for _, id := range []string{"t1", "t2", "t3"} {
		c := turnlog.Commit{Turn: turn(id), Steps: []turnlog.Step{step(0, turnlog.StepUser, `{"said":[]}`)}}
		c.Turn.State = turnlog.TurnDone
		if id == "t3" {
			first := sum("s1", "t1")
			c.Summary = &first
		}
		check(t, s.CommitTurn(t.Context(), c))
	}
	s = open()
	equal(t, "summary", must[turnlog.Summary](t)(s.LatestSummary(t.Context(), "irc:#flynn:helper")), sum("s1", "t1"))
	row, _, err := s.AppendInbox(t.Context(), msg("compact"), mailbox.InboxNew, "")
	check(t, err)
	asked := sum("s2", "t2")
	check(t, s.Settle(t.Context(), turnlog.Settlement{Inbox: row.ID, Turn: "command-1", Summary: &asked}))
	late := sum("s3", "t3")
	wantErr(t, s.Settle(t.Context(), turnlog.Settlement{Inbox: row.ID, Turn: "command-1", Summary: &late}), store.ErrConflict)
	equal(t, "summary", must[turnlog.Summary](t)(s.LatestSummary(t.Context(), "irc:#flynn:helper")), sum("s2", "t2"))
	for after, want := range map[string]int{"": 3, "t1": 2, "t3": 0} {
		equal(t, "steps after "+after, len(must[[]turnlog.Step](t)(s.TranscriptAfter(t.Context(), "irc:#flynn:helper", after, 10))), want)
	}
	equal(t, "steps of the last turn", len(must[[]turnlog.Step](t)(s.TranscriptAfter(t.Context(), "irc:#flynn:helper", "", 1))), 1)
}

func keptResults(t *testing.T, open Opener) {
	s := open()
	r := turnlog.KeptResult{ID: "r1", Session: "irc:#flynn:helper", Tool: "web.fetch", Text: "a long page", Labels: []string{"web:x"}, At: noon}
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn("t1"), Results: []turnlog.KeptResult{r}}))
	equal(t, "result", must[turnlog.KeptResult](t)(open().KeptResult(t.Context(), r.Session, "r1")), r)
	_, err := open().KeptResult(t.Context(), "irc:#other:helper", "r1")
	wantErr(t, err, store.ErrNotFound)
	s = open()
	other := r
	other.Session = "irc:#other:helper"
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn("t2"), Results: []turnlog.KeptResult{other}}))
	c := turnlog.Commit{Turn: turn("t3")}
	for i := range turnlog.MaxResults {
		more := r
		more.ID = fmt.Sprintf("r2-%03d", i)
		c.Results = append(c.Results, more)
	}
	check(t, s.CommitTurn(t.Context(), c))
	_, err = s.KeptResult(t.Context(), r.Session, "r1") // the oldest of too many
	wantErr(t, err, store.ErrNotFound)
	for _, kept := range []turnlog.KeptResult{c.Results[0], c.Results[turnlog.MaxResults-1], other} {
		equal(t, "result", must[turnlog.KeptResult](t)(s.KeptResult(t.Context(), kept.Session, kept.ID)), kept)
	}
}
