package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

func parts(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	renewed(t, b, alive)
	if all, n, err := a.Parts(t.Context()); err != nil || n != 0 || len(all) != 0 {
		t.Fatalf("at first %v, %d, %v", all, n, err)
	}
	echo := store.Part{Kind: "plugin", Name: "echo\n", Body: []byte("\x00\xff{}")}
	first := must[int64](t)(a.SetPart(t.Context(), echo))
	wantErr(t, second(b.SetPart(t.Context(), echo)), store.ErrConflict)
	if !must[bool](t)(b.Signaled(t.Context())) {
		t.Error("the other host is not told")
	}
	other := must[int64](t)(b.SetPart(t.Context(), store.Part{Kind: "policy", Name: "echo\n", Body: []byte("p")}))
	wantErr(t, second(b.SetPart(t.Context(), store.Part{Kind: "plugin", Name: "echo\n", Revision: first + 1})), store.ErrConflict)
	last := must[int64](t)(b.SetPart(t.Context(), store.Part{Kind: "plugin", Name: "echo\n", Revision: first})) // removed
	if first >= other || other >= last {
		t.Errorf("the revisions are %d, %d, %d", first, other, last)
	}
	all, n, err := a.Parts(t.Context())
	check(t, err)
	for i := range all {
		all[i].Body = append([]byte{}, all[i].Body...) // nil or empty
	}
	equal(t, "the revision", n, last)
	equal(t, "all", all, []store.Part{
		{Kind: "plugin", Name: "echo\n", Body: []byte{}, Host: "b", Revision: last}, {Kind: "policy", Name: "echo\n", Body: []byte("p"), Host: "b", Revision: other},
	})
}

// follows has the digests of hosts change by parts: those of before are good while no host has the new ones, and only then.
func follows(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	var agreed int64
	idle := func(s store.Store, digests string) store.Idle {
		t.Helper()
		return must[store.Renewal](t)(s.Renew(t.Context(), store.Lease{Term: alive, Digests: digests, Revision: agreed})).Idle
	}
	equal(t, "the first", idle(a, "d1"), store.Idle(""))
	equal(t, "the same", idle(b, "d1"), store.Idle(""))
	revision := must[int64](t)(a.SetPart(t.Context(), store.Part{Kind: "plugin", Name: "echo", Body: []byte("1")}))
	check(t, a.Follow(t.Context(), "never", "d2", revision))
	check(t, a.Follow(t.Context(), "", "d2", revision))
	check(t, a.Follow(t.Context(), "d1", "d2", revision-1))
	equal(t, "nothing has changed", idle(b, "d1"), store.Idle(""))
	check(t, a.Follow(t.Context(), "d1", "d2", revision))
	equal(t, "nobody has the new one yet", idle(b, "d1"), store.Idle(""))
	equal(t, "the first has it", idle(a, "d2"), store.Idle(""))
	equal(t, "another one has not", idle(b, "d1"), store.IdleDiffers)
	equal(t, "its state", hostsOf(t, a)["b"].Idle, store.IdleDiffers)
	equal(t, "one that never agreed", idle(b, "d0"), store.IdleDiffers)
	check(t, a.Drain(t.Context(), "a", true))
	equal(t, "the one that has it is drained", idle(b, "d1"), store.Idle(""))
	equal(t, "one that never agreed, beside it", idle(b, "d0"), store.IdleDiffers)
	check(t, a.Drain(t.Context(), "a", false))
	equal(t, "it works again", idle(b, "d1"), store.IdleDiffers)
	check(t, a.Leave(t.Context()))
	equal(t, "it is gone", idle(b, "d1"), store.Idle(""))
	claimed(t, b, store.UpkeepOwner, "b")

	// Changes of two hosts at the same time: whichever has both first decides.
	a = join("a")
	equal(t, "it is back", idle(a, "d2"), store.Idle(""))
	revision = must[int64](t)(b.SetPart(t.Context(), store.Part{Kind: "plugin", Name: "other", Body: []byte("1")}))
	check(t, b.Follow(t.Context(), "d1", "d3", revision))
	equal(t, "the one that has both", idle(b, "d3"), store.Idle(""))
	check(t, a.Follow(t.Context(), "d3", "d1", revision)) // never back
	equal(t, "the other", idle(a, "d2"), store.IdleDiffers)

	// A decision of a person ends it.
	agreed = must[int64](t)(b.Agree(t.Context(), store.Revision{}))
	check(t, a.Follow(t.Context(), "d2", "d4", revision))
	check(t, b.Drain(t.Context(), "b", true))
	equal(t, "what was agreed on before a decision", idle(a, "d2"), store.IdleDiffers)
}

func blobs(t *testing.T, open Opener) {
	s := open()
	digestOf := func(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
	for _, size := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 700_000} {
		content := bytes.Repeat([]byte("\x00é\xff"), size/4+1)[:size]
		digest := digestOf(content)
		wantErr(t, second(s.Blob(t.Context(), digest)), store.ErrNotFound)
		broken := io.MultiReader(bytes.NewReader(content[:size/2]), brokenReader{})
		if err := s.PutBlob(t.Context(), digest, broken); !errors.Is(err, errBroken) {
			t.Errorf("%d bytes, broken off: %v", size, err)
		}
		if err := s.PutBlob(t.Context(), digest, bytes.NewReader(append(slices.Clone(content), 'x'))); err == nil {
			t.Errorf("%d bytes with another digest are taken", size)
		}
		equal(t, "missing", must[[]string](t)(s.MissingBlobs(t.Context(), []string{"none", digest})), []string{"none", digest})
		check(t, s.PutBlob(t.Context(), digest, bytes.NewReader(content)))
		check(t, s.PutBlob(t.Context(), digest, brokenReader{})) // it is there
		equal(t, "missing", must[[]string](t)(s.MissingBlobs(t.Context(), []string{"none", digest})), []string{"none"})
		s = open()
		if got := must[[]byte](t)(io.ReadAll(must[io.Reader](t)(s.Blob(t.Context(), digest)))); !bytes.Equal(got, content) {
			t.Errorf("%d bytes are read as %d", size, len(got))
		}
		check(t, s.DropBlob(t.Context(), digest))
		check(t, s.DropBlob(t.Context(), digest))
		wantErr(t, second(s.Blob(t.Context(), digest)), store.ErrNotFound)
	}
}

// blobsGo has blobs be deleted that nothing names, and no others.
func blobsGo(t *testing.T, open Opener) {
	s := open()
	digests := map[string]string{}
	for _, name := range []string{"free", "part", "pending", "sent"} {
		content := []byte(name)
		digests[name] = fmt.Sprintf("%x", sha256.Sum256(content))
		check(t, s.PutBlob(t.Context(), digests[name], bytes.NewReader(content)))
	}
	must[int64](t)(s.SetPart(t.Context(), store.Part{Kind: "plugin", Name: "echo", Body: []byte(`{"files":{"a":"` + digests["part"] + `"}}`)}))
	for _, name := range []string{"pending", "sent"} {
		r := reply(name)
		r.Attachments = []message.Attachment{{Digest: digests[name]}}
		must[[]message.Reply](t)(s.AddReplies(t.Context(), "c", []message.Reply{r}))
		if name == "sent" {
			check(t, s.SetOutbox(t.Context(), mailbox.OutboxRow{Reply: r, State: mailbox.OutboxSent}))
		}
	}
	check(t, s.WantFile(t.Context(), store.WantedFile{ID: "1"}))
	all := slices.Sorted(maps.Values(digests))
	equal(t, "pruned before their time", must[map[string]int](t)(s.Prune(t.Context(), store.Retention{Blobs: time.Now().Add(-time.Hour)})), map[string]int{})
	equal(t, "pruned", must[map[string]int](t)(s.Prune(t.Context(), store.Retention{Blobs: time.Now().Add(time.Hour)})), map[string]int{"blobs": 2})
	s = open()
	missing := must[[]string](t)(s.MissingBlobs(t.Context(), all))
	equal(t, "gone", slices.Sorted(slices.Values(missing)), slices.Sorted(slices.Values([]string{digests["free"], digests["sent"]})))
	wantErr(t, second(s.FoundFile(t.Context(), "1")), store.ErrNotFound)
}

var errBroken = errors.New("broken off")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func wantedFiles(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	renewed(t, b, alive)
	w := store.WantedFile{ID: "1\n", Channel: "irc", Handle: strings.Repeat("\x00é", 1000), Sender: "irc:ann", Most: 7}
	check(t, a.WantFile(t.Context(), w))
	if !must[bool](t)(b.Signaled(t.Context())) {
		t.Error("the other host is not told")
	}
	equal(t, "of this host", len(must[[]store.WantedFile](t)(a.WantedFiles(t.Context()))), 0)
	equal(t, "of the other", must[[]store.WantedFile](t)(b.WantedFiles(t.Context())), []store.WantedFile{w})
	equal(t, "at first", must[store.FoundFile](t)(a.FoundFile(t.Context(), w.ID)), store.FoundFile{State: store.FileWanted})
	check(t, b.TakeFile(t.Context(), w.ID))
	wantErr(t, b.TakeFile(t.Context(), w.ID), store.ErrConflict)
	equal(t, "taken", must[store.FoundFile](t)(a.FoundFile(t.Context(), w.ID)), store.FoundFile{State: store.FileTaken})
	equal(t, "when it is taken", len(must[[]store.WantedFile](t)(b.WantedFiles(t.Context()))), 0)
	found := store.FoundFile{State: store.FileAnswered, Digest: "d", Name: "é.txt", Type: "text/plain", Size: 3, Problem: "none"}
	check(t, b.AnswerFile(t.Context(), w.ID, found))
	equal(t, "the answer", must[store.FoundFile](t)(a.FoundFile(t.Context(), w.ID)), found)
	check(t, a.ForgetFile(t.Context(), w.ID))
	check(t, b.AnswerFile(t.Context(), w.ID, found))
	wantErr(t, second(a.FoundFile(t.Context(), w.ID)), store.ErrNotFound)
}
