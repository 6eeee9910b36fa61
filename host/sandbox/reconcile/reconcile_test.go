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
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// listing is a driver that only lists and removes.
type listing struct {
	driver.Driver
	mu      sync.Mutex
	owned   []driver.Owned
	removed []string
}

func (d *listing) List(context.Context, string) ([]driver.Owned, error) { return d.owned, nil }

func (d *listing) Remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed = append(d.removed, id)
	return nil
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
