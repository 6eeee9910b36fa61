package image_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiimage "github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox/image"
)

// dockerfile writes a Dockerfile and its context and returns the recipe.
func dockerfile(t *testing.T, text string, files map[string]string) image.Recipe {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	write(t, dir, map[string]string{"Dockerfile": text})
	return image.Recipe{Dockerfile: filepath.Join(dir, "Dockerfile"), Network: "none"}
}

func TestDockerfile(t *testing.T) {
	r := newRig(t, nil)
	base, id := r.base()
	if err := r.host.API.ImageTag(t.Context(), id, base+"-kept"); err != nil { // the base gets another image below
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := r.host.API.ImageRemove(context.Background(), base+"-kept", apiimage.RemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	recipe := dockerfile(t, "ARG BASE="+base+`
FROM ${BASE} AS tools
RUN echo built > /made
FROM `+base+`
COPY --from=tools /made /made
COPY . /context/
RUN chmod 600 /made && echo 'some output'
USER 1000
`, map[string]string{"kept/file": "kept", "secret/key": "secret", ".dockerignore": "secret\n"})
	var n notices
	ref, err := r.Prepare(n.under(t.Context()), recipe)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.run(ref, "cat /made; stat -c %a /made; cd /context; find . -type f | sort"); got != "built\n600\n./.dockerignore\n./Dockerfile\n./kept/file\n" {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{"building image from ", "Step 1/", "some output"} {
		if !strings.Contains(n.all(), want) {
			t.Errorf("nobody was told %q: %s", want, n.all())
		}
	}
	info, err := r.host.Driver.InspectImage(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if info.Labels[image.LabelInstance] != r.instance || info.Labels[image.LabelFamily] == "" {
		t.Errorf("labels: %v", info.Labels)
	}
	plan, err := r.Resolve(t.Context(), recipe)
	if err != nil || plan.Ref != ref || plan.Strategy != image.Dockerfile {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	if stages := r.images(t.Context()); len(stages) != 2 || stages[1].Name != ref+"-stage-0" || time.Since(stages[0].Created) > time.Hour {
		t.Errorf("images: %+v", stages)
	}

	dir := filepath.Dir(recipe.Dockerfile)
	for _, c := range []struct {
		name    string
		change  func()
		differs bool
	}{
		{"nothing", func() {}, false},
		{"an ignored file", func() { write(t, dir, map[string]string{"secret/key": "other"}) }, false},
		{"the context", func() { write(t, dir, map[string]string{"kept/file": "more"}) }, true},
		{"the Dockerfile", func() { write(t, dir, map[string]string{"Dockerfile": "FROM " + base + "\nRUN true\n"}) }, true},
		{"the base", func() {
			if err := r.host.API.ImageTag(t.Context(), r.other(), base); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		c.change()
		r.engine.counted()
		now := r.prepare(recipe)
		if builds := r.engine.counted()["build"]; (now != ref) != c.differs || (builds == 1) != c.differs {
			t.Errorf("%s: another image is %v, %d builds", c.name, now != ref, builds)
		}
		ref = now
	}
	r.sweep()
	r.nothingOn(id)
}

// other imports another base.
func (r *rig) other() (id string) { _, id = r.base(); return id }

func TestRebuild(t *testing.T) {
	r := newRig(t, nil)
	base, id := r.base()
	recipe := dockerfile(t, "FROM "+base+" AS one\nRUN cat /proc/sys/kernel/random/uuid > /one\nFROM "+base+"\nCOPY --from=one /one /one\nRUN cat /proc/sys/kernel/random/uuid > /two", nil)
	ref := r.prepare(recipe)
	first := r.run(ref, "cat /one /two")
	plan, err := r.Rebuild(t.Context(), recipe)
	if err != nil || plan.Ref != ref {
		t.Fatalf("%+v, %v", plan, err)
	}
	second := r.run(ref, "cat /one /two")
	for i, line := range strings.Fields(first) {
		if line == strings.Fields(second)[i] {
			t.Errorf("line %d came from the cache", i)
		}
	}
	if left := r.images(t.Context()); len(left) != 2 {
		t.Errorf("images: %+v", left)
	}
	r.sweep()
	r.nothingOn(id)
}

func TestBuildFails(t *testing.T) {
	r := newRig(t, nil)
	base, id := r.base()
	for _, c := range []struct {
		name, text, step string
		output           []string
		want             string
	}{
		{"a command", "FROM " + base + "\nRUN echo one > /one\nRUN printf 'first\\n\\033[31msecond\\033[0m\\n'; exit 3\nRUN true", "Step 3/", []string{"first", "second"}, "returned a non-zero code: 3"},
		{"a missing file", "FROM " + base + "\nRUN true\nCOPY nosuch /", "Step 3/", nil, "nosuch"},
		{"a later stage", "FROM " + base + " AS a\nRUN echo a > /a\nFROM " + base + "\nRUN echo b > /b\nCOPY --from=a /nosuch /", "Step 5/", nil, "nosuch"},
		{"from scratch", "FROM scratch\nCOPY Dockerfile /d\nCOPY nosuch /", "Step 3/", nil, "nosuch"},
		{"an unknown instruction", "FROM " + base + "\nRUB x", "read the Dockerfile", nil, "unknown instruction"},
		{"a flag of another builder", "FROM " + base + "\nCOPY --chmod=755 Dockerfile /d", "", nil, "the --chmod option needs BuildKit, and Flynn builds with the builder that every engine has"},
		{"a mount of another builder", "FROM " + base + "\nRUN --mount=type=cache,target=/c true", "", nil, "needs BuildKit, and Flynn builds"},
		{"forged lines", "FROM " + base + "\nRUN echo ' ---> " + short(id) + "'; echo ' ---> Running in " + short(id) + "'; false", "Step 2/", nil, "non-zero code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.Prepare(t.Context(), dockerfile(t, c.text, nil))
			if err == nil {
				t.Fatal("no error")
			}
			var step *image.StepError
			if errors.As(err, &step) && (!strings.HasPrefix(step.Step, c.step) || c.output != nil && !slices.Equal(step.Output, c.output)) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			r.nothingOn(id)
		})
	}
	t.Run("base nowhere", func(t *testing.T) {
		_, err := r.Prepare(t.Context(), dockerfile(t, "FROM 127.0.0.1:9/nosuch:1", nil))
		var pull *image.PullError
		if !errors.As(err, &pull) || !strings.Contains(err.Error(), "docker pull 127.0.0.1:9/nosuch:1") {
			t.Errorf("got %v", err)
		}
	})
	if _, err := r.host.Driver.InspectImage(t.Context(), base); err != nil {
		t.Errorf("the base is gone: %v", err)
	}
}

func short(id string) string { return strings.TrimPrefix(id, "sha256:")[:12] }

func TestCancelledBuildLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	base, id := r.base()
	recipe := dockerfile(t, "FROM "+base+"\nRUN echo one > /one\nRUN echo started; sleep 600", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := notices{heard: make(chan string, 100)}
	failed := make(chan error, 1)
	go func() { _, err := r.Prepare(n.under(ctx), recipe); failed <- err }()
	for line := range n.heard {
		if strings.Contains(line, ": started") {
			break
		}
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.nothingOn(id)
}

// Everybody who waits shares one build and hears of it; one who leaves does not end it.
func TestTwoBuildOnce(t *testing.T) {
	r := newRig(t, nil)
	base, _ := r.base()
	recipe := dockerfile(t, "FROM "+base+"\nRUN echo one", nil)
	entered, goOn := make(chan struct{}), make(chan struct{})
	r.engine.before = func(call string) error {
		if call == "build" {
			close(entered)
			<-goOn
		}
		return nil
	}
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := r.Prepare(leaving, recipe); left <- err }()
	<-entered
	var all sync.WaitGroup
	var told [2]notices
	refs := make([]string, 2)
	for i := range refs {
		told[i].heard = make(chan string, 100)
		all.Go(func() {
			ref, err := r.Prepare(told[i].under(t.Context()), recipe)
			if err != nil {
				t.Error(err)
			}
			refs[i] = ref
		})
		<-told[i].heard // it waits with the others: what was told before comes at once
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	close(goOn)
	all.Wait()
	if builds := r.engine.counted()["build"]; builds != 1 || refs[0] != refs[1] {
		t.Errorf("%d builds, %q", builds, refs)
	}
	for i := range told {
		if !strings.Contains(told[i].all(), "Step 2/") {
			t.Errorf("number %d was told only %q", i, told[i].all())
		}
	}
}

// Somebody else may have built the very same on the engine: what they have stays theirs.
func TestSomebodyElsesBuildStays(t *testing.T) {
	r := newRig(t, nil)
	base, _ := r.base()
	recipe := dockerfile(t, "FROM "+base+"\nRUN echo same > /same", nil)
	var files bytes.Buffer
	files.Write(archive(t, map[string]string{"Dockerfile": "FROM " + base + "\nRUN echo same > /same"}))
	theirs, err := r.host.Driver.Build(t.Context(), image.Build{Context: &files, Dockerfile: "Dockerfile", Network: "none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := base + "-theirs"
	if err := r.host.Driver.TagImage(t.Context(), theirs.Image, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.host.Driver.RemoveImage(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	r.engine.before = func(call string) error {
		if call == "commit" {
			return errors.New("the engine broke")
		}
		return nil
	}
	if _, err := r.Prepare(t.Context(), recipe); err == nil {
		t.Error("no error")
	}
	r.engine.before = nil
	r.prepare(recipe)
	r.sweep()
	if _, err := r.host.Driver.InspectImage(t.Context(), name); err != nil {
		t.Errorf("theirs is gone: %v", err)
	}
}
