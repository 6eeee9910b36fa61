package docker

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// TestRemoveMeetsTheEnd removes containers that end at that moment, as engines have been seen to answer then. Not all of them remove
// themselves: a service stays until it is removed.
func TestRemoveMeetsTheEnd(t *testing.T) {
	const gone, done = http.StatusNotFound, http.StatusNoContent
	for _, c := range []struct {
		name    string
		status  int // of the first answer
		message string
		then    int    // the status of the second, if there is one
		wait    string // the answer to a wait for the engine's own removal
	}{
		{"Docker, which does not remove it", 500, "Could not kill running container x, cannot remove - Container x is not running", done, ""},
		{"Docker, which removes it", 500, "Cannot kill container: x: tried to kill container, but did not receive an exit event", gone, ""},
		{"Docker removes it already", 409, "removal of container x is already in progress", 0, `{"StatusCode":0}`},
		{"Docker removes it already, in vain", 409, "removal of container x is already in progress", done, `{"StatusCode":1,"Error":{"Message":"device or resource busy"}}`},
		{"Podman", 500, "cannot remove container x as it could not be stopped: sending SIGKILL to container x: container state improper: stopped", done, ""},
		{"Podman, whose other process was faster", 500, "freeing lock for container x: no such file or directory", gone, ""},
		{"Podman, in between", 500, "container has already been removed", gone, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			d := pretender(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/wait"):
					_, _ = w.Write([]byte(c.wait))
				case asked.Add(1) == 1:
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(`{"message":"` + c.message + `"}`))
				default:
					w.WriteHeader(c.then)
				}
			})
			if err := d.Remove(t.Context(), "x"); err != nil {
				t.Error(err)
			}
			if n := asked.Load(); c.then != 0 && n != 2 {
				t.Errorf("the engine was asked %d times", n)
			}
		})
	}
}

func TestRemoveIsRefused(t *testing.T) {
	d := pretender(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"message":"device or resource busy"}`))
	})
	if err := d.Remove(t.Context(), "x"); !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "device or resource busy") {
		t.Errorf("got %v", err)
	}
}
