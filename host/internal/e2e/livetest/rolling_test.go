package livetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// buildNewer builds flynn with one more migration of Postgres, and says that it is another version.
func buildNewer(t testing.TB, out string) {
	t.Helper()
	dir := t.TempDir()
	migration := filepath.Join(dir, "later.sql")
	text := "ALTER TABLE inbox ADD COLUMN later TEXT NOT NULL DEFAULT 'x'; ALTER TABLE turns ADD COLUMN later BIGINT NOT NULL DEFAULT 7; CREATE TABLE later (id BIGINT);"
	at, err := filepath.Abs(filepath.Join(root, fmt.Sprintf("host/store/postgres/migrations/%04d_later.sql", postgres.NewestSchema()+1)))
	if err == nil {
		err = os.WriteFile(migration, []byte(text), 0o600)
	}
	overlay, failed := json.Marshal(map[string]any{"Replace": map[string]string{at: migration}})
	if err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags="+hosttest.Tags, "-ldflags=-s -w -X github.com/flynnhost/flynn/host/buildinfo.version=v99.0.0", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out+"/", "./cmd/flynn")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a newer flynn: %v\n%s", err, text)
	}
}

// rollingLoad asks hosts all the time, from several sessions at once. A request that a host does not answer goes to the other one, with its key.
type rollingLoad struct {
	hosts   []*site
	over    chan struct{}
	running sync.WaitGroup
	workers [4]atomic.Int64 // how many each has had answered
	failed  atomic.Int64
}

func (l *rollingLoad) begin(t *testing.T) {
	for n := range l.workers {
		l.running.Go(func() {
			for i := int64(1); ; i++ {
				select {
				case <-l.over:
					return
				default:
				}
				if err := l.ask(n, i); err != nil {
					t.Logf("message %d of session %d: %v", i, n, err)
					l.failed.Add(1)
				}
				l.workers[n].Store(i)
			}
		})
	}
}

func (l *rollingLoad) ask(n int, i int64) (err error) {
	want := fmt.Sprintf("m%d of %d.", i, n)
	body, err := json.Marshal(map[string]any{"model": "helper", "messages": []map[string]string{{"role": "user", "content": want}}})
	if err != nil {
		return err
	}
	for at, deadline := n, time.Now().Add(patience); time.Now().Before(deadline); at++ {
		if err = l.askAt(l.hosts[at%len(l.hosts)], n, i, body, "You said: "+want); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func (l *rollingLoad) askAt(s *site, n int, i int64, body []byte, want string) error {
	req, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + rollingToken, "Content-Type": "application/json", "X-Flynn-Session": fmt.Sprint("w", n), "Idempotency-Key": fmt.Sprintf("w%d-%d", n, i),
	} {
		req.Header.Set(k, v)
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(text), want)) {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// more waits until every worker has had some more answers.
func (l *rollingLoad) more(t *testing.T) {
	t.Helper()
	var from [len(l.workers)]int64
	for n := range l.workers {
		from[n] = l.workers[n].Load()
	}
	l.hosts[0].eventually("every session goes on", func() error {
		for n := range l.workers {
			if l.workers[n].Load() < from[n]+5 {
				return fmt.Errorf("session %d has had %d answers since %d", n, l.workers[n].Load()-from[n], from[n])
			}
		}
		return nil
	})
}

var rollingToken = strings.Repeat("t", 40)

// Two hosts on one database are upgraded one after the other under load, to a version with another schema. An old host that dies meanwhile starts
// again beside the new one. No message fails, is lost, or is answered twice. The old program is the one at FLYNN_TEST_OLDER, such as that of the
// release before, or else the one of this tree.
func TestRollingUpgrade(t *testing.T) {
	server := postgrestest.Start(t)
	t.Setenv("FLYNN_ROLLING_STORE", server.URL(server.Database(t)))
	t.Setenv("FLYNN_ROLLING_TOKEN", rollingToken)
	newer, older := t.TempDir(), os.Getenv("FLYNN_TEST_OLDER")
	buildNewer(t, newer)
	var hosts []*site
	for _, name := range []string{"a", "b"} {
		s := newSite(t, `
[agent_configs.helper]
tool_profile = "minimal"
[routing]
default_agent = "helper"
[sandbox]
enabled = false
[store]
dir = "%DIR%/store"
url_env = "FLYNN_ROLLING_STORE"
[cluster]
host = "`+name+`"
[gateway]
listen = "127.0.0.1:%PORT%"
[access]
rate_per_minute = 100_000
conversation_rate_per_minute = 100_000
[clients.load]
agents = ["helper"]
token_env = "FLYNN_ROLLING_TOKEN"
`)
		s.program = cmp.Or(older, s.program)
		s.start()
		hosts = append(hosts, s)
	}
	a, b := hosts[0], hosts[1]
	l := &rollingLoad{hosts: hosts, over: make(chan struct{})}
	l.begin(t)
	end := sync.OnceFunc(func() { close(l.over); l.running.Wait() })
	defer end()
	l.more(t)

	b.stop()
	b.program = filepath.Join(newer, "flynn")
	b.start()
	l.more(t)
	if out, stderr, err := a.flynn("", "cluster", "status"); err != nil || !strings.Contains(out, "v99.0.0") {
		t.Errorf("the versions beside each other: %s%s (%v)", out, stderr, err)
	}
	a.kill()
	// The old program, on the schema of the new one. The first release that can share a database refuses it.
	if err := a.starts(); err != nil && (older == "" || !strings.Contains(err.Error(), "which knows versions up to 2: ")) {
		t.Fatal(err)
	}
	l.more(t)
	a.stop()
	a.program = b.program
	a.start()
	l.more(t)
	end()

	asked := 0
	for n := range l.workers {
		out, stderr, err := a.flynn("", "session", "show", fmt.Sprintf("openai:load/w%d:helper", n))
		if err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		for i := int64(1); i <= l.workers[n].Load(); i++ {
			if got := strings.Count(out, fmt.Sprintf("You said: m%d of %d.", i, n)); got != 1 {
				t.Errorf("message %d of session %d was answered %d times", i, n, got)
			}
			asked++
		}
	}
	t.Logf("%d messages, %d failed", asked, l.failed.Load())
	if l.failed.Load() > 0 {
		t.Errorf("%d of %d messages failed", l.failed.Load(), asked)
	}
}
