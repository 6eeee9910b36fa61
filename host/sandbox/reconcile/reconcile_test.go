package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/liveness"
	"github.com/flynnhost/flynn/host/sandbox/proxyca"
	"github.com/flynnhost/flynn/host/sandbox/reconcile"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// listing is a driver that only lists and removes.
type listing struct {
	driver.Driver
	mu      sync.Mutex
	owned   []driver.Owned
	removed []string
	refuses error // to remove
}

func (d *listing) List(context.Context, string) ([]driver.Owned, error) { return d.owned, nil }

func (d *listing) Remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses == nil {
		d.removed = append(d.removed, id)
	}
	return d.refuses
}

// Capabilities implements driver.Driver.
func (d *listing) Capabilities(context.Context) (driver.Capabilities, error) {
	return driver.Capabilities{Shared: "here"}, nil
}

// Endpoint implements driver.Dialed.
func (d *listing) Endpoint(context.Context, string) (driver.Endpoint, error) {
	return driver.Endpoint{}, errAway
}

// TestWhatIsALeftover has an engine full of containers, of which only those go that nobody holds.
func TestWhatIsALeftover(t *testing.T) {
	run := t.TempDir()
	member := func() *liveness.Member {
		m, err := liveness.Join(run)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Leave)
		return m
	}
	here, beside := member(), member()
	keys := container.NewKeys(nil)
	defer keys.Hold("held")()
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	d := &listing{}
	for id, labels := range map[string]map[string]string{
		"left":         {driver.LabelInstance: "i", driver.LabelHost: "gone", driver.LabelPlace: here.Place()},
		"held":         {driver.LabelInstance: "i", driver.LabelHost: here.ID(), driver.LabelPlace: here.Place(), driver.LabelKey: "held"},
		"beside":       {driver.LabelInstance: "i", driver.LabelHost: beside.ID(), driver.LabelPlace: here.Place()},
		"taken over":   {driver.LabelInstance: "i", driver.LabelHost: "gone", driver.LabelPlace: here.Place(), driver.LabelKey: "theirs"},
		"others":       {driver.LabelInstance: "j", driver.LabelHost: "gone", driver.LabelPlace: here.Place()},
		"unlabelled":   {},
		"a copy's":     {driver.LabelInstance: "i", driver.LabelHost: "gone", driver.LabelPlace: "elsewhere"},
		"a copy's old": {driver.LabelInstance: "i", driver.LabelHost: "gone", driver.LabelPlace: "elsewhere", driver.LabelExpires: yesterday},
	} {
		d.owned = append(d.owned, driver.Owned{ID: id, Labels: labels})
	}
	r := reconcile.New(reconcile.Config{
		Installation: launch.Installation{
			Driver: d, Instance: "i", Run: run, Registry: away{}, WorkspaceRoot: t.TempDir(), MaxAge: time.Hour, Host: here, Keys: keys, Log: slog.New(slog.DiscardHandler),
			Workspaces: workspace.New(workspace.Config{Path: t.TempDir(), Instance: "i", Host: here, Holds: workspace.NewHolds()}),
		},
		ProxyCAs: proxyca.New(run),
	})
	if err := r.Reconcile(t.Context()); !errors.Is(err, errAway) || len(d.removed) > 0 {
		t.Errorf("without the registry %q were removed (%v)", d.removed, err)
	}
	listed, err := r.Prune(t.Context(), map[string]bool{"theirs": true})
	if err != nil || len(listed) != 2 {
		t.Errorf("listed %v (%v)", listed, err)
	}
	slices.Sort(d.removed)
	if want := []string{"a copy's old", "left"}; !slices.Equal(d.removed, want) {
		t.Errorf("removed %q, want %q", d.removed, want)
	}
}

var errAway = errors.New("it is away")

// away is a registry that does not answer.
type away struct{ container.Registry }

func (away) List(context.Context, message.WorkspaceKey) ([]container.Registered, error) {
	return nil, errAway
}

// recorded is a registry with one record. It counts how often the record is taken and dropped.
type recorded struct {
	container.Registry
	record         container.Record
	taken, dropped int
}

func (r *recorded) List(context.Context, message.WorkspaceKey) ([]container.Registered, error) {
	return []container.Registered{{Record: r.record, Free: true}}, nil
}
func (r *recorded) Take(context.Context, container.Record) error { r.taken++; return nil }
func (r *recorded) Drop(context.Context, string, uint64) error   { r.dropped++; return nil }

// strays are sessions and a launcher that only count.
type strays struct {
	reconcile.Sessions
	reconcile.Launcher
	tried int
}

func (s *strays) TakeOver(context.Context, container.Record) error   { s.tried++; return nil }
func (s *strays) CheckMounts(context.Context, spec.Spec) error       { return nil }
func (s *strays) Adopt(container.Record, *container.Container) bool  { return false }
func (s *strays) Forget(context.Context, message.WorkspaceKey) error { return nil }

// A container that cannot be taken over is removed only if it is the record's, and the record is kept while the engine may come back.
func TestTakeoversThatFail(t *testing.T) {
	sp := spec.Spec{Image: "i"}.WithDefaults()
	good := container.Record{
		Key: spec.NewKey(), Container: "c", Instance: "i", Engine: "here", Spec: sp, Hash: sp.Hash(""), Epoch: 1, Lease: time.Minute, Identity: []byte("x"),
	}
	for _, c := range []struct {
		name                  string
		change                func(r *container.Record, d *listing)
		tried, taken, dropped int
		removed               bool
	}{
		{"its supervisor does not answer", func(*container.Record, *listing) {}, 1, 1, 1, true},
		{"nor does the engine", func(_ *container.Record, d *listing) { d.refuses = errAway }, 1, 1, 0, false},
		{"on another engine", func(r *container.Record, _ *listing) { r.Engine = "there" }, 0, 0, 1, false},
		{"by a host of an earlier release", func(r *container.Record, _ *listing) { r.Engine = "" }, 1, 1, 1, true},
		{"it names another's container", func(r *container.Record, _ *listing) { r.Container = "theirs" }, 1, 1, 1, false},
		{"it names a container of another key", func(r *container.Record, _ *listing) { r.Key = spec.NewKey() }, 1, 1, 1, false},
		{"it names another instance", func(r *container.Record, _ *listing) { r.Instance = "j" }, 1, 1, 1, false},
		{"it has another specification", func(r *container.Record, _ *listing) { r.Spec.Image = "j" }, 1, 1, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := t.TempDir()
			here, err := liveness.Join(run)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(here.Leave)
			d := &listing{owned: []driver.Owned{
				{ID: "c", Labels: map[string]string{driver.LabelInstance: "i", driver.LabelKey: good.Key}},
				{ID: "theirs", Labels: map[string]string{driver.LabelInstance: "k", driver.LabelKey: good.Key}},
			}}
			registry, sessions := &recorded{record: good}, &strays{}
			c.change(&registry.record, d)
			r := reconcile.New(reconcile.Config{
				Installation: launch.Installation{
					Driver: d, Instance: "other", Run: run, Registry: registry, WorkspaceRoot: t.TempDir(), MaxAge: time.Hour, Host: here,
					Keys: container.NewKeys(registry), Log: slog.New(slog.DiscardHandler),
					Workspaces: workspace.New(workspace.Config{Path: t.TempDir(), Instance: "i", Host: here, Holds: workspace.NewHolds()}),
				},
				ProxyCAs: proxyca.New(run), Launcher: sessions, Sessions: sessions,
			})
			if err := r.Reconcile(t.Context()); err != nil {
				t.Error(err)
			}
			if sessions.tried != c.tried || len(d.removed) > 0 {
				t.Errorf("%d attempts, removed %q", sessions.tried, d.removed)
			}
			if got, err := r.TakeOver(t.Context(), registry.record); err == nil || got != nil {
				t.Errorf("got %v (%v)", got, err)
			}
			if registry.taken != c.taken || registry.dropped != c.dropped || slices.Equal(d.removed, []string{"c"}) != c.removed || len(d.removed) > 1 {
				t.Errorf("taken %d, dropped %d, removed %q", registry.taken, registry.dropped, d.removed)
			}
		})
	}
}
