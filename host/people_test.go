package host

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// unzipped asks for an export and returns the texts of its files, and the index.
func (c callers) unzipped(token, sender string) (files map[string]string, index struct {
	Persons  []gateway.Person
	Sessions []struct{ Key, File string }
	Files    []struct{ Name, File string }
	Notes    []memory.Note
}) {
	c.t.Helper()
	status, text := c.ask(token, "", http.MethodGet, rest.Prefix+"/people/"+url.PathEscape(sender)+"/export", "", "")
	if status != http.StatusOK {
		c.t.Fatalf("export %s: %d %s", sender, status, text)
	}
	r, err := zip.NewReader(bytes.NewReader([]byte(text)), int64(len(text)))
	if err != nil {
		c.t.Fatal(err)
	}
	files = map[string]string{}
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			c.t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err != nil || !filepath.IsLocal(f.Name) {
			c.t.Fatal(f.Name, err)
		}
		files[f.Name] = string(text)
	}
	if err := json.Unmarshal([]byte(files["person.json"]), &index); err != nil {
		c.t.Fatal(err)
	}
	return files, index
}

// TestExportAndErase: an export has all that a person said, noted and sent, and nothing of others; after an erasure nothing is left.
func TestExportAndErase(t *testing.T) {
	c := newCallers(t)
	bob, ann, zoe := c.arrive("bob", ""), c.arrive("ann", ""), c.arrive("zoe", "")
	const name = "../../etc/passwd\u202e"
	path := rest.Prefix + "/files?channel=console&name=" + url.QueryEscape("notes\u202e.txt")
	if status, text := c.ask(bob.token, "", http.MethodPost, path, "application/octet-stream", "a file of "+bob.secret); status != http.StatusOK {
		t.Fatal(status, text)
	}
	for _, who := range []message.SenderKey{"tg:bob", "tg:ann"} {
		note := memory.Note{Agent: "main", Person: string(who), Key: name, Text: "likes the SECRET-OF-" + who.ID(), By: string(who)}
		if err := c.h.store.WriteNote(t.Context(), note, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{bob.token, zoe.token} {
		files, index := c.unzipped(token, "tg:bob")
		all := strings.Join(slices.Collect(func(yield func(string) bool) {
			for _, text := range files {
				if !yield(text) {
					return
				}
			}
		}), "\n")
		for _, want := range []string{bob.secret, "a file of " + bob.secret, "likes the " + bob.secret} {
			if !strings.Contains(all, want) {
				t.Errorf("the export lacks %q", want)
			}
		}
		if strings.Contains(all, ann.secret) || strings.Contains(all, bob.token) {
			t.Error("the export has what is not for bob")
		}
		if len(index.Persons) != 1 || index.Persons[0].Sender != "tg:bob" || len(index.Sessions) != 2 || len(index.Files) != 1 || len(index.Notes) != 1 || index.Persons[0].Sessions != 2 {
			t.Errorf("the index is %+v", index)
		}
	}
	var gone gateway.Erased
	c.answer(zoe.token, http.MethodDelete, "/people/tg:bob/data", "", &gone)
	if want := (gateway.Erased{Sessions: 2, Notes: 1, Files: 1, SignIns: 2}); gone != want {
		t.Errorf("erased are %+v, want %+v", gone, want)
	}
	if status, _ := c.ask(bob.token, "", http.MethodGet, rest.Prefix+"/me", "", ""); status != http.StatusUnauthorized {
		t.Errorf("bob is still signed in: %d", status)
	}
	status, text := c.ask(zoe.token, "", http.MethodGet, rest.Prefix+"/people/tg:bob", "", "")
	if status != http.StatusNotFound {
		t.Errorf("the host knows bob: %d %s", status, text)
	}
	rows, err := c.h.store.ListAudit(t.Context(), consent.AuditFilter{Kind: consent.AuditErased})
	if err != nil || len(rows) != 1 || rows[0].Subject != "tg:bob" || rows[0].Actor != "tg:zoe" || strings.Contains(rows[0].Detail, bob.secret) {
		t.Errorf("the audit log has %+v (%v)", rows, err)
	}
	if left, err := filepath.Glob(filepath.Join(c.h.current.Load().Config.Store.Dir, "workspaces", "*bob*")); err != nil || len(left) > 0 {
		t.Errorf("workspaces are left: %v %v", left, err)
	}
	if notes, err := c.h.store.SearchNotes(t.Context(), memory.NoteQuery{}); err != nil || len(notes) != 1 {
		t.Errorf("the notes are %+v (%v)", notes, err)
	}
	c.answer(zoe.token, http.MethodDelete, "/people/tg:bob/data", "", &gone)
	if gone != (gateway.Erased{}) {
		t.Errorf("a second erasure finds %+v", gone)
	}
	if _, index := c.unzipped(ann.token, "tg:ann"); len(index.Sessions) != 2 {
		t.Errorf("ann has lost something: %+v", index)
	}
}

// TestBlock: a person who is blocked at the console is out at once, and flynn.toml says so.
func TestBlock(t *testing.T) {
	c := newCallers(t)
	ann, zoe := c.arrive("ann", ""), c.arrive("zoe", "")
	ask := func(method, sender string) int {
		t.Helper()
		status, _ := c.ask(zoe.token, "", method, rest.Prefix+"/people/"+url.PathEscape(sender)+"/block", "", "")
		return status
	}
	file := func() string {
		text, err := os.ReadFile(c.h.holder.Current().Path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := file()
	if status := ask(http.MethodPut, "tg:ann"); status != http.StatusNoContent {
		t.Fatal(status)
	}
	if !strings.Contains(file(), `blocked = ["tg:ann"]`) {
		t.Errorf("flynn.toml is %s", file())
	}
	if status, _ := c.ask(ann.token, "", http.MethodGet, rest.Prefix+"/me", "", ""); status != http.StatusUnauthorized {
		t.Errorf("a blocked person is answered %d", status)
	}
	var p gateway.Person
	if c.answer(zoe.token, http.MethodGet, "/people/tg:ann", "", &p); !p.Blocked || p.Effective != "" {
		t.Errorf("ann is %+v", p)
	}
	if status := ask(http.MethodPut, "tg:ann"); status != http.StatusNoContent || strings.Count(file(), `"tg:ann"`) != 2 {
		t.Errorf("blocked twice: %d %s", status, file())
	}
	for _, odd := range []string{`tg:a*`, `tg:[x]{y}?`, "tg:\u202e\"]\\", "tg:" + strings.Repeat("x", 500)} {
		if status := ask(http.MethodPut, odd); status != http.StatusNoContent {
			t.Errorf("%q: %d", odd, status)
			continue
		}
		if c.h.current.Load().Roles.Blocked("tg", "tg:abc") {
			t.Errorf("the block of %q is one of others", odd)
		}
		if !c.h.current.Load().Roles.Blocked("tg", message.SenderKey(odd)) {
			t.Errorf("%q is not blocked", odd)
		}
		if status := ask(http.MethodDelete, odd); status != http.StatusNoContent {
			t.Errorf("unblock %q: %d", odd, status)
		}
	}
	if status := ask(http.MethodPut, "tg:zoe"); status != http.StatusConflict {
		t.Errorf("an owner is blocked: %d", status)
	}
	if status := ask(http.MethodPut, "web:owner"); status != http.StatusBadRequest {
		t.Errorf("this machine is blocked: %d", status)
	}
	if status := ask(http.MethodDelete, "tg:ann"); status != http.StatusNoContent {
		t.Fatal(status)
	}
	if status, _ := c.ask(ann.token, "", http.MethodGet, rest.Prefix+"/me", "", ""); status != http.StatusUnauthorized {
		t.Errorf("an old sign-in of a person who is not blocked any more is answered %d", status)
	}
	if in := c.signIn("ann"); in.Role != "member" {
		t.Errorf("ann is %+v", in)
	}
	if after := strings.Replace(file(), "blocked = []\n", "", 1); after != before {
		t.Errorf("flynn.toml is\n%s\nwas\n%s", after, before)
	}
}

// TestKnown goes over everybody in pages.
func TestKnown(t *testing.T) {
	c := newCallers(t)
	zoe := c.arrive("zoe", "")
	c.write("eve", "let me in, too")
	var states []string
	for cursor := ""; ; {
		var page struct {
			Items []gateway.AccessEntry
			Next  string
		}
		c.answer(zoe.token, http.MethodGet, "/people/known?limit=1&cursor="+url.QueryEscape(cursor), "", &page)
		for _, e := range page.Items {
			states = append(states, string(e.Sender)+" "+e.State+" "+e.Effective+" "+e.Identity)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	want := []string{"tg:ann listed member proved", "tg:bob paired guest proved", "tg:eve open  proved", "tg:zoe listed owner proved"}
	if !slices.Equal(states, want) {
		t.Errorf("known are %q, want %q", states, want)
	}
	var found struct{ Items []gateway.AccessEntry }
	if c.answer(zoe.token, http.MethodGet, "/people/known?words=BOB", "", &found); len(found.Items) != 1 {
		t.Errorf("found are %+v", found)
	}
}
