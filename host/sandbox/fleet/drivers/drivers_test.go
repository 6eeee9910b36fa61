package drivers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
)

// scripted answers as a test says.
type scripted struct {
	sandboxv1.UnimplementedDriverServer

	mu       sync.Mutex
	has      *sandboxv1.CapabilitiesResponse
	id       string
	endpoint *sandboxv1.EndpointResponse
	listed   []*sandboxv1.Container
	fails    error
	hangs    bool
	until    map[string]time.Time // deadlines of the calls
	created  []*sandboxv1.CreateRequest
	looks    func(*sandboxv1.CreateRequest)
	pulls    []string // the progress of a pull
}

func (s *scripted) call(ctx context.Context, name string) error {
	s.mu.Lock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[name], _ = ctx.Deadline()
	fails, hangs := s.fails, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return fails
}

func (s *scripted) Capabilities(ctx context.Context, _ *sandboxv1.CapabilitiesRequest) (*sandboxv1.CapabilitiesResponse, error) {
	return s.has, s.call(ctx, "capabilities")
}

func (s *scripted) Create(ctx context.Context, r *sandboxv1.CreateRequest) (*sandboxv1.CreateResponse, error) {
	s.mu.Lock()
	s.created = append(s.created, r)
	s.mu.Unlock()
	if s.looks != nil {
		s.looks(r)
	}
	return &sandboxv1.CreateResponse{Id: s.id}, s.call(ctx, "create")
}

func (s *scripted) Pull(r *sandboxv1.PullRequest, stream grpc.ServerStreamingServer[sandboxv1.PullResponse]) error {
	for _, line := range s.pulls {
		if err := stream.Send(&sandboxv1.PullResponse{Progress: line}); err != nil {
			return err
		}
	}
	return s.call(stream.Context(), "pull "+r.GetImage())
}

func (s *scripted) Start(ctx context.Context, _ *sandboxv1.StartRequest) (*sandboxv1.StartResponse, error) {
	return &sandboxv1.StartResponse{}, s.call(ctx, "start")
}

func (s *scripted) Endpoint(ctx context.Context, _ *sandboxv1.EndpointRequest) (*sandboxv1.EndpointResponse, error) {
	return s.endpoint, s.call(ctx, "endpoint")
}

func (s *scripted) Remove(ctx context.Context, _ *sandboxv1.RemoveRequest) (*sandboxv1.RemoveResponse, error) {
	return &sandboxv1.RemoveResponse{}, s.call(ctx, "remove")
}

func (s *scripted) List(ctx context.Context, _ *sandboxv1.ListRequest) (*sandboxv1.ListResponse, error) {
	return &sandboxv1.ListResponse{Containers: s.listed}, s.call(ctx, "list")
}

// good is a plugin whose engine has everything.
func good() *scripted {
	return &scripted{
		id: "box", endpoint: &sandboxv1.EndpointResponse{Network: "unix", Address: "/run/s"},
		has: &sandboxv1.CapabilitiesResponse{Engine: "Test 1", Networks: []string{"none", "bridge", "of-later"}, Binds: true, Runtimes: []string{"runsc"}},
	}
}

// serve has the driver use a process of the plugin until the returned function is called.
func serve(t *testing.T, d *Driver, s *scripted, release string) (end func()) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	sandboxv1.RegisterDriverServer(server, s)
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(lis) })
	conn, err := grpc.NewClient("passthrough:plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &kind.Conn{ClientConnInterface: conn, Instance: d.name, Release: release, Log: slog.New(slog.DiscardHandler), Gone: ctx, Draining: ctx}
	work.Go(func() {
		if err := d.Serve(ctx, c); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cancel()
		conn.Close()
		server.Stop()
		work.Wait()
	})
	t.Cleanup(end)
	return end
}

func newDriver(t *testing.T, dir string) *Driver {
	t.Helper()
	d := New(dir).Get("pods")
	d.config = config.Driver{Plugin: "test"}
	return d
}

// box is a container as package launch describes it.
func box() driver.Container {
	return driver.Container{
		Key: "k", Name: "n", Image: "i", Entrypoint: []string{"/p"}, Network: "none", MemoryBytes: 1 << 20, CPUs: 1, PidsLimit: 8, Identity: []byte("secret"),
		Labels: map[string]string{driver.LabelInstance: "one"}, Mounts: []driver.Mount{{Source: "/a", Target: "/b", ReadOnly: true, Alone: true}},
	}
}

func TestHostileAnswers(t *testing.T) {
	owned := func(id, instance string) *sandboxv1.Container {
		return &sandboxv1.Container{Id: id, Labels: map[string]string{driver.LabelInstance: instance}}
	}
	create := func(d *Driver) error { _, err := d.Untested().Create(t.Context(), box()); return err }
	list := func(d *Driver) error { _, err := d.List(t.Context(), "one"); return err }
	ping := func(d *Driver) error { return d.Ping(t.Context()) }
	endpoint := func(d *Driver) error { _, err := d.Endpoint(t.Context(), "box"); return err }
	for _, c := range []struct {
		name  string
		spoil func(s *scripted)
		call  func(d *Driver) error
		says  string // "": accepted
	}{
		{"good create", func(*scripted) {}, create, ""},
		{"good list", func(s *scripted) { s.listed = []*sandboxv1.Container{owned("a", "one")} }, list, ""},
		{"good endpoint", func(*scripted) {}, endpoint, ""},
		{"no id", func(s *scripted) { s.id = "" }, create, "not a container's id"},
		{"an id that is a flag", func(s *scripted) { s.id = "--all" }, create, "not a container's id"},
		{"an id that is a path", func(s *scripted) { s.id = "../x" }, create, "not a container's id"},
		{"a long id", func(s *scripted) { s.id = strings.Repeat("x", 129) }, create, "not a container's id"},
		{"an id with lines", func(s *scripted) { s.id = "a\nb" }, create, "not a container's id"},
		{"a listed id that is a flag", func(s *scripted) { s.listed = []*sandboxv1.Container{owned("-f", "one")} }, list, "not a container's id"},
		{"a long label", func(s *scripted) { s.listed = []*sandboxv1.Container{owned("a", strings.Repeat("x", 1025))} }, list, "malformed label"},
		{"a label with lines", func(s *scripted) {
			s.listed = []*sandboxv1.Container{{Id: "a", Labels: map[string]string{"a\nb": ""}}}
		}, list, "malformed label"},
		{"too many", func(s *scripted) { s.listed = make([]*sandboxv1.Container, 4097) }, list, "4097 containers"},
		{"too many runtimes", func(s *scripted) { s.has.Runtimes = make([]string, 65) }, ping, "too long"},
		{"a runtime that is a flag", func(s *scripted) { s.has.Runtimes = []string{"-x"} }, ping, "runtime's name"},
		{"the metadata service", func(s *scripted) {
			s.endpoint = &sandboxv1.EndpointResponse{Network: "tcp", Address: "169.254.169.254:80"}
		}, endpoint, "neither private nor public"},
		{"a public address", func(s *scripted) {
			s.endpoint = &sandboxv1.EndpointResponse{Network: "tcp", Address: "93.184.216.34:80"}
		}, endpoint, "public = true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, s := newDriver(t, t.TempDir()), good()
			c.spoil(s)
			serve(t, d, s, "r1")
			err := c.call(d)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestOtherInstances: a driver that lists what belongs to others does not have it removed.
func TestOtherInstances(t *testing.T) {
	d, s := newDriver(t, t.TempDir()), good()
	s.listed = []*sandboxv1.Container{
		{Id: "mine", Labels: map[string]string{driver.LabelInstance: "one"}, State: "of-later"}, {Id: "theirs", Labels: map[string]string{driver.LabelInstance: "two"}}, {Id: "none"},
	}
	serve(t, d, s, "r1")
	owned, err := d.List(t.Context(), "one")
	if err != nil || len(owned) != 1 || owned[0].ID != "mine" || owned[0].State != "" {
		t.Errorf("%+v, %v", owned, err)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		fails error
		want  error
	}{
		{status.Error(codes.NotFound, "no such image"), driver.ErrNoImage},
		{status.Error(codes.FailedPrecondition, "cannot hold"), machine.ErrUnavailable},
		{status.Error(codes.Unavailable, "engine is down"), machine.ErrUnavailable},
		{errors.New("boom\x00" + strings.Repeat("x", 5000)), machine.ErrUnavailable},
	} {
		d, s := newDriver(t, t.TempDir()), good()
		serve(t, d, s, "r1")
		if err := d.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.fails = c.fails
		s.mu.Unlock()
		_, err := d.Untested().Create(t.Context(), box())
		if !errors.Is(err, c.want) || len(err.Error()) > 2000 || strings.ContainsRune(err.Error(), 0) {
			t.Errorf("%v becomes %v", c.fails, err)
		}
	}
}

// TestEveryCallHasADeadline: whatever the caller wants, a driver that hangs does not hang the host.
func TestEveryCallHasADeadline(t *testing.T) {
	d, s := newDriver(t, t.TempDir()), good()
	serve(t, d, s, "r1")
	ctx, most := context.WithoutCancel(t.Context()), time.Now().Add(3*time.Minute)
	_, err := d.Untested().Create(ctx, box())
	_, lerr := d.List(ctx, "one")
	_, eerr := d.Endpoint(ctx, "box")
	if err := errors.Join(err, lerr, eerr, d.Start(ctx, "box"), d.Remove(ctx, "box")); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"capabilities", "create", "start", "endpoint", "remove", "list"} {
		if until := s.until[call]; until.IsZero() || until.After(most) {
			t.Errorf("the deadline of %s is %v", call, until)
		}
	}
	s.mu.Lock()
	s.hangs = true
	s.mu.Unlock()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Ping(short); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("a driver that hangs: %v", err)
	}
}

// TestPull: the plugin's progress reaches the host, whatever the plugin says, and a plugin that fetches nothing is told apart.
func TestPull(t *testing.T) {
	d, s := newDriver(t, t.TempDir()), good()
	serve(t, d, s, "r1")
	var said []string
	progress := func(line string) { said = append(said, line) }
	s.pulls = []string{"", "layer 1\x00" + strings.Repeat("x", 900), "a flood", "of lines"}
	if err := d.Pull(t.Context(), "an image", progress); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "layer 1") || len(said[0]) > 300 || strings.ContainsRune(said[0], 0) {
		t.Errorf("progress %q", said)
	}
	if until := s.until["pull an image"]; until.IsZero() || until.After(time.Now().Add(time.Hour)) {
		t.Errorf("its deadline is %v", until)
	}
	s.mu.Lock()
	s.fails = status.Error(codes.Unimplemented, "this driver fetches no images")
	s.mu.Unlock()
	if err := d.Pull(t.Context(), "an image", progress); !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "fetches no images") {
		t.Errorf("a plugin that fetches none: %v", err)
	}
	s.mu.Lock()
	s.fails, s.hangs = nil, true
	s.mu.Unlock()
	given, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := func(line string) { // of a flood it is told, too
		if line == "of lines" {
			cancel()
		}
	}
	if err := d.Pull(given, "an image", last); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("a plugin that hangs: %v", err)
	}
}

// TestTheProcessGoes: without a process everything is refused with the next step, and works again with the next process.
func TestTheProcessGoes(t *testing.T) {
	d := newDriver(t, t.TempDir())
	end := serve(t, d, good(), "r1")
	if err := d.Start(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	end()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, created := d.Untested().Create(t.Context(), box())
	_, listed := d.List(t.Context(), "one")
	for _, err := range []error{d.Ping(short), d.Start(t.Context(), "box"), d.Remove(t.Context(), "box"), created, listed} {
		if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "flynn plugin logs pods") {
			t.Errorf("%v", err)
		}
	}
	serve(t, d, good(), "r1")
	if err := d.Start(t.Context(), "box"); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeMade(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(c *driver.Container)
		says  string // "": made
	}{
		{"nothing special", func(*driver.Container) {}, ""},
		{"bridge", func(c *driver.Container) { c.Network = "bridge" }, ""},
		{"host", func(c *driver.Container) { c.Network = "host" }, `no network "host"`},
		{"what the contract does not know", func(c *driver.Container) { c.Network = "of-later" }, `no network "of-later"`},
		{"a runtime", func(c *driver.Container) { c.Runtime = "runsc" }, ""},
		{"another runtime", func(c *driver.Container) { c.Runtime = "kata" }, "no runtime"},
		{"a limit", func(c *driver.Container) { c.BestEffort = false }, "cannot hold pids_limit"},
		{"a volume", func(c *driver.Container) { c.Mounts[0].Kind = driver.Volume }, "no volumes"},
		{"a service", func(c *driver.Container) { c.Role = driver.Service }, "no services"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, s := newDriver(t, t.TempDir()), good()
			s.has.Lacks = []*sandboxv1.Lack{{Limit: sandboxv1.Limit_LIMIT_PIDS, Why: "no group"}, {Limit: 99}}
			serve(t, d, s, "r1")
			wanted := box()
			wanted.BestEffort = true
			c.spoil(&wanted)
			_, err := d.Untested().Create(t.Context(), wanted)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || len(s.created) > 0) {
				t.Errorf("%v, want %q; the plugin was asked for %d", err, c.says, len(s.created))
			}
		})
	}
}

// TestGate: a driver is not used before a self-test has passed with this release, settings, engine, lacks and reliance.
func TestGate(t *testing.T) {
	dir := t.TempDir()
	create := func(d *Driver, c driver.Container) error { _, err := d.Create(t.Context(), c); return err }
	d, s := newDriver(t, dir), good()
	end := serve(t, d, s, "r1")
	if err := create(d, box()); !errors.Is(err, ErrUntested) || !errors.Is(err, machine.ErrUnavailable) || len(s.created) > 0 {
		t.Fatalf("a driver that was never tested: %v", err)
	}
	none := RelianceOn(spec.Spec{})
	failed := []Row{{"network/tcp", "1.1.1.1 answers", `network = "none" in [sandbox]`}}
	if err := d.Record(t.Context(), none, failed); err != nil {
		t.Fatal(err)
	}
	if err := create(d, box()); !errors.Is(err, ErrNotHeld) || !strings.Contains(err.Error(), "network/tcp (1.1.1.1 answers;") || !strings.Contains(err.Error(), "flynn sandbox selftest") {
		t.Fatalf("a driver that does not hold: %v", err)
	}
	if err := d.Record(t.Context(), none, nil); err != nil {
		t.Fatal(err)
	}
	if err := create(d, box()); err != nil {
		t.Fatalf("a driver that holds: %v", err)
	}
	unfiltered := box()
	unfiltered.Unfiltered = true
	if err := create(d, unfiltered); !errors.Is(err, ErrUntested) {
		t.Errorf("without the filter: %v", err)
	}
	bridged := box()
	bridged.Network = "bridge"
	if err := create(d, bridged); !errors.Is(err, ErrUntested) {
		t.Errorf("another network: %v", err)
	}
	end()
	for name, change := range map[string]func(d *Driver, s *scripted) (release string){
		"another release": func(*Driver, *scripted) string { return "r2" },
		"another engine":  func(_ *Driver, s *scripted) string { s.has.Engine = "Test 2"; return "r1" },
		"another lack": func(_ *Driver, s *scripted) string {
			s.has.Lacks = []*sandboxv1.Lack{{Limit: sandboxv1.Limit_LIMIT_LEFT_MEMORY}}
			return "r1"
		},
		"another feature": func(_ *Driver, s *scripted) string {
			s.has.Features = []sandboxv1.Feature{sandboxv1.Feature_FEATURE_SNAPSHOTS}
			return "r1"
		},
	} {
		d, s := newDriver(t, dir), good()
		serve(t, d, s, change(d, s))
		if err := create(d, box()); !errors.Is(err, ErrUntested) {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := newDriver(t, dir)
	serve(t, again, good(), "r1")
	if err := create(again, box()); err != nil {
		t.Errorf("the same after a restart: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, proofsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := create(again, box()); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a file that is no list: %v", err)
	}
}

func TestProofsAreBounded(t *testing.T) {
	p := &Proofs{path: filepath.Join(t.TempDir(), proofsFile)}
	began := time.Now()
	for i := range maxProofs + 5 {
		if err := p.add(Proof{Key: fmt.Sprint(i), Tested: began.Add(time.Duration(i) * time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	oldest, err := p.find("4")
	newest, err2 := p.find(fmt.Sprint(maxProofs + 4))
	if oldest != nil || newest == nil || err != nil || err2 != nil {
		t.Errorf("oldest %v, newest %v: %v, %v", oldest, newest, err, err2)
	}
}

// TestCopiesAreWhereThePluginReads: the plugin's process does not see the host's own files, and gets what it shall copy in a folder that it reads.
func TestCopiesAreWhereThePluginReads(t *testing.T) {
	d, s := newDriver(t, t.TempDir()), good()
	instance, _, err := (&Set{all: map[string]*Driver{"pods": d}}).Instance("pods", config.Driver{Plugin: "test", Read: []string{"/x"}})
	if err != nil || !slices.Equal(instance.Grant.Read, []string{"/x", d.staged}) {
		t.Fatalf("it reads %q (%v)", instance.Grant.Read, err)
	}
	s.has.Binds, s.has.Copies = false, true
	var seen []string
	s.looks = func(r *sandboxv1.CreateRequest) {
		for _, m := range r.GetMounts() {
			if !strings.HasPrefix(m.GetSource(), d.staged+"/") {
				t.Errorf("the source is %s", m.GetSource())
			}
			_ = filepath.WalkDir(m.GetSource(), func(path string, e os.DirEntry, err error) error {
				link, _ := os.Readlink(path)
				text, _ := os.ReadFile(path)
				seen = append(seen, strings.TrimPrefix(path, m.GetSource())+":"+string(text)+link)
				return err
			})
		}
	}
	serve(t, d, s, "r1")
	from := t.TempDir()
	err = errors.Join(os.WriteFile(filepath.Join(from, "program"), []byte("run"), 0o555), os.Mkdir(filepath.Join(from, "d"), 0o700), os.Symlink("/nowhere", filepath.Join(from, "d", "l")))
	old := filepath.Join(d.staged, "box-old")
	err = errors.Join(err, os.Mkdir(old, 0o700), os.Chtimes(old, time.Time{}, time.Now().Add(-2*stale)))
	if err != nil {
		t.Fatal(err)
	}
	wanted := box()
	wanted.Mounts = []driver.Mount{{Kind: driver.Copy, Source: filepath.Join(from, "program"), Target: "/p"}, {Kind: driver.Copy, Source: filepath.Join(from, "d"), Target: "/d"}}
	if _, err := d.Untested().Create(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	if want := []string{":run", ":", "/l:/nowhere"}; !slices.Equal(seen, want) {
		t.Errorf("the plugin saw %q, want %q", seen, want)
	}
	if left, err := os.ReadDir(d.staged); err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
	wanted.Mounts[0].Source += "-gone"
	if _, err := d.Untested().Create(t.Context(), wanted); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("a source that is gone: %v", err)
	}
}
