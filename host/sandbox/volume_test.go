package sandbox_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// sweepVolumes removes the instance's volumes when the test has ended and its containers are gone.
func sweepVolumes(t *testing.T, instance string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		d, err := docker.New(docker.Config{})
		if err != nil {
			t.Error(err)
			return
		}
		defer d.Close()
		left, err := d.ListVolumes(ctx, instance)
		if err != nil {
			t.Error(err)
		}
		for _, v := range left {
			if err := d.RemoveVolume(ctx, v.Name); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestVolumeBelongsToTheWorkload(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	config := h.Config(t)
	sweepVolumes(t, config.Instance)
	m, err := sandbox.New(config)
	if err != nil {
		t.Fatal(err)
	}
	name, err := m.ProvideVolume(t.Context(), "one", "cache", sandboxtest.Image, 1234, 2345)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.ProvideVolume(t.Context(), "one", "cache", sandboxtest.Image, 1234, 2345); err != nil || again != name {
		t.Errorf("the second time: %q, %v", again, err)
	}
	if got := stat(t, h, name); got != "1234:2345" {
		t.Errorf("the root belongs to %s", got)
	}
	other, err := m.ProvideVolume(t.Context(), "two", "cache", sandboxtest.Image, 1234, 2345)
	if err != nil || other == name {
		t.Errorf("another session's volume is %q, %v", other, err)
	}
	if _, err := m.ProvideVolume(t.Context(), "one", "../x", sandboxtest.Image, 1234, 2345); err == nil {
		t.Error("a bad name was taken")
	}
	second, err := sandbox.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.ProvideVolume(t.Context(), "one", "cache", sandboxtest.Image, 77, 77); err == nil || !strings.Contains(err.Error(), "belongs to user 1234") {
		t.Errorf("a volume was taken from its owner: %v", err)
	}
	if err := m.Forget(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	left, err := h.Driver.ListVolumes(t.Context(), config.Instance)
	if err != nil || len(left) != 1 || left[0].Name != other {
		t.Errorf("after one session is forgotten: %v, %v", left, err)
	}
}

// stat returns the owner of a volume's root, as a container of the test's own sees it.
func stat(t *testing.T, h sandboxtest.Host, volumeName string) string {
	t.Helper()
	made, err := h.API.ContainerCreate(t.Context(), &container.Config{
		Image: sandboxtest.Image, Cmd: []string{"stat", "-c", "%u:%g", "/volume"},
	}, &container.HostConfig{NetworkMode: "none", Binds: []string{volumeName + ":/volume"}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Driver.Remove(context.WithoutCancel(t.Context()), made.ID)
	attached, err := h.API.ContainerAttach(t.Context(), made.ID, container.AttachOptions{Stream: true, Stdout: true})
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	if err := h.API.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, io.Discard, attached.Reader); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func TestVolumesOfOthersAreRefused(t *testing.T) {
	h := sandboxtest.Engine(t)
	name := "flynn-test-foreign-" + time.Now().Format("150405.000000")
	if _, err := h.API.VolumeCreate(t.Context(), volume.CreateOptions{Name: name, Labels: map[string]string{driver.LabelInstance: "another"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.API.VolumeRemove(context.Background(), name, true) })
	_, err := h.Driver.EnsureVolume(t.Context(), name, map[string]string{driver.LabelInstance: "ours"})
	if err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v", err)
	}
}
