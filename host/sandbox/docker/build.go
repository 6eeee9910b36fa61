package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	apiimage "github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
)

// sweepTimeout bounds the cleanup after a failed build.
const sweepTimeout = 90 * time.Second

// Build implements image.Engine with the engine's classic builder, which every supported engine has.
func (d *Driver) Build(ctx context.Context, b image.Build, progress func(line string)) (image.Built, error) {
	t := &trail{bases: b.Bases, output: image.Output{Tell: progress}, tell: progress}
	var built image.Built
	err := d.build(ctx, b, t)
	if err == nil {
		built, err = t.built()
	}
	if err == nil {
		return built, nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
	defer cancel()
	swept := d.sweep(last, t)
	if ctx.Err() != nil {
		return image.Built{}, errors.Join(ctx.Err(), swept)
	}
	return image.Built{}, errors.Join(err, swept)
}

func (d *Driver) build(ctx context.Context, b image.Build, t *trail) error {
	ctx, leave := d.attended(ctx)
	defer leave()
	answer, err := d.api.ImageBuild(ctx, b.Context, build.ImageBuildOptions{
		Version: build.BuilderV1, Dockerfile: b.Dockerfile, NetworkMode: b.Network, NoCache: b.NoCache,
		Remove: true, ForceRemove: true, Memory: b.MemoryBytes, MemorySwap: b.MemoryBytes,
	})
	if err != nil {
		return d.explain("build an image", silence(ctx, err))
	}
	defer answer.Body.Close()
	err = each(answer.Body, func(e buildEvent) error {
		if e.Error != "" {
			return t.failed(e.Error)
		}
		t.see(e)
		return nil
	})
	if errors.As(err, new(*image.StepError)) {
		return err
	}
	return d.explain("build an image", silence(ctx, err))
}

// buildEvent is one object of the engine's answer.
type buildEvent struct {
	Stream string `json:"stream"`
	Status string `json:"status"`
	Error  string `json:"error"`
	Aux    struct {
		ID string `json:"ID"` // of a finished stage
	} `json:"aux"`
}

// trail is what the engine has reported about a build. The output of steps arrives in the same stream and may imitate the engine's reports,
// so nothing is removed on their word alone.
type trail struct {
	bases  []string
	tell   func(line string)
	output image.Output // of the current step

	step       string
	scratch    bool     // the stage starts from scratch
	cached     bool     // the next image existed before
	known      []string // images that existed before
	images     []string // images made
	containers []string // intermediate ones
	stages     []string // finished, by full id
	result     string   // short id of the image that the engine reports as its result
}

var (
	stepLine    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Step \d+/\d+ : `) })
	runningLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ ---> Running in ([0-9a-f]{12})\n$`) })
	removalLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Removing intermediate container [0-9a-f]{12}\n$`) })
	resultLine  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Successfully built ([0-9a-f]{12})\n$`) })
	imageLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ ---> ([0-9a-f]{12})\n$`) })
)

const cachedLine = " ---> Using cache\n"

func (t *trail) see(e buildEvent) {
	if e.Aux.ID != "" {
		t.stages = append(t.stages, e.Aux.ID)
	}
	running, made := runningLine().FindStringSubmatch(e.Stream), imageLine().FindStringSubmatch(e.Stream)
	if m := resultLine().FindStringSubmatch(e.Stream); m != nil {
		t.result = m[1]
	}
	switch {
	case stepLine().MatchString(e.Stream):
		t.begin(image.Clean(e.Stream))
	case e.Stream == cachedLine:
		t.cached = true
	case running != nil:
		t.containers = append(t.containers, running[1])
	case removalLine().MatchString(e.Stream):
	case made != nil && (t.cached || t.isFrom()):
		t.known, t.cached = append(t.known, made[1]), false
	case made != nil:
		t.images = append(t.images, made[1])
	default:
		_, _ = t.output.Write([]byte(e.Stream))
	}
}

func (t *trail) begin(step string) {
	t.step = step
	t.output = image.Output{Tell: t.tell}
	_, instruction, _ := strings.Cut(strings.ToLower(step), " : ")
	t.scratch = t.scratch || strings.HasPrefix(instruction, "from scratch")
	if t.tell != nil {
		t.tell(step)
	}
}

func (t *trail) isFrom() bool {
	_, instruction, _ := strings.Cut(t.step, " : ")
	return len(instruction) > 5 && strings.EqualFold(instruction[:5], "from ")
}

func (t *trail) failed(reason string) error {
	step := t.step
	if step == "" {
		step = "read the Dockerfile"
	}
	if what, _, is := strings.Cut(reason, " requires BuildKit"); is {
		reason = what + " needs BuildKit, and Flynn builds with the builder that every engine has: do without it (in place of COPY --chmod, " +
			"RUN chmod after the COPY), or build the image with docker build and name it in image"
	}
	return &image.StepError{Step: step, Output: t.output.Last(), Err: errors.New(image.Clean(reason))}
}

// built returns the results: the last stage's image, and the images of the other stages that did not exist before. An answer that breaks
// off between two stages also ends with an image, but not with the requested one.
func (t *trail) built() (image.Built, error) {
	last := len(t.stages) - 1
	if last < 0 || t.result == "" || !strings.HasPrefix(strings.TrimPrefix(t.stages[last], "sha256:"), t.result) {
		return image.Built{}, errors.New("the engine ended a build without naming its image: try again, or see the engine's log")
	}
	b := image.Built{Image: t.stages[last], Cached: !t.isNew(t.stages[last])}
	for _, stage := range t.stages[:last] {
		if stage != b.Image && t.isNew(stage) && !slices.Contains(b.Stages, stage) {
			b.Stages = append(b.Stages, stage)
		}
	}
	return b, nil
}

// isNew reports whether the build made an image rather than found it.
func (t *trail) isNew(id string) bool {
	short := strings.TrimPrefix(id, "sha256:")
	return len(short) >= 12 && slices.Contains(t.images, short[:12]) && !slices.Contains(t.known, short[:12]) && !slices.Contains(t.bases, id)
}

// sweep removes the remains of a failed build: the container of the current step and the images of earlier steps, including one that the
// engine may have finished after the connection ended.
func (d *Driver) sweep(ctx context.Context, t *trail) error {
	before, err := d.fullIDs(ctx, t.known)
	if err != nil {
		return err
	}
	before = append(before, t.bases...)
	made, err := d.madeOn(ctx, t, before)
	if err != nil {
		return err
	}
	for _, id := range t.containers {
		err = errors.Join(err, d.removeStep(ctx, id, append(before, made...)))
	}
	later, listed := d.descendants(ctx, made)
	err = errors.Join(err, listed)
	made = append(made, later...)
	for i := len(made) - 1; i >= 0; i-- {
		err = errors.Join(err, d.removeImage(ctx, made[i], false))
	}
	return err
}

// fullIDs looks up short ids. Those that do not exist any more are left out.
func (d *Driver) fullIDs(ctx context.Context, short []string) ([]string, error) {
	var full []string
	for _, id := range short {
		info, err := d.InspectImage(ctx, id)
		if errors.Is(err, image.ErrNoImage) {
			continue
		}
		if err != nil {
			return nil, err
		}
		full = append(full, info.ID)
	}
	return full, nil
}

// madeOn returns, in order, the images of the trail that are untagged and were really built on those before them.
func (d *Driver) madeOn(ctx context.Context, t *trail, before []string) ([]string, error) {
	claimed, err := d.fullIDs(ctx, t.images)
	if err != nil || len(claimed) == 0 {
		return nil, err
	}
	all, err := d.api.ImageList(ctx, apiimage.ListOptions{All: true})
	if err != nil {
		return nil, d.explain("list images", err)
	}
	var made []string
	for _, id := range claimed {
		i := slices.IndexFunc(all, func(i apiimage.Summary) bool { return i.ID == id })
		if i < 0 || !nameless(all[i]) || slices.Contains(before, id) || slices.Contains(made, id) {
			continue
		}
		parent := all[i].ParentID
		if slices.Contains(before, parent) || slices.Contains(made, parent) || parent == "" && t.scratch {
			made = append(made, id)
		}
	}
	return made, nil
}

// descendants returns the untagged images built on the given ones, parents first.
func (d *Driver) descendants(ctx context.Context, of []string) ([]string, error) {
	if len(of) == 0 {
		return nil, nil
	}
	all, err := d.api.ImageList(ctx, apiimage.ListOptions{All: true})
	if err != nil {
		return nil, d.explain("list images", err)
	}
	var found []string
	for grown := true; grown; {
		grown = false
		for _, i := range all {
			known := slices.Contains(of, i.ID) || slices.Contains(found, i.ID)
			if !known && nameless(i) && (slices.Contains(of, i.ParentID) || slices.Contains(found, i.ParentID)) {
				found, grown = append(found, i.ID), true
			}
		}
	}
	return found, nil
}

func nameless(i apiimage.Summary) bool {
	return len(i.RepoTags) == 0 || slices.Equal(i.RepoTags, []string{"<none>:<none>"})
}

// removeStep removes a container if it is that of a build step.
func (d *Driver) removeStep(ctx context.Context, id string, images []string) error {
	found, err := d.inspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return d.explain("inspect container", err)
	}
	if !slices.Contains(images, found.Image) || found.Config.Labels[driver.LabelInstance] != "" {
		return nil
	}
	if err := d.Remove(ctx, found.ID); err != nil {
		return fmt.Errorf("remove the container of a build step: %w", err)
	}
	return nil
}
