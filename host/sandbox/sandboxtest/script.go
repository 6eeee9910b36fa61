package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
)

// programTimeout bounds the creation of an image with one more file.
const programTimeout = time.Minute

// Script creates an image until the test ends: Image with a script as a program of the given name. It returns the image's name.
func (h Host) Script(t testing.TB, program, text string) (name string) {
	t.Helper()
	name = fmt.Sprintf("flynn-test/script-%s-%d", program, time.Now().UnixNano())
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "Dockerfile", Mode: 0o644}, fmt.Appendf(nil, "FROM %s\nCOPY program /bin/%s\n", Image, program))
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "program", Mode: 0o755}, []byte(text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	h.build(ctx, t, name, &files)
	return name
}

// build builds an image from a build context until the test ends.
func (h Host) build(ctx context.Context, t testing.TB, name string, files io.Reader) {
	t.Helper()
	built, err := h.API.ImageBuild(ctx, files, build.ImageBuildOptions{Tags: []string{name}, NetworkMode: "none", Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Body.Close()
	said, err := io.ReadAll(built.Body)
	if err != nil || strings.Contains(string(said), `"errorDetail"`) {
		t.Fatalf("build %s: %v %s", name, err, said)
	}
	t.Cleanup(func() {
		if _, err := h.API.ImageRemove(context.WithoutCancel(t.Context()), name, image.RemoveOptions{Force: true}); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	})
}
