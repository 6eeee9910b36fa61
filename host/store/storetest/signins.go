package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/signins"
	"github.com/flynnhost/flynn/host/store"
)

func signInsAreKept(t *testing.T, open Opener) {
	s := open()
	code := func(digest, event string, after time.Duration) signins.Code {
		return signins.Code{Digest: digest, Sender: "irc:ann", Event: event, Asked: noon.Add(after), Expires: noon.Add(after + 10*time.Minute)}
	}
	use := func(digest, id string, after time.Duration) error {
		at := noon.Add(after)
		in, err := s.UseCode(t.Context(), digest, signins.SignIn{ID: id, Digest: "of " + id, Sender: "irc:mallory", Began: at, Used: at})
		if err == nil && in.Sender != "irc:ann" {
			t.Errorf("the code of irc:ann signs %q in", in.Sender)
		}
		return err
	}
	check(t, s.PutCode(t.Context(), code("first", "irc:1", 0)))
	check(t, s.PutCode(t.Context(), code("second", "irc:2", time.Minute)))
	check(t, s.PutCode(t.Context(), code("again", "irc:2", time.Minute))) // the same message, after a crash
	check(t, s.PutCode(t.Context(), signins.Code{Digest: "bob's", Sender: "irc:bob", Event: "irc:3", Asked: noon, Expires: noon.Add(time.Hour)}))
	s = open()
	for _, c := range []struct {
		name, digest string
		after        time.Duration
	}{
		{"a code that a later one replaced", "first", 2 * time.Minute}, {"no code", "third", 2 * time.Minute}, {"an empty one", "", 2 * time.Minute},
		{"an expired one", "second", 11 * time.Minute}, {"one from the future", "second", 0},
	} {
		if err := use(c.digest, "x", c.after); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var won sync.Map
	var both sync.WaitGroup
	for _, id := range []string{"i1", "i2"} {
		both.Go(func() {
			if err := use("again", id, 2*time.Minute); err == nil {
				won.Store(id, true)
			} else if !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	both.Wait()
	list := must[[]signins.SignIn](t)(s.ListSignIns(t.Context()))
	if len(list) != 1 {
		t.Fatalf("two uses of one code give %+v", list)
	}
	if _, ok := won.Load(list[0].ID); !ok || list[0].Digest != "of "+list[0].ID {
		t.Fatalf("kept is %+v", list[0])
	}
	if err := use("second", "i3", 2*time.Minute); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other code of the same message: %v", err)
	}
	used := noon.Add(time.Hour)
	check(t, s.TouchSignIn(t.Context(), list[0].ID, used))
	check(t, s.TouchSignIn(t.Context(), "nobody", used))
	check(t, s.DropCodes(t.Context(), "irc:bob"))
	if _, err := s.UseCode(t.Context(), "bob's", signins.SignIn{ID: "b", Digest: "b", Began: noon}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a dropped code: %v", err)
	}
	s = open()
	want := signins.SignIn{ID: list[0].ID, Digest: list[0].Digest, Sender: "irc:ann", Began: noon.Add(2 * time.Minute), Used: used}
	equal(t, "sign-ins", must[[]signins.SignIn](t)(s.ListSignIns(t.Context())), []signins.SignIn{want})
	check(t, s.DropSignIn(t.Context(), want.ID))
	check(t, s.DropSignIn(t.Context(), want.ID))
	equal(t, "sign-ins", must[[]signins.SignIn](t)(s.ListSignIns(t.Context())), []signins.SignIn(nil))
}
