package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/store/sqlstore"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/need"
)

func event(id string) message.Message {
	return message.Message{Channel: "irc", EventID: id, Text: "hello", Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "#c" + id[:1]}}
}

// TestAServerThatStopsLosesNothing stops the server in the midst of writes, again and again. Every acknowledged write is there, and the
// store resumes by itself.
func TestAServerThatStopsLosesNothing(t *testing.T) {
	server := postgrestest.Start(t)
	losesNothing(t, server, server.Stop)
}

// TestAServerThatIsKilledLosesNothing is the same with kill -9, in a PID namespace of its own.
func TestAServerThatIsKilledLosesNothing(t *testing.T) {
	const inside = "FLYNN_TEST_KILLS_POSTGRES"
	if os.Getenv(inside) != "" {
		server := postgrestest.Start(t)
		losesNothing(t, server, server.Kill)
		return
	}
	postgrestest.Shared(t) // or there is nothing to kill
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "true").CombinedOutput(); err != nil {
		need.Part(t, "unshare", fmt.Errorf("%w: %s", err, out))
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", os.Args[0], "-test.run=^TestAServerThatIsKilledLosesNothing$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(string(out))
}

// losesNothing stops a server again and again while there are writers.
func losesNothing(t *testing.T, server *postgrestest.Server, end func()) {
	t.Helper()
	s, err := Open(t.Context(), Address{server.URL(server.Database(t)), "DB"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var acked sync.Map
	var last atomic.Int64 // the time of the latest acknowledgement
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d-%d", w, n)
				if _, _, err := s.AppendInbox(context.Background(), event(id), mailbox.InboxNew, ""); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				acked.Store(id, true)
				last.Store(time.Now().UnixNano())
			}
		})
	}
	for range 5 {
		for begun := time.Now(); last.Load() < begun.UnixNano(); {
			time.Sleep(time.Millisecond) // until writes are under way
		}
		end()
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
		up := time.Now()
		for last.Load() < up.UnixNano() {
			if time.Sleep(time.Millisecond); time.Since(up) > 20*time.Second {
				t.Fatal("no write succeeds")
			}
		}
		t.Logf("resumed %v after the server was up", time.Since(up).Round(time.Millisecond))
		if _, err := s.PendingInbox(t.Context()); err != nil {
			t.Errorf("read: %v", err)
		}
	}
	stop()
	writers.Wait()
	rows, err := s.PendingInbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, r := range rows {
		there[r.Message.EventID] = true
	}
	acked.Range(func(id, _ any) bool {
		if !there[id.(string)] {
			t.Errorf("%s was acknowledged and is not there", id)
		}
		return true
	})
}

// cutter passes bytes between clients and a server, and cuts a connection once when it sees some.
type cutter struct {
	dir      string
	server   string
	request  atomic.Pointer[string] // cut before a request with the text is passed on
	response atomic.Pointer[string] // cut before a response with it is
	cuts     atomic.Int64
}

func newCutter(t *testing.T, server *postgrestest.Server) *cutter {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cut")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{dir: dir, server: server.Socket()}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
		os.RemoveAll(dir)
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", c.server)
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { c.pass(client, server, &c.request) })
			all.Go(func() { c.pass(server, client, &c.response) })
		}
	})
	return c
}

func (c *cutter) pass(from, to net.Conn, cut *atomic.Pointer[string]) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if text := cut.Load(); text != nil && bytes.Contains(buf[:n], []byte(*text)) && cut.CompareAndSwap(text, nil) {
			c.cuts.Add(1)
			return
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

func (c *cutter) url(database, more string) string {
	return "postgres://flynn@/" + database + "?" + url.Values{"host": {c.dir}}.Encode() + more
}

// TestACommitWithoutAnAnswerHappensOnce cuts the connection before COMMIT arrives, and before its answer does.
func TestACommitWithoutAnAnswerHappensOnce(t *testing.T) {
	server := postgrestest.Shared(t)
	begin, end := "COMMIT\x00", "COMMIT\x00" // a statement in a request, a tag in a response
	for _, c := range []struct {
		name, mode        string
		request, response *string
	}{
		{"the answer is lost", "", nil, &end},
		{"the answer is lost, pooled", "&default_query_exec_mode=exec", nil, &end},
		{"the request is lost", "&default_query_exec_mode=exec", &begin, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			proxy := newCutter(t, server)
			s, err := Open(t.Context(), Address{proxy.url(server.Database(t), c.mode), "DB"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for n := range 5 {
				proxy.request.Store(c.request)
				proxy.response.Store(c.response)
				subject := fmt.Sprint(n)
				// Not through a caller that would find the row of the first try: this one adds a row each time.
				if err := s.AddAudit(t.Context(), []consent.AuditRow{{At: time.Now(), Kind: "k", Subject: subject}}); err != nil {
					t.Fatal(err)
				}
				rows, err := s.ListAudit(t.Context(), consent.AuditFilter{Subject: subject})
				if err != nil || len(rows) != 1 {
					t.Errorf("the row is there %d times, %v", len(rows), err)
				}
			}
			if proxy.cuts.Load() < 5 {
				t.Errorf("only %d connections were cut", proxy.cuts.Load())
			}
		})
	}
}

// TestAnUnknownCommitSaysSo: the server never comes back, so that nobody knows.
func TestAnUnknownCommitSaysSo(t *testing.T) {
	server := postgrestest.Start(t)
	proxy := newCutter(t, server)
	s, err := Open(t.Context(), Address{proxy.url(server.Database(t), ""), "DB"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.db.patience = 100 * time.Millisecond
	end := "COMMIT\x00"
	proxy.response.Store(&end)
	if err := os.Remove(filepath.Join(proxy.dir, ".s.PGSQL.5432")); err != nil {
		t.Fatal(err)
	}
	err = s.AddAudit(t.Context(), []consent.AuditRow{{At: time.Now(), Kind: "k"}})
	if err == nil || !strings.Contains(err.Error(), "it is not known whether the write was committed") {
		t.Errorf("error is %v", err)
	}
	if err := s.AddAudit(t.Context(), []consent.AuditRow{{At: time.Now(), Kind: "k"}}); !errors.Is(err, store.ErrPassing) {
		t.Errorf("the next write: %v, want %v", err, store.ErrPassing)
	}
}

// TestAFailedWriteFailsAlone puts writes that fail into groups with others.
func TestAFailedWriteFailsAlone(t *testing.T) {
	server := postgrestest.Shared(t)
	s, err := Open(t.Context(), Address{server.URL(server.Database(t)), "DB"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all sync.WaitGroup
	for n := range 60 {
		all.Go(func() {
			turn := fmt.Sprint(n)
			err := s.Write(t.Context(), func(w sqlstore.Session) error {
				err := w.Exec("INSERT INTO extractions (turn) VALUES (?)", turn)
				switch {
				case n%6 == 1: // its failure is noticed later
					return errors.Join(err, w.Exec("INSERT INTO extractions (turn) VALUES (?)", turn))
				case n%6 == 2:
					panic("a bug")
				case n%6 == 3:
					return errors.Join(err, io.ErrUnexpectedEOF, errors.New("half way"))
				}
				return err
			})
			if fails := n%6 >= 1 && n%6 <= 3; fails != (err != nil) && n%6 != 3 {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	all.Wait()
	var there []int
	for n := range 60 {
		var found int
		if err := s.read.QueryRow(t.Context(), "SELECT count(*) FROM extractions WHERE turn = $1", fmt.Sprint(n)).Scan(&found); err != nil {
			t.Fatal(err)
		}
		if found > 0 {
			there = append(there, n%6)
		}
	}
	if slices.Contains(there, 1) || slices.Contains(there, 2) || slices.Contains(there, 3) || len(there) != 30 {
		t.Errorf("there are %v", there)
	}
}

// TestChangesAreInTheOrderOfCommits follows the journal while two hosts write: nothing comes later with a number below one that was seen.
func TestChangesAreInTheOrderOfCommits(t *testing.T) {
	server := postgrestest.Shared(t)
	at := Address{server.URL(server.Database(t)), "DB"}
	var hosts []*Store
	for _, host := range []string{store.DefaultHost, "other"} {
		s, err := open(t.Context(), at, &session{host: host})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		hosts = append(hosts, s)
	}
	var writers sync.WaitGroup
	for h, s := range hosts {
		for w := range 3 {
			writers.Go(func() {
				for n := range 40 {
					m := event(fmt.Sprintf("%d%d-%d", h, w, n))
					m.Conversation.ID = m.EventID
					if _, _, err := s.AppendInbox(context.Background(), m, mailbox.InboxNew, ""); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { // ends with the writers
		writers.Wait()
		close(done)
	}()
	_, kept, err := hosts[0].Changes(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for after, last := kept.UpTo, false; ; {
		select {
		case <-done:
			last = true
		default:
		}
		list, _, err := hosts[0].Changes(t.Context(), after, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			seen[c.ID], after = true, c.Seq
		}
		if last {
			break
		}
	}
	if len(seen) != 240 {
		t.Errorf("%d changes were seen, want 240", len(seen))
	}
}
