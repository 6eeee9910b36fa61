package sandboxtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// Node returns an image with busybox and the machine's own Node.js in it, which is imported once per engine. Where there is
// none the test is skipped, or fails, as need.Part says.
func (h Host) Node(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	need.Part(t, "node", err)
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(fmt.Append(nil, "1", program, info.Size(), info.ModTime().UnixNano()))
	tag := "flynn-test/node:" + hex.EncodeToString(sum[:6])
	if err := importImage(t.Context(), h.API, tag, func() (io.Reader, error) { return nodeRoot(program) }); err != nil {
		t.Fatalf("make node image: %v", err)
	}
	return tag
}

// nodeRoot returns a root file system as an uncompressed tar.
func nodeRoot(program string) (io.Reader, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := busyboxInto(w); err != nil {
		return nil, err
	}
	libraries, err := linked([]string{program})
	if err != nil {
		return nil, err
	}
	for _, name := range libraries {
		if err := addFile(w, name, name); err != nil {
			return nil, err
		}
	}
	if err := addFile(w, program, "usr/bin/node"); err != nil {
		return nil, err
	}
	return &out, w.Close()
}
