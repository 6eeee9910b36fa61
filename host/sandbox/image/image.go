// Package image builds the images that sandboxes run in.
//
// Start with Builder: Prepare takes a Recipe and returns the name of an image that the engine has. An existing image is used unchanged;
// packages and binaries are added to one, once, and committed (install.go, place.go); a Dockerfile is built (build.go). Images are named
// after everything that they are made of (plan.go), so the same recipe costs a lookup, and a change to any part makes another image.
// Building needs a network, using does not.
//
// Waiting callers get progress by machine.Notice. A build that fails, or that nobody waits for any more, leaves nothing on the engine. The
// package does not know engines (package docker does) or sessions, and does not remove finished images: package sandbox does.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Config configures a Builder.
type Config struct {
	Engine Engine
	// Repository is the repository for the images' tags: flynn-1a2b3c4d. It belongs to one instance.
	Repository string
	// Instance is the owner, for labels.
	Instance string
	// WorkLabels returns labels for containers in which an image is changed, by which leftovers of a crash are found.
	WorkLabels func() map[string]string
	// Hidden returns absolute paths on the host that must not get into an image: build contexts are read without them. It may be nil.
	Hidden func() []string
	// Cache is this instance's folder for downloads.
	Cache string
	// Client downloads binaries; nil means a client that uses the environment's proxy.
	Client *http.Client
	// Timeout bounds the building of one image; 30 minutes by default.
	Timeout time.Duration
	Log     *slog.Logger
}

// Builder builds images. Its methods are safe for concurrent use.
type Builder struct {
	config  Config
	engine  Engine
	log     *slog.Logger
	store   *binaries
	flights flights
}

func (b *Builder) hidden() []string {
	if b.config.Hidden == nil {
		return nil
	}
	return b.config.Hidden()
}

// Labels on every image. They differ from those on containers, because a container inherits its image's labels: a container that somebody
// starts by hand must not be mistaken for ours.
const (
	LabelInstance = "flynn.image.instance"
	LabelKey      = "flynn.image.key"
	LabelExpires  = "flynn.image.expires"
	// LabelFamily is common to all images that one recipe has produced over time.
	LabelFamily = "flynn.image.family"
)

const (
	cleanUpTimeout = 2 * time.Minute     // for the removal of unfinished images
	imageLife      = 90 * 24 * time.Hour // after which an image reports that it has expired
	workMemory     = 2 << 30
	workPids       = 2048
)

// New returns a Builder. It contacts neither engine nor network.
func New(c Config) *Builder {
	c.Timeout = cmp.Or(c.Timeout, 30*time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Builder{
		config: c, engine: c.Engine, log: c.Log,
		store: &binaries{dir: c.Cache, client: downloader(c.Client)}, flights: flights{timeout: c.Timeout},
	}
}

// Prepare returns the name of the recipe's image, building it if the engine does not have it. Callers with the same recipe share one build.
// It is cancelled when the last of them has left, and their calls return when everything unfinished is removed. An image that is used
// unchanged need not exist: starting it finds out at no cost.
func (b *Builder) Prepare(ctx context.Context, r Recipe) (string, error) {
	if r.Strategy() == AsIs {
		return r.Image, r.Validate()
	}
	p, err := b.plan(ctx, r, b.fetch)
	if err != nil {
		return "", err
	}
	switch _, err := b.engine.InspectImage(ctx, p.Ref); {
	case err == nil:
		return p.Ref, nil
	case !errors.Is(err, ErrNoImage):
		return "", err
	}
	return p.Ref, b.flights.do(ctx, p.Ref, func(ctx context.Context) error { return b.make(ctx, p, false) })
}

// Rebuild builds the recipe's image again, whether or not it exists. The previous image loses its name.
func (b *Builder) Rebuild(ctx context.Context, r Recipe) (Plan, error) {
	p, err := b.plan(ctx, r, b.fetch)
	switch {
	case err != nil:
		return Plan{}, err
	case p.Strategy == AsIs:
		_, err := b.fetch(ctx, r.Image)
		return p, err
	}
	return p, b.flights.do(ctx, "rebuild "+p.Ref, func(ctx context.Context) error { return b.make(ctx, p, true) })
}

// Resolve returns what Prepare would return at the moment, without fetching or building anything. ErrNoImage means that an image that the
// recipe starts from has to be fetched first.
func (b *Builder) Resolve(ctx context.Context, r Recipe) (Plan, error) {
	return b.plan(ctx, r, b.engine.InspectImage)
}

// make executes a plan and names the result.
func (b *Builder) make(ctx context.Context, p Plan, anew bool) (err error) {
	began := time.Now()
	b.log.Info("making an image", "image", p.Ref, "strategy", p.Strategy)
	defer func() {
		if err != nil {
			b.log.Info("cannot make an image", "image", p.Ref, "error", err)
			return
		}
		b.log.Info("made an image", "image", p.Ref, "took", time.Since(began).Round(time.Millisecond))
	}()
	var made leftovers
	defer func() { err = made.settle(ctx, b, err) }()
	var id string
	if p.Strategy == Dockerfile {
		id, err = b.build(ctx, p, anew, &made)
	} else {
		id, err = b.addOn(ctx, p, &made)
	}
	if err != nil {
		return err
	}
	return b.name(ctx, id, p.Ref)
}

// name names an image. A previous image of that name is removed, unless a container still needs it.
func (b *Builder) name(ctx context.Context, id, ref string) error {
	before, err := b.engine.InspectImage(ctx, ref)
	if err != nil && !errors.Is(err, ErrNoImage) {
		return err
	}
	if err := b.engine.TagImage(ctx, id, ref); err != nil || before.ID == "" || before.ID == id {
		return err
	}
	if err := b.engine.RemoveImage(ctx, before.ID); err != nil {
		b.log.Info("cannot remove the previous image", "image", ref, "reason", err)
	}
	return nil
}

// addOn adds packages and binaries to an image. Downloads come first, because they are most likely to fail.
func (b *Builder) addOn(ctx context.Context, p Plan, made *leftovers) (string, error) {
	for _, wanted := range p.recipe.Binaries {
		if err := b.store.ensure(ctx, wanted); err != nil {
			return "", err
		}
	}
	id := p.base
	if len(p.recipe.Packages) > 0 {
		installed, err := b.install(ctx, p, id)
		if err != nil {
			return "", err
		}
		made.add(installed)
		id = installed
	}
	if len(p.recipe.Binaries) > 0 {
		placed, err := b.place(ctx, p, id)
		if err != nil {
			return "", err
		}
		made.add(placed)
		id = placed
	}
	return id, nil
}

// leftovers are images that are useless if a later step fails.
type leftovers struct{ ids []string }

func (l *leftovers) add(ids ...string) { l.ids = append(l.ids, ids...) }

// settle removes them, the newest first, if err is not nil.
func (l *leftovers) settle(ctx context.Context, b *Builder, err error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	for i := len(l.ids) - 1; i >= 0; i-- {
		err = errors.Join(err, b.engine.RemoveImage(ctx, l.ids[i]))
	}
	return err
}

// labels returns the labels of an image.
func (b *Builder) labels(p Plan) map[string]string {
	return map[string]string{
		LabelInstance: b.config.Instance, LabelKey: p.key, LabelFamily: p.Family,
		LabelExpires: time.Now().Add(imageLife).UTC().Format(time.RFC3339),
	}
}

// work creates a container, passes its id to use, and removes it in any case.
func (b *Builder) work(ctx context.Context, w Work, use func(id string) error) (err error) {
	w.Name, w.Labels = "flynn-image-"+randomName(), b.config.WorkLabels()
	w.MemoryBytes, w.PidsLimit = workMemory, workPids
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		err = errors.Join(err, b.engine.Remove(ctx, w.Name)) // by name: a failed create may have returned no id
	}()
	id, err := b.engine.CreateWork(ctx, w)
	if err != nil {
		return err
	}
	return use(id)
}

// fetch looks an image up and pulls it if it is missing.
func (b *Builder) fetch(ctx context.Context, ref string) (Info, error) {
	info, err := b.engine.InspectImage(ctx, ref)
	if !errors.Is(err, ErrNoImage) {
		return info, err
	}
	missing := err
	err = b.flights.do(ctx, "pull "+ref, func(ctx context.Context) error { return Pull(ctx, b.engine, ref, missing) })
	if err != nil {
		return Info{}, err
	}
	return b.engine.InspectImage(ctx, ref)
}

// Puller fetches images.
type Puller interface {
	Pull(ctx context.Context, ref string, progress func(line string)) error
}

// Pull fetches an image that is not there, as missing says, and reports progress to the audience of ctx. Its error is a PullError.
func Pull(ctx context.Context, e Puller, ref string, missing error) error {
	machine.Notice(ctx, "pulling image "+ref)
	err := e.Pull(ctx, ref, func(line string) { machine.Notice(ctx, "pulling image "+ref+": "+Clean(line)) })
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return &PullError{Image: ref, Missing: missing, Err: err}
}

// PullError is the error for an image that does not exist and cannot be pulled.
type PullError struct {
	Image        string
	Missing, Err error // why it is not there, and why it cannot be pulled
}

func (e *PullError) Error() string {
	return fmt.Sprintf("%v, and it cannot be pulled: %s: run: docker pull %s", e.Missing, machine.Reason(e.Err), e.Image)
}

func (e *PullError) Unwrap() []error { return []error{e.Missing, e.Err} }
