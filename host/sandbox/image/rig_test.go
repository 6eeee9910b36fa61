package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	apiimage "github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// rig is a Builder of an instance of the test's own, on a real engine.
type rig struct {
	*image.Builder
	t        *testing.T
	host     sandboxtest.Host
	engine   *watched
	instance string
	cache    string
}

// It runs beside other tests: most of the time is the engine's, who waits for its disk.
func newRig(t *testing.T, client *http.Client) *rig {
	t.Helper()
	t.Parallel()
	h := sandboxtest.Engine(t)
	r := &rig{t: t, host: h, engine: &watched{Engine: h.Driver}, cache: filepath.Join(t.TempDir(), "cache")}
	r.instance = "test-" + unique()
	t.Cleanup(r.sweep)
	r.Builder = image.New(image.Config{
		Engine: r.engine, Instance: r.instance, Repository: "flynn-test-" + unique(), Cache: r.cache, Client: client,
		WorkLabels: func() map[string]string { return map[string]string{driver.LabelInstance: r.instance} },
	})
	return r
}

// sweep removes the images, and fails the test if a container is left.
func (r *rig) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, o := range r.images(ctx) {
		name := o.Name
		if name == "" {
			name = o.ID
		}
		if err := r.host.Driver.RemoveImage(ctx, name); err != nil {
			r.t.Errorf("remove image %s: %v", name, err)
		}
	}
	owned, err := r.host.Driver.List(ctx, r.instance)
	if err != nil || len(owned) > 0 {
		r.t.Errorf("containers left: %v, %v", owned, err)
	}
}

func (r *rig) images(ctx context.Context) []driver.Owned {
	r.t.Helper()
	found, err := r.host.Driver.ListImages(ctx, r.instance)
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// base makes an image of the test's own, so that whatever is made on it can be told from everybody else's.
func (r *rig) base(changes ...string) (name, id string) {
	r.t.Helper()
	return r.baseWith(nil, changes...)
}

// baseWith is a base with more files, given as a tar to be unpacked at the root.
func (r *rig) baseWith(files io.Reader, changes ...string) (name, id string) {
	r.t.Helper()
	ctx, api := r.t.Context(), r.host.API
	name = "flynn-test/base:" + unique()
	made, err := api.ContainerCreate(ctx, &container.Config{Image: sandboxtest.Image, Cmd: []string{"true"}, Labels: map[string]string{"unique": name}}, nil, nil, nil, "")
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := api.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
			r.t.Error(err)
		}
	}()
	if files != nil {
		if err := r.host.Driver.CopyInto(ctx, made.ID, "/", files); err != nil {
			r.t.Fatal(err)
		}
	}
	changes = append([]string{"ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, changes...)
	committed, err := api.ContainerCommit(ctx, made.ID, container.CommitOptions{Reference: name, Changes: changes})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.dropBase(name, committed.ID) })
	return name, committed.ID
}

func (r *rig) dropBase(name, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if made := r.madeOn(ctx, id); len(made) > 0 {
		r.sweep()
	}
	if _, err := r.host.API.ImageRemove(ctx, name, apiimage.RemoveOptions{Force: true}); err != nil {
		r.t.Errorf("remove %s: %v", name, err)
	}
}

// unique is fit for a name of the engine's.
func unique() string { return strings.ToLower(rand.Text()[:16]) }

// madeOn are the images and containers that come from an image, by id.
func (r *rig) madeOn(ctx context.Context, id string) []string {
	r.t.Helper()
	all, err := r.host.API.ImageList(ctx, apiimage.ListOptions{All: true})
	if err != nil {
		r.t.Fatal(err)
	}
	family := []string{id}
	for grown := true; grown; {
		grown = false
		for _, i := range all {
			if slices.Contains(family, i.ParentID) && !slices.Contains(family, i.ID) {
				family, grown = append(family, i.ID), true
			}
		}
	}
	made := slices.Clone(family[1:])
	for _, i := range family {
		found, err := r.host.API.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("ancestor", i))})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, c := range found {
			made = append(made, "container "+c.ID)
		}
	}
	return made
}

// nothingOn fails the test if anything is left that was made on an image.
func (r *rig) nothingOn(id string) {
	r.t.Helper()
	if made := r.madeOn(r.t.Context(), id); len(made) > 0 {
		r.t.Errorf("left behind: %q", made)
	}
	if left := r.images(r.t.Context()); len(left) > 0 {
		r.t.Errorf("images left behind: %+v", left)
	}
}

func (r *rig) prepare(recipe image.Recipe) string {
	r.t.Helper()
	ref, err := r.Prepare(r.t.Context(), recipe)
	if err != nil {
		r.t.Fatal(err)
	}
	return ref
}

// run runs a script in a container of an image.
func (r *rig) run(ref, script string) string {
	r.t.Helper()
	ctx := r.t.Context()
	id, err := r.host.Driver.CreateWork(ctx, image.Work{
		Image: ref, Argv: []string{"/bin/sh", "-c", script}, Network: "none", MemoryBytes: 256 << 20, PidsLimit: 64,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := r.host.Driver.Remove(ctx, id); err != nil {
			r.t.Error(err)
		}
	}()
	var out bytes.Buffer
	if code, err := r.host.Driver.RunWork(ctx, id, &out); err != nil || code != 0 {
		r.t.Fatalf("%s: exit code %d, %v: %s", script, code, err, out.String())
	}
	return out.String()
}

// watched counts the calls of an engine, and can have one fail.
type watched struct {
	image.Engine
	mu     sync.Mutex
	calls  map[string]int
	before func(call string) error // or nil
}

func (w *watched) enter(call string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[string]int{}
	}
	w.calls[call]++
	if w.before != nil {
		return w.before(call)
	}
	return nil
}

// counted returns the calls since it was last asked.
func (w *watched) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.calls = nil }()
	return maps.Clone(w.calls)
}

func (w *watched) CreateWork(ctx context.Context, work image.Work) (string, error) {
	id, err := w.Engine.CreateWork(ctx, work)
	if err == nil {
		err = w.enter("create") // as if the answer was lost
	}
	return id, err
}

func (w *watched) HasPath(ctx context.Context, id, path string) (bool, error) {
	if err := w.enter("path"); err != nil {
		return false, err
	}
	return w.Engine.HasPath(ctx, id, path)
}

func (w *watched) CopyInto(ctx context.Context, id, folder string, archive io.Reader) error {
	if err := w.enter("copy"); err != nil {
		return err
	}
	return w.Engine.CopyInto(ctx, id, folder, archive)
}

func (w *watched) RunWork(ctx context.Context, id string, output io.Writer) (int, error) {
	if err := w.enter("run"); err != nil {
		return 0, err
	}
	return w.Engine.RunWork(ctx, id, output)
}

func (w *watched) Commit(ctx context.Context, id string, labels map[string]string) (string, error) {
	if err := w.enter("commit"); err != nil {
		return "", err
	}
	return w.Engine.Commit(ctx, id, labels)
}

func (w *watched) TagImage(ctx context.Context, id, ref string) error {
	if err := w.enter("tag"); err != nil {
		return err
	}
	return w.Engine.TagImage(ctx, id, ref)
}

func (w *watched) Build(ctx context.Context, b image.Build, progress func(string)) (image.Built, error) {
	if err := w.enter("build"); err != nil {
		return image.Built{}, err
	}
	return w.Engine.Build(ctx, b, progress)
}

// notices collects what somebody who waits is told.
type notices struct {
	mu    sync.Mutex
	lines []string
	heard chan string // or nil
}

func (n *notices) under(ctx context.Context) context.Context {
	return machine.WithNotice(ctx, func(line string) {
		n.mu.Lock()
		n.lines = append(n.lines, line)
		n.mu.Unlock()
		if n.heard != nil {
			select {
			case n.heard <- line:
			default:
			}
		}
	})
}

func (n *notices) all() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

// write makes files in a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// archive makes a tar of files that can be run, and of folders, whose names end in a slash.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
