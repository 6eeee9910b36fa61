package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/need"
)

// client is ii, a small IRC client that shows each conversation as a folder with a file "in" to write to and a file "out" to
// read.
type client struct {
	t   *testing.T
	dir string
}

func (s *server) client(nick string) *client {
	s.t.Helper()
	path, err := exec.LookPath("ii")
	need.Part(s.t, "irc", err)
	host, port, _ := strings.Cut(s.addr, ":")
	c := &client{t: s.t, dir: s.t.TempDir()}
	cmd := exec.Command(path, "-i", c.dir, "-s", host, "-p", port, "-n", nick, "-f", nick)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	c.dir = filepath.Join(c.dir, host)
	c.await("out", "Welcome")
	return c
}

// write says a line in a conversation; "" is the server's own.
func (c *client) write(conversation, line string) {
	c.t.Helper()
	f, err := os.OpenFile(filepath.Join(c.dir, conversation, "in"), os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		c.t.Fatal(err)
	}
}

// await polls a file of the client until it has text.
func (c *client) await(file, text string) {
	c.t.Helper()
	var got []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		got, _ = os.ReadFile(filepath.Join(c.dir, file))
		if strings.Contains(string(got), text) {
			return
		}
	}
	c.t.Fatalf("%q did not come; %s has:\n%s", text, file, got)
}

func TestWithAClientThatPeopleUse(t *testing.T) {
	s := newServer(t)
	h := s.flynn(nil)
	s.person("watcher", "#flynn").settle("#flynn")
	ann := s.client("ann")
	ann.write("", "/j #flynn")
	ann.await("#flynn/out", "ann")
	ann.write("#flynn", "flynn: how are you?")
	e := h.Event()
	if e.Text != "how are you?" || e.Sender.Name != "ann" || !e.Addressed {
		t.Fatalf("event is %+v", e)
	}
	if sent, err := send(h, "k1", e.Conversation, "fine,\nthank you"); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	ann.await("#flynn/out", "<flynn> fine,")
	ann.await("#flynn/out", "<flynn> thank you")
	ann.write("", "/j flynn and in private?")
	if e = h.Event(); e.Conversation.Kind != channel.DM || e.Text != "and in private?" {
		t.Fatalf("event is %+v", e)
	}
	send(h, "k2", e.Conversation, "certainly")
	ann.await("flynn/out", "<flynn> certainly")
}
