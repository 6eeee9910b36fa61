package sandbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// tidyDriver is an engine's lists alone, of all instances: its filter is not to be trusted.
type tidyDriver struct {
	driver.Driver

	mu   sync.Mutex
	has  map[string][]driver.Owned // by kind
	hang bool                      // whether removals wait for ever
	err  error                     // of List
	asks int
}

func (d *tidyDriver) list(kind string) ([]driver.Owned, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks++
	return slices.Clone(d.has[kind]), d.err
}

func (d *tidyDriver) remove(ctx context.Context, kind, id string) error {
	if d.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasPrefix(id, "used") {
		return errors.New("it is in use")
	}
	d.has[kind] = slices.DeleteFunc(d.has[kind], func(o driver.Owned) bool { return o.ID == id || o.Name == id })
	return nil
}

func (d *tidyDriver) Ping(context.Context) error { return nil }

func (d *tidyDriver) List(context.Context, string) ([]driver.Owned, error) {
	return d.list("container")
}
func (d *tidyDriver) Remove(ctx context.Context, id string) error {
	return d.remove(ctx, "container", id)
}
func (d *tidyDriver) EnsureVolume(context.Context, string, map[string]string) (string, error) {
	return "", nil
}
func (d *tidyDriver) ListVolumes(context.Context, string) ([]driver.Owned, error) {
	return d.list("volume")
}
func (d *tidyDriver) RemoveVolume(ctx context.Context, name string) error {
	return d.remove(ctx, "volume", name)
}
func (d *tidyDriver) ListImages(context.Context, string) ([]driver.Owned, error) {
	return d.list("image")
}
func (d *tidyDriver) RemoveImage(ctx context.Context, id string) error {
	return d.remove(ctx, "image", id)
}

var (
	_ driver.Volumes = (*tidyDriver)(nil)
	_ driver.Images  = (*tidyDriver)(nil)
)

func tidyManager(t testing.TB, d driver.Driver) *sandbox.Manager {
	t.Helper()
	m, err := sandbox.New(sandbox.Config{Driver: d, Instance: "mine", WorkspaceRoot: t.TempDir(), Supervisor: "reconcile_test.go"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Only what carries exactly our label is looked at, and of what is no container only what has expired and nobody uses.
func TestReconcileKeepsToItsOwn(t *testing.T) {
	past, future := time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339)
	thing := func(id, instance, expires string) driver.Owned {
		labels := map[string]string{driver.LabelInstance: instance}
		if expires != "" {
			labels[driver.LabelExpires] = expires
		}
		return driver.Owned{ID: id, Name: id, Labels: labels}
	}
	things := []driver.Owned{
		thing("old", "mine", past), thing("used", "mine", past), thing("young", "mine", future), thing("kept", "mine", ""),
		thing("odd", "mine", "yesterday"), thing("theirs", "mine2", past), thing("nobody's", "", past), thing("case", "Mine", past),
	}
	const stays = "used young kept odd theirs nobody's case"
	d := &tidyDriver{has: map[string][]driver.Owned{
		"volume": slices.Clone(things), "image": slices.Clone(things), "container": slices.Clone(things),
	}}
	m := tidyManager(t, d)
	for range 2 {
		if err := m.Reconcile(t.Context()); err != nil && !strings.Contains(err.Error(), "in use") {
			t.Fatal(err)
		}
	}
	names := func(kind string) string {
		var all []string
		for _, o := range d.has[kind] {
			all = append(all, o.ID)
		}
		return strings.Join(all, " ")
	}
	for _, kind := range []string{"volume", "image"} {
		if got := names(kind); got != stays {
			t.Errorf("%ss that stay: %s, want %s", kind, got, stays)
		}
	}
	if got, want := names("container"), "used theirs nobody's case"; got != want {
		t.Errorf("containers that stay: %s, want %s", got, want)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Error(err)
	}
}

// An image that a killed host has committed and not named is of use to nobody.
func TestReconcileRemovesNamelessImages(t *testing.T) {
	thing := func(id, name string, age time.Duration) driver.Owned {
		return driver.Owned{ID: id, Name: name, Created: time.Now().Add(-age), Labels: map[string]string{
			driver.LabelInstance: "mine", driver.LabelExpires: time.Now().Add(time.Hour).Format(time.RFC3339),
		}}
	}
	d := &tidyDriver{has: map[string][]driver.Owned{"image": {
		thing("named", "mine:1", 2*time.Hour), thing("about to be named", "", time.Minute), thing("left", "", 2*time.Hour), thing("used", "", 2*time.Hour),
	}}}
	if err := tidyManager(t, d).Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.has["image"]; len(got) != 3 || slices.ContainsFunc(got, func(o driver.Owned) bool { return o.ID == "left" }) {
		t.Errorf("left: %+v", got)
	}
}

// A store that was copied gives two hosts one name. Neither can know which containers the other one uses.
func TestReconcileLeavesACopyAlone(t *testing.T) {
	thing := func(id, place string, expired time.Duration) driver.Owned {
		return driver.Owned{ID: id, Labels: map[string]string{
			driver.LabelInstance: "mine", driver.LabelPlace: place, driver.LabelExpires: time.Now().Add(-expired).Format(time.RFC3339),
		}}
	}
	d := &tidyDriver{has: map[string][]driver.Owned{"container": {
		thing("without a place", "", -time.Hour), thing("elsewhere", "0", -time.Hour), thing("old", "0", time.Hour), thing("forgotten", "0", 25*time.Hour),
	}}}
	m := tidyManager(t, d)
	if err := m.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.has["container"]; len(got) != 2 || got[0].ID != "elsewhere" || got[1].ID != "old" {
		t.Errorf("left: %+v", got)
	}

	h := sandboxtest.Engine(t)
	one, config := h.Manager(t)
	s := get(t, one, "s", config.Spec)
	before := shell(t, s, "hostname")
	copied, _ := h.Manager(t, func(c *sandbox.Config) { c.Instance = config.Instance })
	if pruned, err := copied.Prune(t.Context(), nil); err != nil || len(pruned) != 0 {
		t.Errorf("pruned %+v, %v", pruned, err)
	}
	if after := shell(t, s, "hostname"); after != before {
		t.Errorf("the first host's container was %s, is %s", before, after)
	}
}

// Run reconciles soon after the start, and then every few minutes; an engine that is away meanwhile is no end of it.
func TestReconcileGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &tidyDriver{err: machine.ErrUnavailable, has: map[string][]driver.Owned{}}
		m := tidyManager(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = m.Run(ctx) }()
		asks := func(after time.Duration) int {
			time.Sleep(after) // the bubble's clock
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.asks
		}
		if n := asks(3 * time.Second); n != 1 {
			t.Errorf("%d looks soon after the start", n)
		}
		if n := asks(time.Hour); n < 12 || n > 16 {
			t.Errorf("%d looks within an hour", n)
		}
		d.mu.Lock()
		d.err = nil
		d.has["container"] = []driver.Owned{{ID: "left", Labels: map[string]string{driver.LabelInstance: "mine"}}}
		d.mu.Unlock()
		if asks(6*time.Minute + time.Second); len(d.has["container"]) != 0 {
			t.Error("the leftover was not removed once the engine was back")
		}
		cancel()
		<-done
	})
}

// An engine that hangs holds up neither the end of a reconciliation that is given up, nor the shutdown.
func TestHangingEngineAtReconcile(t *testing.T) {
	d := &tidyDriver{hang: true, has: map[string][]driver.Owned{
		"container": {{ID: "left", Labels: map[string]string{driver.LabelInstance: "mine"}}},
	}}
	m := tidyManager(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := m.Reconcile(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Error(err)
	}
}

// A command line tool beside the host has containers of the same instance; neither removes the other's.
func TestTwoProcessesOfOneInstance(t *testing.T) {
	t.Parallel()
	h, order := restartable(t)
	order.Reconcile = false
	tool := newHost(t, order)
	tool.do(hostCall{Do: "exec", Session: "tool", Script: "echo $$"})
	tool.do(hostCall{Do: "start", Session: "tool", Script: counter})
	order.Reconcile = true
	host := newHost(t, order)
	if host.first.Stats.Adopted != 0 {
		t.Errorf("the host took the tool's container: %+v", host.first.Stats)
	}
	host.do(hostCall{Do: "exec", Session: "s", Script: "true"})
	counted(t, tool.do(hostCall{Do: "output", Session: "tool", ID: "1"}).Text)
	if n := len(containers(t, h, order.Instance)); n != 2 {
		t.Errorf("%d containers", n)
	}
	tool.kill()
	m, _ := h.Manager(t, func(c *sandbox.Config) { c.Instance, c.WorkspaceRoot = order.Instance, order.Root })
	pruned, err := m.Prune(t.Context(), nil)
	if err != nil || len(pruned) != 1 || pruned[0].Labels[driver.LabelSession] != "tool" {
		t.Errorf("pruned %+v (%v)", pruned, err)
	}
	host.do(hostCall{Do: "exec", Session: "s", Script: "true"})
	host.do(hostCall{Do: "end"})
	if left := containers(t, h, order.Instance); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
