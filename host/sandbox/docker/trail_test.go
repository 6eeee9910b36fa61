package docker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/image"
)

const (
	baseID  = "sha256:aaaaaaaaaaaa0000000000000000000000000000000000000000000000000000"
	newID   = "sha256:bbbbbbbbbbbb0000000000000000000000000000000000000000000000000000"
	stageID = "sha256:cccccccccccc0000000000000000000000000000000000000000000000000000"
)

func streamed(lines ...string) (events []buildEvent) {
	for _, l := range lines {
		events = append(events, buildEvent{Stream: l})
	}
	return events
}

func finished(id string) (e buildEvent) { e.Aux.ID = id; return e }

func TestTrail(t *testing.T) {
	for _, c := range []struct {
		name                      string
		events                    []buildEvent
		known, images, containers []string
		built                     image.Built
	}{
		{"one step", append(streamed("Step 1/2 : FROM x\n", " ---> aaaaaaaaaaaa\n", "Step 2/2 : RUN y\n", " ---> Running in 111111111111\n", "output\n",
			"Removing intermediate container 111111111111\n", " ---> bbbbbbbbbbbb\n"), finished(newID)),
			[]string{"aaaaaaaaaaaa"}, []string{"bbbbbbbbbbbb"}, []string{"111111111111"}, image.Built{Image: newID}},
		{"cached", append(streamed("Step 1/2 : FROM x\n", " ---> aaaaaaaaaaaa\n", "Step 2/2 : RUN y\n", " ---> Using cache\n", " ---> bbbbbbbbbbbb\n"), finished(newID)),
			[]string{"aaaaaaaaaaaa", "bbbbbbbbbbbb"}, nil, nil, image.Built{Image: newID, Cached: true}},
		{"stages", append(append(append(streamed("Step 1/4 : FROM x\n", " ---> aaaaaaaaaaaa\n", "Step 2/4 : RUN y\n", " ---> cccccccccccc\n"), finished(stageID)),
			streamed("Step 3/4 : FROM x\n", " ---> aaaaaaaaaaaa\n", "Step 4/4 : RUN y\n", " ---> bbbbbbbbbbbb\n")...), finished(newID)),
			[]string{"aaaaaaaaaaaa", "aaaaaaaaaaaa"}, []string{"cccccccccccc", "bbbbbbbbbbbb"}, nil, image.Built{Image: newID, Stages: []string{stageID}}},
		{"nothing but a base", append(streamed("Step 1/1 : FROM x\n", " ---> aaaaaaaaaaaa\n"), finished(baseID)),
			[]string{"aaaaaaaaaaaa"}, nil, nil, image.Built{Image: baseID, Cached: true}},
		{"output that looks alike", append(streamed("Step 1/2 : FROM x\n", " ---> aaaaaaaaaaaa\n", "Step 2/2 : RUN y\n", "x ---> dddddddddddd\n", " ---> dddd\n",
			" ---> bbbbbbbbbbbb\n"), finished(newID)), []string{"aaaaaaaaaaaa"}, []string{"bbbbbbbbbbbb"}, nil, image.Built{Image: newID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &trail{bases: []string{baseID}}
			for _, e := range c.events {
				tr.see(e)
			}
			if built, err := tr.built(); err == nil {
				t.Errorf("an answer that was cut ends in %+v", built)
			}
			tr.see(buildEvent{Stream: "Successfully built " + c.built.Image[7:19] + "\n"})
			if !slices.Equal(tr.known, c.known) || !slices.Equal(tr.images, c.images) || !slices.Equal(tr.containers, c.containers) {
				t.Errorf("known %q, images %q, containers %q", tr.known, tr.images, tr.containers)
			}
			built, err := tr.built()
			if err != nil || built.Image != c.built.Image || built.Cached != c.built.Cached || !slices.Equal(built.Stages, c.built.Stages) {
				t.Errorf("built %+v, %v", built, err)
			}
		})
	}
}

func TestTrailOfAFailure(t *testing.T) {
	tr := &trail{}
	for _, e := range streamed("Step 2/3 : RUN make\n", "first\n", "sec", "ond\n", "\x1b[31mthird\x1b[0m") {
		tr.see(e)
	}
	var step *image.StepError
	if err := tr.failed("it\nbroke\x07"); !errors.As(err, &step) || step.Step != "Step 2/3 : RUN make" || !slices.Equal(step.Output, []string{"first", "second", "third"}) ||
		step.Err.Error() != "itbroke" {
		t.Errorf("got %+v", step)
	}
	if _, err := tr.built(); err == nil {
		t.Error("a build without a result")
	}
}

func FuzzTrail(f *testing.F) {
	f.Add("Step 1/1 : FROM scratch\n", " ---> aaaaaaaaaaaa\n", "sha256:aa")
	f.Add(" ---> Using cache\n", " ---> Running in aaaaaaaaaaaa\n", "")
	f.Fuzz(func(t *testing.T, one, two, id string) {
		tr := &trail{}
		for _, e := range append(streamed(one, two), finished(id)) {
			tr.see(e)
		}
		built, err := tr.built()
		if err == nil && strings.TrimSpace(built.Image) == "" && id != built.Image {
			t.Errorf("built %+v", built)
		}
		for _, short := range append(append(tr.images, tr.known...), tr.containers...) {
			if len(short) != 12 {
				t.Errorf("an id %q", short)
			}
		}
	})
}
