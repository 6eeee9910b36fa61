//go:build unix

package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// toaster is a kind of plugin that Flynn does not know. All that it takes is in this file: what a kind says of itself, the table of plugin.toml,
// a field of Describe, a service, and its user.
type toaster struct{}

func (toaster) Name() kind.Name       { return "toaster" }
func (toaster) Section() string       { return "toasters" }
func (toaster) Wire() pluginv1.Kind   { return 99 }
func (toaster) Relays() bool          { return false }
func (toaster) Options() kind.Options { return &toasterOptions{} }

// toasterOptions are the table [toaster].
type toasterOptions struct {
	Slots uint64 `toml:"slots"`
}

func (o *toasterOptions) Alone() bool  { return true }
func (o *toasterOptions) Shared() bool { return false }

func (o *toasterOptions) Check(report func(string, ...any)) {
	if o.Slots > 4 {
		report("toaster.slots %d: there is no such toaster", o.Slots)
	}
}

// slotsField is the field of DescribeResponse that a protocol with toasters would have.
const slotsField = 100

func (o *toasterOptions) Differences(d *pluginv1.DescribeResponse) []string {
	raw, slots := d.ProtoReflect().GetUnknown(), uint64(0)
	if number, _, n := protowire.ConsumeTag(raw); number == slotsField {
		slots, _ = protowire.ConsumeVarint(raw[n:])
	}
	if slots == o.Slots {
		return nil
	}
	return []string{fmt.Sprintf("toaster.slots is %d in plugin.toml, but the process says %d", o.Slots, slots)}
}

// toast is the one method of the service.
const toast = "/test.toaster.v1.Toaster/Toast"

// toasterProcess is a process with two slots.
type toasterProcess struct{ rawChannel }

func (*toasterProcess) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	d := &pluginv1.DescribeResponse{Name: "actor", Version: "1.0.0", Protocols: []uint32{1}, Kinds: []pluginv1.Kind{99}}
	d.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, slotsField, protowire.VarintType), 2))
	return d, nil
}

func playToaster() {
	g := grpc.NewServer()
	pluginv1.RegisterPluginServer(g, &toasterProcess{})
	h := health.NewServer()
	h.SetServingStatus(handshake.Service, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, h)
	g.RegisterService(&grpc.ServiceDesc{ServiceName: "test.toaster.v1.Toaster", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Toast", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var bread wrapperspb.StringValue
			err := decode(&bread)
			return wrapperspb.String("toasted " + bread.GetValue()), err
		},
	}}}, struct{}{})
	lis := listen()
	fmt.Println("1|1|unix|" + socketPath() + "|grpc|")
	go func() { // the lifeline; ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_ = g.Serve(lis)
}

// toasted is the user of toasters.
type toasted struct{ got chan string }

func (u toasted) Serve(ctx context.Context, c *kind.Conn) error {
	var out wrapperspb.StringValue
	if err := c.Invoke(ctx, toast, wrapperspb.String("rye"), &out); err != nil {
		return err
	}
	u.got <- fmt.Sprintf("%s: %s in %d slots, %v", c.Instance, out.GetValue(), c.Options.(*toasterOptions).Slots, c.Settings["level"])
	<-ctx.Done()
	return nil
}

// makeToaster makes a folder with a plugin of the kind.
func makeToaster(t *testing.T, table string) string {
	t.Helper()
	dir := makePack(t, "toaster", packOptions{tls: "none", more: table})
	file := filepath.Join(dir, ManifestName)
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(text, []byte(`["channel"]`), []byte(`["toaster"]`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAKindMoreNeedsNoChange: a host that is given another kind checks, starts, supervises and uses plugins of it.
func TestAKindMoreNeedsNoChange(t *testing.T) {
	needProcesses(t)
	run, err := os.MkdirTemp("", "fr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	h, err := New(Config{
		Dir: t.TempDir(), RunDir: run, DevPaths: map[string]string{"actor": makeToaster(t, "toaster = { slots = 2 }")},
		Kinds: append(AllKinds(), toaster{}), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- h.Run(ctx) }()
	defer func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	user := toasted{make(chan string, 1)}
	if err := h.Add(Instance{Name: "kitchen", Plugin: "actor", Kind: "toaster", Settings: map[string]any{"level": 3}}, user); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-user.got:
		if want := "kitchen: toasted rye in 2 slots, 3"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("no toast: %+v", h.Status())
	}
	if s := h.Status(); len(s) != 1 || s[0].Kind != "toaster" || s[0].State != Ready {
		t.Errorf("status %+v", s)
	}
	if err := h.Add(Instance{Name: "x", Plugin: "actor", Kind: "kettle"}, user); err == nil || !strings.Contains(err.Error(), "must be channel, tools, sandbox or toaster") {
		t.Errorf("a kind that is not known: %v", err)
	}
}

func TestTheTableOfAKindMore(t *testing.T) {
	kinds := append(AllKinds(), toaster{})
	for table, says := range map[string]string{
		"toaster = { slots = 2 }":             "",
		"toaster = { slots = 5 }":             "plugin.toml: toaster.slots 5: there is no such toaster",
		"toaster = { slot = 2 }":              "plugin.toml: unknown key toaster.slot",
		"toaster = { slots = \"two\" }":       "toaster.slots",
		"kettle = { litres = 1 }":             "unknown key kettle",
		"channel = { buttons = true, x = 1 }": "unknown key channel.x",
	} {
		text, err := os.ReadFile(filepath.Join(makeToaster(t, table), ManifestName))
		if err != nil {
			t.Fatal(err)
		}
		m, err := kinds.parse(text)
		switch {
		case says == "" && (err != nil || m.Options["toaster"].(*toasterOptions).Slots != 2 || !m.alone()):
			t.Errorf("%s: %+v, %v", table, m, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %q", table, err, says)
		}
		if _, err := ParseManifest(text); err == nil || !strings.Contains(err.Error(), `kind "toaster": must be channel, tools or sandbox`) {
			t.Errorf("without the kind: %v", err)
		}
	}
	three := toasterOptions{Slots: 3}
	d, _ := (&toasterProcess{}).Describe(t.Context(), nil)
	if got := (Kinds{toaster{}}).differences(Manifest{Kinds: []kind.Name{"toaster"}, Options: map[kind.Name]kind.Options{"toaster": &three}}, d); len(got) != 1 {
		t.Errorf("differences %q", got)
	}
}
