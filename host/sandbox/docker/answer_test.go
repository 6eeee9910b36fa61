package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// pretender is a driver of an engine that answers as the test says, and lives.
func pretender(t *testing.T, answer http.HandlerFunc) *Driver {
	t.Helper()
	return pretenderThat(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") }, answer)
}

func pretenderThat(t *testing.T, lives, answer http.HandlerFunc) *Driver {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			lives(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	d, err := New(Config{Engine: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// calls are those that need to be told something.
func calls(d *Driver) map[string]func(ctx context.Context) error {
	own := map[string]string{driver.LabelInstance: "mine"}
	return map[string]func(ctx context.Context) error{
		"Create": func(ctx context.Context) error {
			_, err := d.Create(ctx, driver.Container{Image: "x", Name: "n", Key: "k"})
			return err
		},
		"existing": func(ctx context.Context) error {
			_, err := d.existing(ctx, driver.Container{Name: "n", Key: "k"}, errors.New("it is there"))
			return err
		},
		"Attach":       func(ctx context.Context) error { _, err := d.Attach(ctx, "x", io.Discard); return err },
		"CreateWork":   func(ctx context.Context) error { _, err := d.CreateWork(ctx, image.Work{Image: "x"}); return err },
		"HasPath":      func(ctx context.Context) error { _, err := d.HasPath(ctx, "x", "/x"); return err },
		"CopyInto":     func(ctx context.Context) error { return d.CopyInto(ctx, "x", "/x", strings.NewReader("")) },
		"RunWork":      func(ctx context.Context) error { _, err := d.RunWork(ctx, "x", io.Discard); return err },
		"Commit":       func(ctx context.Context) error { _, err := d.Commit(ctx, "x", nil); return err },
		"InspectImage": func(ctx context.Context) error { _, err := d.InspectImage(ctx, "x"); return err },
		"Platform":     func(ctx context.Context) error { _, err := d.Platform(ctx); return err },
		"EnsureVolume": func(ctx context.Context) error { _, err := d.EnsureVolume(ctx, "x", own); return err },
		"Condition":    func(ctx context.Context) error { _, err := d.Condition(ctx, "x"); return err },
		"Build": func(ctx context.Context) error {
			_, err := d.Build(ctx, image.Build{Context: strings.NewReader("")}, nil)
			return err
		},
		"Run":        func(ctx context.Context) error { _, err := d.Run(ctx, "x", Run{}); return err },
		"removeStep": func(ctx context.Context) error { return d.removeStep(ctx, "x", []string{""}) },
	}
}

// Flynn survives any answer of a false engine, and takes none for more than it says.
func TestNonsenseIsNoAnswer(t *testing.T) {
	body, status := "", 0
	d := pretender(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	for name, call := range calls(d) {
		t.Run(name, func(t *testing.T) {
			status = http.StatusOK
			for _, body = range []string{"{}", "null", "[]", `"x"`, `{"Config":null,"State":null,"Id":1}`, `{"Volumes":[null]}`, `{"a":`, "", "<html>"} {
				if err := call(t.Context()); err == nil {
					t.Errorf("%q is an answer", body)
				}
			}
			for _, status = range []int{http.StatusMovedPermanently, http.StatusInternalServerError, http.StatusBadGateway} {
				if err := call(t.Context()); err == nil {
					t.Errorf("status %d is an answer", status)
				}
			}
		})
	}
	t.Run("lists", func(t *testing.T) {
		status = http.StatusOK
		others := `[null,{},{"Id":"x","RepoTags":["theirs:latest"],"Labels":{"flynn.image.instance":"another"}}]`
		body = others
		if found, err := d.ListImages(t.Context(), "mine"); err != nil || len(found) > 0 {
			t.Errorf("images that are nobody's, or others': %+v, %v", found, err)
		}
		body = `{"Volumes":[null]}`
		if found, err := d.ListVolumes(t.Context(), "mine"); err != nil || len(found) > 0 {
			t.Errorf("no volumes: %+v, %v", found, err)
		}
	})
}

// Answers that are read whole are bounded.
func TestEndlessAnswers(t *testing.T) {
	zeros := []byte(strings.Repeat("0", 1<<20))
	d := pretender(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, `{"stream":"`); err != nil {
			return
		}
		for { // the client hangs up
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	})
	d.api.HTTPClient().Transport.(*bounded).most = 4 << 20 // which takes less than the deadline of the call to read
	for name, call := range map[string]func() error{
		"List": func() error { _, err := d.List(t.Context(), "mine"); return err },
		"Build": func() error {
			_, err := d.Build(t.Context(), image.Build{Context: strings.NewReader("")}, nil)
			return err
		},
		"Pull": func() error { return d.Pull(t.Context(), "x", nil) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "is larger than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An engine that takes the request for a stream and says nothing holds up no caller that has left.
func TestStreamThatNeverBegins(t *testing.T) {
	over := make(chan struct{})
	d := pretender(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/exec") {
			fmt.Fprint(w, `{"Id":"x"}`)
			return
		}
		<-over
	})
	defer close(over)
	for _, name := range []string{"Attach", "RunWork", "Run"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		err := calls(d)[name](ctx)
		cancel()
		if took := time.Since(began); err == nil || took > attachTimeout/2 {
			t.Errorf("%s: %v after %v", name, err, took)
		} else if !errors.Is(err, machine.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A container that an engine lists although it has removed it is not listed.
func TestListWithoutWhatIsGone(t *testing.T) {
	d := pretender(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"Id":"gone","Names":null,"State":"removing"},{"Id":"going","Names":["/a"],"State":"removing"},{"Id":"there","Names":["/b"],"State":"running"}]`)
	})
	all, err := d.List(t.Context(), "mine")
	if err != nil || len(all) != 2 || all[0].ID != "going" || all[1].ID != "there" {
		t.Errorf("listed %+v (%v)", all, err)
	}
}

// Hosts that share an engine know it by the id that it tells.
func TestSharedEngines(t *testing.T) {
	d := pretender(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			_, _ = io.WriteString(w, `{"ID":"7d0a"}`)
			return
		}
		_, _ = io.WriteString(w, `{"Components":[{"Name":"Engine"}]}`)
	})
	own, err := d.Capabilities(t.Context())
	shared, failed := NewListening(d).Capabilities(t.Context())
	if err != nil || failed != nil || own.Shared != "" || shared.Shared != "7d0a" {
		t.Errorf("shared %q, otherwise %q (%v, %v)", shared.Shared, own.Shared, err, failed)
	}
}
