package sandboxtest

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Busybox is the machine's static busybox, from Debian's package busybox-static.
const Busybox = "/bin/busybox"

// root returns a root file system with busybox, extended by more, as an uncompressed tar. Reading returns any error.
func root(more func(w *tar.Writer) error) io.Reader {
	r, out := io.Pipe()
	go func() { // ends with its reader
		w := tar.NewWriter(out)
		err := busyboxInto(w)
		if err == nil {
			err = more(w)
		}
		out.CloseWithError(errors.Join(err, w.Close()))
	}()
	return r
}

// BusyboxRoot returns a root file system that contains only busybox, as an uncompressed tar.
func BusyboxRoot() io.Reader { return root(func(*tar.Writer) error { return nil }) }

// digest returns a name for an image that depends on its parts.
func digest(parts ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return hex.EncodeToString(sum[:6])
}

func busyboxInto(w *tar.Writer) error {
	program, err := os.ReadFile(Busybox)
	if err != nil {
		return fmt.Errorf("make test image: %w: install busybox-static", err)
	}
	applets, err := exec.Command(Busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("make test image: list applets: %w", err)
	}
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys", "root", "tmp", "usr", "usr/bin", "var"} {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		add(w, tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}, nil)
	}
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			add(w, tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	return nil
}

// add writes to memory, so it can only fail for an invalid header, which Close reports.
func add(w *tar.Writer, h tar.Header, content []byte) {
	h.Size = int64(len(content))
	if w.WriteHeader(&h) == nil {
		_, _ = w.Write(content)
	}
}
