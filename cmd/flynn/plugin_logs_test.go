package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
)

// TestFollowingALog follows the log of a host of which only that is there. It says how many lines came too fast, and goes on when the
// numbers begin anew.
func TestFollowingALog(t *testing.T) {
	batches := [][2]uint64{{0, 0}, {5, 7}, {0, 0}, {8, 8}, {1011, 1012}, {1, 2}, {4, 4}}
	asked := []string{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	path := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/plugins/line/logs" || len(asked) == len(batches) {
			stop()
			http.NotFound(w, r)
			return
		}
		lines := []gateway.PluginLine{}
		for n := batches[len(asked)][0]; n > 0 && n <= batches[len(asked)][1]; n++ {
			lines = append(lines, gateway.PluginLine{Seq: n, Level: "INFO", Text: fmt.Sprintf("\x1b[2Jnumber %d", n)})
		}
		asked = append(asked, r.URL.Query().Get("after"))
		_ = json.NewEncoder(w).Encode(lines)
	})
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"flynn", "--config", path, "plugin", "logs", "-f", "line"}, os.Getenv, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	var got []string
	for line := range strings.Lines(stdout.String()) {
		_, number, _ := strings.Cut(strings.TrimSpace(line), "number ")
		got = append(got, number)
	}
	if want := "5 6 7 8 1011 1012 1 2 4"; strings.Join(got, " ") != want {
		t.Errorf("lines %q, want %s", got, want)
	}
	if want := "0 0 7 7 8 1012 2"; strings.Join(asked, " ") != want {
		t.Errorf("asked after %q, want %s", asked, want)
	}
	var gone []string
	for line := range strings.Lines(stderr.String()) {
		gone = append(gone, strings.TrimSpace(line))
	}
	if len(gone) != 2 || !strings.Contains(gone[0], "1002 lines came too fast") || !strings.Contains(gone[1], "1 lines came too fast") {
		t.Errorf("it says %q", gone)
	}
	if strings.Contains(stdout.String(), "\x1b") {
		t.Error("a line of a plugin moves the terminal")
	}
}
