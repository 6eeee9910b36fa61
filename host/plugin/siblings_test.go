//go:build unix

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// The tests of this file go on where TestMisbehaviour ends: plugins that become ready and are a burden then. In each of them a second
// plugin keeps delivering, and is never restarted.

// burden is a host with a good plugin at work.
type burden struct {
	*stage
	good *listener
}

func newBurden(t *testing.T, mode string, o packOptions) *burden {
	return besides(t, map[string]string{"actor": makePack(t, mode, o)})
}

// besides is newBurden with the other development plugins.
func besides(t *testing.T, dev map[string]string) *burden {
	dev["good-actor"] = makeGood(t)
	s := start(t, dev)
	b := &burden{s, &listener{}}
	s.add(Instance{Name: "good", Plugin: "good-actor"}, b.good)
	s.await("good", Ready)
	return b
}

// unharmed fails when the good plugin does not deliver any more, or was restarted.
func (b *burden) unharmed() {
	b.t.Helper()
	b.good.more(b.t, 20)
	if st := b.status("good"); st.Restarts > 0 {
		b.t.Errorf("the good plugin was restarted: %+v", st)
	}
}

// guard lets a plugin that hangs answer nothing but what takes it to the state of being ready.
func (c *rawChannel) guard(method string) {
	if c.hangs && (strings.HasPrefix(method, "/"+channelv1.Channel_ServiceDesc.ServiceName+"/") ||
		strings.HasPrefix(method, "/"+toolv1.Tools_ServiceDesc.ServiceName+"/") || method == pluginv1.Plugin_Status_FullMethodName) {
		select {}
	}
}

func (c *rawChannel) unary(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c.guard(info.FullMethod)
	return next(ctx, r)
}

func (c *rawChannel) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	c.guard(info.FullMethod)
	return next(srv, stream)
}

func TestAPluginMayHangInAnyCall(t *testing.T) {
	for name, call := range map[string]func(context.Context, client) error{
		"Send": func(ctx context.Context, c client) error {
			r, err := c.Send(ctx, message.Reply{Key: "k"})
			if r.Outcome != message.Unknown {
				t.Errorf("the outcome of a send that hangs is %v", r.Outcome)
			}
			return err
		},
		"Edit": func(ctx context.Context, c client) error {
			_, err := c.Edit(ctx, message.Revision{MessageID: "1", Number: 1})
			return err
		},
		"SetTyping": func(ctx context.Context, c client) error {
			return c.Typing(ctx, message.Conversation{ID: "c"}, true, time.Second)
		},
		"Reconcile": func(ctx context.Context, c client) error {
			_, err := c.Reconcile(ctx, message.Reply{Key: "k"})
			return err
		},
		"Fetch": func(ctx context.Context, c client) error {
			_, err := c.Fetch(ctx, "h", 100)
			return err
		},
		"Delete": func(ctx context.Context, c client) error {
			_, err := channelv1.NewChannelClient(c).Delete(ctx, &channelv1.DeleteRequest{})
			return err
		},
		"React": func(ctx context.Context, c client) error {
			_, err := channelv1.NewChannelClient(c).React(ctx, &channelv1.ReactRequest{})
			return err
		},
		"Resolve": func(ctx context.Context, c client) error {
			_, err := channelv1.NewChannelClient(c).Resolve(ctx, &channelv1.ResolveRequest{})
			return err
		},
		"Upload": func(ctx context.Context, c client) error {
			s, err := channelv1.NewChannelClient(c).Upload(ctx)
			if err == nil {
				_, err = s.CloseAndRecv()
			}
			return err
		},
		"List": func(ctx context.Context, c client) error {
			_, err := c.tools.List(ctx)
			return err
		},
		"Call": func(ctx context.Context, c client) error {
			_, err := c.tools.Call(ctx, toolkind.Call{Tool: "t"}, func([]byte) {})
			return err
		},
		// These two are to last: their end is asked for.
		"Receive": func(ctx context.Context, c client) error {
			if err := c.Receive(ctx, 8, func(channelkind.Event, func(error)) {}); err != nil {
				return err
			}
			return ctx.Err()
		},
		"Watch": func(ctx context.Context, c client) error {
			if err := c.tools.Watch(ctx, func() {}); err != nil {
				return err
			}
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBurden(t, "hang-everywhere", packOptions{tls: "none", stop: "300ms"})
			ended := make(chan error, 1)
			b.add(Instance{Name: "bad", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
				limit := 200 * time.Millisecond
				if name == "Send" {
					limit = 5 * time.Second // it has to be under way by then, or it would surely not be sent
				}
				within, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				ended <- call(within, c)
				<-ctx.Done()
				return nil
			}))
			select {
			case err := <-ended:
				if err == nil {
					t.Error("a call that hangs returned no error")
				}
			case <-time.After(patience):
				t.Fatal("the call hangs")
			}
			b.unharmed()
			began := time.Now()
			if err := b.Remove("bad"); err != nil { // Shutdown hangs as well
				t.Error(err)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("the end took %v", took)
			}
			b.unharmed()
		})
	}
}

func TestABurdenIsNobodyElses(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		pack       packOptions
		state      State  // in which it ends up; empty when it goes on
		says       string // in LastError
	}{
		{name: "crashes in a loop", mode: "crash-ready", state: Quarantined, says: "panic: the actor fell off the stage"},
		{name: "crashes at each start", mode: "crash-start", state: Quarantined, says: "cannot open shared library"},
		{name: "leaks memory", mode: "leak", state: Backoff, says: "it used"},
		{name: "floods the stream", mode: "batch"},
		{name: "floods standard error", mode: "flood-stderr"},
		{name: "floods standard output", mode: "flood-stdout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBurden(t, c.mode, c.pack)
			bad := &listener{}
			if c.mode == "leak" {
				limitMemory(t, b.config.DevPaths["actor"], "32MiB")
			}
			if c.state == Quarantined {
				b.random = func() float64 { return 0 } // no pause between the failures
				b.timeouts.exitLag = patience          // the process surely ends
			}
			b.add(Instance{Name: "bad", Plugin: "actor"}, bad)
			if c.state == "" {
				bad.more(t, 100)
				b.unharmed()
				return
			}
			b.await("bad", c.state)
			if st := b.status("bad"); !strings.Contains(st.LastError, c.says) {
				t.Errorf("the host says %q, want %q in it", st.LastError, c.says)
			}
			b.unharmed()
			if c.state != Quarantined {
				return
			}
			if err := b.Restart("bad"); err != nil { // a quarantine can be seen, and be ended
				t.Fatal(err)
			}
			b.await("bad", Starting)
			b.await("bad", Quarantined)
			b.unharmed()
		})
	}
}

// limitMemory writes a limit into the manifest in dir.
func limitMemory(t *testing.T, dir, limit string) {
	t.Helper()
	file := filepath.Join(dir, ManifestName)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "run = {", `run = { memory = "`+limit+`",`, 1))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// leak takes memory and keeps it.
func leak() {
	var kept [][]byte
	for range time.Tick(time.Millisecond) {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = byte(i)
		}
		kept = append(kept, block)
	}
	_ = kept
}

func TestAPluginThatDoesNotEnd(t *testing.T) {
	for mode, pack := range map[string]packOptions{
		"ignore-shutdown": {stop: "300ms"},
		"never-exits":     {stop: "300ms", tls: "none"}, // neither with its standard input nor by a signal that it can ignore
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBurden(t, mode, pack)
			b.add(Instance{Name: "bad", Plugin: "actor"}, &listener{})
			pid := b.await("bad", Ready).PID
			b.unharmed()
			if err := b.Remove("bad"); err != nil {
				t.Error(err)
			}
			if alive(pid) {
				t.Error("the process is still there")
			}
			b.unharmed()
		})
	}
}

func TestReplacedOnDiskWhileItRuns(t *testing.T) {
	t.Parallel()
	b := besides(t, map[string]string{})
	installed, err := b.store.Install(makePack(t, "good", packOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	bad := &listener{}
	b.add(Instance{Name: "bad", Plugin: "actor"}, bad)
	b.await("bad", Ready)
	binary := filepath.Join(b.store.versions.Path(installed.dir()), "bin", "actor")
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o500); err != nil {
		t.Fatal(err)
	}
	bad.more(t, 5) // the process is still what was verified
	if err := b.Restart("bad"); err != nil {
		t.Fatal(err)
	}
	if st := b.await("bad", Quarantined); !strings.Contains(st.LastError, "is not the file that was installed") {
		t.Errorf("the host says %q", st.LastError)
	}
	b.unharmed()
}

func TestACriticalPluginThatIsDown(t *testing.T) {
	t.Parallel()
	b := newBurden(t, "crash-start", packOptions{more: "critical = true"})
	b.add(Instance{Name: "bad", Plugin: "actor"}, &listener{})
	if !b.status("bad").Critical {
		t.Error("critical = true in plugin.toml is not seen")
	}
	if err := b.CriticalDown(); err == nil || !strings.Contains(err.Error(), "critical plugin instance bad is") {
		t.Errorf("critical instances that are down: %v", err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.WaitCritical(waiting); err == nil {
		t.Error("a critical instance that cannot start counts as ready")
	}
	b.unharmed()
	if err := b.Remove("bad"); err != nil {
		t.Fatal(err)
	}
	if err := b.CriticalDown(); err != nil {
		t.Errorf("without it: %v", err)
	}
}
