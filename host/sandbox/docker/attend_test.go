package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// long are the calls that an engine may be busy with for minutes.
func long(d *Driver) map[string]func(context.Context) error {
	out := map[string]func(context.Context) error{
		"Pull": func(ctx context.Context) error { return d.Pull(ctx, "x", nil) },
		"Build": func(ctx context.Context) error {
			_, err := d.Build(ctx, image.Build{Context: strings.NewReader("")}, nil)
			return err
		},
	}
	for _, name := range []string{"RunWork", "CopyInto", "Commit"} {
		out[name] = calls(d)[name]
	}
	return out
}

// An engine that hangs in the middle of what takes long holds up nobody for as long as that may take; one that is only slow has all the time.
func TestEngineHangsInTheMiddle(t *testing.T) {
	var hung atomic.Bool
	over := make(chan struct{})
	d := pretenderThat(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if hung.Load() {
			<-r.Context().Done()
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/containers/x/json"):
			_, _ = io.WriteString(w, `{"Id":"x","Image":"i","State":{"Status":"created"},"Config":{}}`)
		case strings.HasSuffix(path, "/images/i/json"):
			_, _ = io.WriteString(w, `{"Id":"i","Config":{}}`)
		case strings.HasSuffix(path, "/start"):
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(path, "/attach"):
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
			<-over
		case strings.HasSuffix(path, "/archive"): // answered once all is there
			<-over
		default: // it has begun, and says no more
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-over
		}
	})
	defer close(over)
	patient, brisk := *d, *d
	patient.attention = attention{every: 10 * time.Millisecond, patience: 5 * time.Minute}
	brisk.attention = attention{every: 10 * time.Millisecond, patience: 500 * time.Millisecond}
	for name, call := range long(&patient) {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			hung.Store(false)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- call(ctx) }()
			select {
			case err := <-ended:
				t.Errorf("ended while the engine lived: %v", err)
			case <-time.After(time.Second):
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("left by its caller: %v", err)
			}
			hung.Store(true)
			began := time.Now()
			err := long(&brisk)[name](t.Context())
			if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "has stopped answering") || !strings.Contains(err.Error(), d.address) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}
