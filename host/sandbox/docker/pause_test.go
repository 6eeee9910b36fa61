package docker

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An engine may refuse what it is asked for, and yet say that it has not been done: it hears late of what it did before.
func TestPauseOfAnEngineThatHearsLate(t *testing.T) {
	const late = 3
	asked := 0
	d := pretender(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/json"):
			fmt.Fprint(w, `{"Id":"x","State":{"Running":true,"Paused":true},"Config":{},"HostConfig":{}}`)
		case asked < late:
			asked++
			http.Error(w, `{"message":"Container x is not paused"}`, http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	if err := d.Unpause(t.Context(), "x"); err != nil || asked != late {
		t.Errorf("asked %d times, %v", asked, err)
	}
	if err := d.Pause(t.Context(), "x"); err != nil {
		t.Errorf("a container that is paused: %v", err)
	}
	asked = -1000
	if err := d.Unpause(t.Context(), "x"); err == nil || asked != pauseTries-1000 {
		t.Errorf("asked %d times, %v", asked+1000, err)
	}
}
