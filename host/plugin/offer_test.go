package plugin

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/hostapi"
)

// noMedia is a store that nothing is put into.
type noMedia struct{}

func (noMedia) Put(context.Context, media.Head, io.Reader) (media.Info, error) {
	return media.Info{}, media.ErrFull
}

func (noMedia) Open(context.Context, string) (io.ReadCloser, media.Info, error) {
	return nil, media.Info{}, media.ErrNotFound
}

func TestServicesAreOfferedForAsLongAsTheProcessLives(t *testing.T) {
	db, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	services, err := service.New(service.Config{Values: db, Media: noMedia{}})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{config: Config{Services: services, RunDir: shortDir(t)}}
	end, err := h.offerServices()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	process := func(permissions ...string) *running {
		return &running{host: h, instance: Instance{Name: "one"}, manifest: Manifest{Permissions: Permissions{Host: permissions}}}
	}
	for _, c := range []struct {
		name string
		r    *running
		want bool
	}{
		{"it asks for nothing", process(), false},
		{"it asks for values", process("kv"), true},
		{"a host that offers nothing", &running{host: &Host{}, manifest: Manifest{Permissions: Permissions{Host: []string{"kv"}}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoint, token := c.r.admit()
			if (endpoint != "") != c.want || (token != "") != c.want {
				t.Fatalf("%q %q", endpoint, token)
			}
			guest, err := hostapi.Dial(endpoint, token)
			if err != nil {
				t.Fatal(err)
			}
			defer guest.Close()
			if err := guest.Set(t.Context(), "k", []byte("v")); (err == nil) != c.want {
				t.Errorf("set: %v", err)
			}
			c.r.grant.end()
			if err := guest.Set(t.Context(), "k", []byte("v")); err == nil {
				t.Error("the token outlives the process")
			}
		})
	}
	t.Run("a process that ended before it was configured", func(t *testing.T) {
		r := process("kv")
		r.grant.end()
		if endpoint, token := r.admit(); endpoint != "" || token != "" {
			t.Errorf("%q %q", endpoint, token)
		}
	})
}

// shortDir is a folder with a name that is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
