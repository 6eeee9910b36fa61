package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// stageInfix separates an image's name from the number of one of its stages.
const stageInfix = "-stage-"

// StageOf returns the name of the image that has a stage of this name, or "".
func StageOf(name string) string {
	of, _, is := strings.Cut(name, stageInfix)
	if !is {
		return ""
	}
	return of
}

// build builds a Dockerfile on the engine and returns the image's id. The images of its other stages get names derived from the image's, so
// that they can be removed with it.
func (b *Builder) build(ctx context.Context, p Plan, anew bool, made *leftovers) (string, error) {
	machine.Notice(ctx, "building image from "+p.recipe.Dockerfile)
	archive, writer := io.Pipe()
	var sent []byte
	packed := make(chan error, 1)
	go func() {
		sum, err := p.source.pack(ctx, writer)
		sent = sum
		writer.CloseWithError(err)
		packed <- err
	}()
	built, err := b.engine.Build(ctx, Build{
		Context: archive, Dockerfile: p.source.dockerfile, Bases: p.bases, Network: p.recipe.network(),
		MemoryBytes: workMemory, NoCache: anew,
	}, func(line string) { machine.Notice(ctx, "building image: "+Clean(line)) })
	archive.Close()
	if err == nil {
		made.add(built.Stages...)
		if !built.Cached {
			made.add(built.Image)
		}
	}
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return "", fmt.Errorf("send build context %s: %w", p.source.dir, failed)
	}
	if err != nil {
		var step *StepError
		if errors.As(err, &step) {
			step.Image = p.recipe.Dockerfile
			return "", err
		}
		return "", fmt.Errorf("build %s: %w", p.recipe.Dockerfile, err)
	}
	if !bytes.Equal(sent, p.source.digest) {
		return "", fmt.Errorf("build %s: %w", p.recipe.Dockerfile, errChanged)
	}
	for i, stage := range built.Stages {
		if err := b.name(ctx, stage, fmt.Sprintf("%s%s%d", p.Ref, stageInfix, i)); err != nil {
			return "", err
		}
	}
	return b.stamp(ctx, p, built.Image, made)
}

// stamp adds the labels. The engine's builder would show a step for each.
func (b *Builder) stamp(ctx context.Context, p Plan, image string, made *leftovers) (id string, err error) {
	err = b.work(ctx, Work{Image: image, Argv: []string{"/bin/true"}, Network: "none"}, func(container string) error {
		id, err = b.engine.Commit(ctx, container, b.labels(p))
		return err
	})
	if err != nil {
		return "", err
	}
	made.add(id)
	return id, nil
}
