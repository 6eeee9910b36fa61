//go:build unix

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// playPlugin is the test binary as a plugin process.
func playPlugin(mode string) {
	if play, ok := rawModes[mode]; ok {
		play()
		return
	}
	if version, ok := strings.CutPrefix(mode, "commuter@"); ok {
		channel.Main(&commuter{version: version})
		return
	}
	channel.Main(&actor{mode: mode})
}

// actor is a channel built on the SDK that does one thing wrong, or none.
type actor struct {
	mode   string
	config channel.Config
}

func (a *actor) Describe() channel.Description {
	switch a.mode {
	case "hang-describe":
		select {}
	case "good-actor":
		return channel.Description{Name: "good-actor", Version: "1.0.0"}
	case "wrong-name":
		return channel.Description{Name: "somebody-else", Version: "1.0.0"}
	case "wrong-capabilities":
		return channel.Description{Name: "actor", Version: "1.0.0", Capabilities: channel.Capabilities{Exclusive: true}}
	}
	return channel.Description{Name: "actor", Version: "1.0.0"}
}

func (a *actor) Configure(_ context.Context, c channel.Config) error {
	a.config = c
	switch a.mode {
	case "hang-configure":
		select {}
	case "bad-config":
		return channel.FieldErrors{{Path: "server.port", Message: "want 1 to 65535; the token is " + c.Secrets["token"]}}
	case "config-unavailable":
		return errors.New("cannot reach the server")
	case "grandchild":
		sleeper := exec.Command("sleep", "1000")
		if err := sleeper.Start(); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "grandchild", sleeper.Process.Pid)
	case "spy":
		a.spy(c)
	case "environment":
		c.Log.Info("environment", "all", strings.Join(os.Environ(), " "))
	}
	return nil
}

func (a *actor) Run(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateReady, "")
	switch a.mode {
	case "crash-ready":
		panic("the actor fell off the stage")
	case "fail-run":
		return errors.New("no route to host")
	case "stop-self": // nothing answers any more, and nothing exits either
		_ = in.Deliver(ctx, numbered(1))
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "flood-stderr":
		go flood(os.Stderr) // ends with the process
	case "flood-stdout":
		go flood(os.Stdout) // ends with the process
	case "log-bomb":
		_, _ = syscall.Write(2, []byte("{\"@message\": 1, \"@level\": []}\n"))
		a.config.Log.Info("still here")
	case "log-secret":
		a.config.Log.Warn("signing in", "with", a.config.Secrets["token"])
	case "degraded":
		in.Status(channel.StateAuthRequired, "token expired")
	case "ignore-shutdown":
		select {}
	case "batch":
		return a.batch(ctx, in)
	case "leak":
		go leak() // ends with the process
	case "deserter":
		sleeper := exec.Command("sleep", "1000")
		sleeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := sleeper.Start(); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "deserter", sleeper.Process.Pid)
	case "strays": // neither of which ends with the lifeline; one leaves the group, too
		for _, leaves := range []bool{false, true} {
			stray := exec.Command("sleep", "1000")
			stray.SysProcAttr = &syscall.SysProcAttr{Setsid: leaves}
			if err := stray.Start(); err != nil {
				return err
			}
		}
	case "reader": // of one file, again and again
		name := a.config.Settings["file"].(string)
		for last := ""; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // a poll, not a synchronisation
			text, err := os.ReadFile(name)
			if now := fmt.Sprintf("file says %s %v", text, err); now != last {
				a.config.Log.Info(now)
				last = now
			}
		}
	case "leak-below": // in a process that it starts
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if err := exec.Command(self, "plugin:leaker").Start(); err != nil {
			return err
		}
	}
	return a.tick(ctx, in)
}

// tick delivers one event every few milliseconds.
func (a *actor) tick(ctx context.Context, in channel.Inbox) error {
	for i := 1; ctx.Err() == nil; i++ {
		if err := in.Deliver(ctx, numbered(i)); err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// batch delivers as fast as the host takes.
func (a *actor) batch(ctx context.Context, in channel.Inbox) error {
	for i := 1; ctx.Err() == nil; i++ {
		if err := in.DeliverAsync(ctx, numbered(i), func(error) {}); err != nil {
			return err
		}
	}
	return nil
}

func numbered(i int) channel.Event {
	return channel.Event{
		ID: fmt.Sprint("e", i), Text: "hello", Conversation: channel.Conversation{ID: "c", Kind: channel.DM},
		Sender: channel.Sender{ID: "u", Name: "Ann"},
	}
}

func (a *actor) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	switch a.mode {
	case "hang-send":
		select {}
	case "slow-send":
		time.Sleep(300 * time.Millisecond) // the platform's latency
	case "flood-wait":
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: 7 * time.Second}, errors.New("too many requests")
	}
	return channel.Sent{MessageIDs: []string{"p-" + s.Key}}, nil
}

func flood(w io.Writer) {
	line := []byte(strings.Repeat("x", 200) + "\n")
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// rawModes are plugins without the SDK.
var rawModes = map[string]func(){
	"crash-start": func() {
		fmt.Fprintln(os.Stderr, "cannot open shared library")
		os.Exit(3)
	},
	"silent":        func() { select {} },
	"leaker":        leak,
	"stdout-noise":  func() { fmt.Println("Hello from my plugin!"); select {} },
	"stdout-binary": func() { os.Stdout.Write([]byte(strings.Repeat("\xff\x00", 1<<16))); select {} },
	"foreign-address": func() {
		fmt.Println("1|1|tcp|192.0.2.1:22|grpc")
		select {}
	},
	"foreign-socket": func() {
		fmt.Println("1|1|unix|/run/docker.sock|grpc|")
		select {}
	},
	"surprise-certificate": func() {
		fmt.Println("1|1|unix|" + socketPath() + "|grpc|" + strings.Repeat("A", 400))
		select {}
	},
	"other-protocol":   func() { fmt.Println("1|99|unix|" + socketPath() + "|grpc|"); select {} },
	"garbage-socket":   garbageSocket,
	"no-listener":      func() { fmt.Println("1|1|unix|" + socketPath() + "|grpc|"); select {} },
	"invalid-utf8":     func() { serveRaw(&rawChannel{events: invalidUTF8}) },
	"oversized-event":  func() { serveRaw(&rawChannel{events: oversized}) },
	"skipped-seq":      func() { serveRaw(&rawChannel{events: skippedSeq}) },
	"over-window":      func() { serveRaw(&rawChannel{events: overWindow}) },
	"malformed-events": func() { serveRaw(&rawChannel{events: malformedThenGood}) },
	"hang-everywhere":  func() { serveRaw(&rawChannel{hangs: true}) },
	"not-serving":      func() { serveRaw(&rawChannel{sick: true}) },
	"toaster":          playToaster,
	"never-exits": func() {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		serveRaw(&rawChannel{immortal: true})
	},
}

func socketPath() string { return filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin1") }

func listen() net.Listener {
	lis, err := net.Listen("unix", socketPath())
	if err != nil {
		panic(err)
	}
	return lis
}

func garbageSocket() {
	lis := listen()
	fmt.Println("1|1|unix|" + socketPath() + "|grpc|")
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		go flood(conn)
	}
}

// rawChannel serves the contract by hand, without TLS.
type rawChannel struct {
	pluginv1.UnimplementedPluginServer
	channelv1.UnimplementedChannelServer
	events         func(grpc.ServerStream, uint32) error
	sick, immortal bool
	hangs          bool // in every call that a ready plugin gets
}

func serveRaw(c *rawChannel) {
	g := grpc.NewServer(grpc.MaxSendMsgSize(64<<20), grpc.UnaryInterceptor(c.unary), grpc.StreamInterceptor(c.stream))
	toolv1.RegisterToolsServer(g, toolv1.UnimplementedToolsServer{})
	pluginv1.RegisterPluginServer(g, c)
	channelv1.RegisterChannelServer(g, c)
	h := health.NewServer()
	status := grpc_health_v1.HealthCheckResponse_SERVING
	if c.sick {
		status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	h.SetServingStatus(handshake.Service, status)
	grpc_health_v1.RegisterHealthServer(g, h)
	lis := listen()
	fmt.Println("1|1|unix|" + socketPath() + "|grpc|")
	if !c.immortal {
		go func() { // the lifeline; ends with the process
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	_ = g.Serve(lis)
}

func (*rawChannel) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{
		Name: "actor", Version: "1.0.0", Protocols: []uint32{1}, Kinds: []pluginv1.Kind{pluginv1.Kind_KIND_CHANNEL, 77},
	}, nil
}

func (*rawChannel) Configure(context.Context, *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	return &pluginv1.ConfigureResponse{}, nil
}

func (c *rawChannel) Shutdown(ctx context.Context, _ *pluginv1.ShutdownRequest) (*pluginv1.ShutdownResponse, error) {
	if c.immortal || c.hangs {
		select {}
	}
	return &pluginv1.ShutdownResponse{}, nil
}

func (c *rawChannel) Receive(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
	open, err := stream.Recv()
	if err != nil {
		return err
	}
	if c.hangs {
		select {}
	}
	if c.events != nil {
		if err := c.events(stream, open.GetOpen().GetWindow()); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// invalidUTF8 sends a frame that our own encoder would refuse: valid bytes, spoilt afterwards, behind an unknown field of
// a message type without string checks.
func invalidUTF8(stream grpc.ServerStream, _ uint32) error {
	raw, err := proto.Marshal(rawEvent(1, func(e *channelv1.Event) { e.Text = "spoil me" }))
	if err != nil {
		return err
	}
	raw = []byte(strings.Replace(string(raw), "spoil me", "spoil \xff\xfe", 1))
	frame := &channelv1.ReceiveResponse{}
	frame.ProtoReflect().SetUnknown(raw)
	return stream.SendMsg(frame)
}

func oversized(stream grpc.ServerStream, _ uint32) error {
	return stream.SendMsg(rawEvent(1, func(e *channelv1.Event) { e.Text = strings.Repeat("x", 8<<20) }))
}

func skippedSeq(stream grpc.ServerStream, _ uint32) error {
	return errors.Join(stream.SendMsg(rawEvent(1, same)), stream.SendMsg(rawEvent(3, same)))
}

func overWindow(stream grpc.ServerStream, window uint32) error {
	for seq := range uint64(window) + 1 {
		if err := stream.SendMsg(rawEvent(seq+1, same)); err != nil {
			return err
		}
	}
	return nil
}

func malformedThenGood(stream grpc.ServerStream, _ uint32) error {
	for i, change := range []func(*channelv1.Event){
		func(e *channelv1.Event) { e.EventId = "" },
		func(e *channelv1.Event) { e.Conversation = nil },
		func(e *channelv1.Event) { e.Sender.Id = "u\nADMIN" },
		func(e *channelv1.Event) { e.Sender.IsSelf = true },
		func(e *channelv1.Event) { e.Kind = 99 },
		func(e *channelv1.Event) { e.Text, e.Sender.Name = strings.Repeat("é", 40<<10), "a\x00b" },
	} {
		if err := stream.SendMsg(rawEvent(uint64(i+1), change)); err != nil {
			return err
		}
	}
	return nil
}
