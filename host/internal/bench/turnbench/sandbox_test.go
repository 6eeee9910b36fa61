package turnbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// inSandboxes is an agent whose tools run in containers, some of which wait for a session.
const inSandboxes = `
[sandbox]
enabled = true
image = %q
memory_limit = "128m"
warm_pool = %d
`

const (
	poolSize    = 4
	firstRounds = 40 // at most
)

func shell(id int) string { return fmt.Sprintf("!sh echo out of %d", id) }

// takeSandbox measures turns with one sandboxed tool: in sessions that have their container, and first ones, which take one from the pool.
func takeSandbox(b *testing.B, t *table) {
	sandboxtest.Engine(b)
	if err := os.Symlink(sandboxtest.Supervisor(b), filepath.Join(t.bin, "flynn-sandboxd")); err != nil && !errors.Is(err, fs.ErrExist) {
		b.Fatal(err)
	}
	f := newFloor(b, t.bin, hosttest.Config{
		More: fmt.Sprintf(inSandboxes, sandboxtest.Image, poolSize), Env: []string{"DOCKER_HOST=" + os.Getenv("DOCKER_HOST")},
	})
	f.expect = "out of"
	_, err := f.talk(5, 1, shell)
	f.must(b, err)
	warm, err := f.talk(max(1, *tableTurns/4), 1, shell)
	f.must(b, err)
	t.addTurns("turn, one sandboxed tool, warm", warm, 6*time.Millisecond)
	var first []time.Duration
	for round := range min(firstRounds, *tableTurns/10) {
		f.awaitPool(b)
		took, err := f.turn(sessions+round, shell)
		f.must(b, err)
		first = append(first, took)
	}
	slices.Sort(first)
	t.addTurns("turn, one sandboxed tool, first", first, 20*time.Millisecond)
}

// awaitPool waits until the pool is full again.
func (f *floor) awaitPool(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), answerTimeout)
	defer cancel()
	for want := fmt.Sprintf("flynn_sandbox_pool_ready %d", poolSize); ; {
		lines, err := f.metrics(ctx)
		f.must(b, err)
		if slices.Contains(lines, want) {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// metrics are what the host tells Prometheus.
func (f *floor) metrics(ctx context.Context) ([]string, error) {
	token, err := os.ReadFile(filepath.Join(f.program.Dir, "store", "gateway.token"))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.program.URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var all []string
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		all = append(all, lines.Text())
	}
	return all, lines.Err()
}
