package sandboxtest

import (
	"archive/tar"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// Node returns an image with busybox and the machine's own Node.js. It is imported once per engine. If there is none the test is skipped or
// fails; see need.Part.
func (h Host) Node(t testing.TB) string {
	t.Helper()
	program, err := findNode()
	need.Part(t, "node", err)
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	tag := "flynn-test/node:" + digest("1", program, info.Size(), info.ModTime().UnixNano())
	err = importImage(t.Context(), h.API, tag, func() io.Reader {
		return root(func(w *tar.Writer) error {
			if err := addLinked(w, program); err != nil {
				return err
			}
			return addFile(w, program, "usr/bin/node")
		})
	})
	if err != nil {
		t.Fatalf("make node image: %v", err)
	}
	return tag
}

// findNode returns the path of the machine's own Node.js.
func findNode() (string, error) {
	program, err := exec.LookPath("node")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(program)
}
