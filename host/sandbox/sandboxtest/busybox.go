package sandboxtest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Busybox is the machine's static busybox; Debian's package is busybox-static.
const Busybox = "/bin/busybox"

// busyboxRoot returns a root file system as an uncompressed tar.
func busyboxRoot() (io.Reader, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := busyboxInto(w); err != nil {
		return nil, err
	}
	return &out, w.Close()
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

// add writes into memory, so its errors are only mistakes in the header; Close reports them.
func add(w *tar.Writer, h tar.Header, content []byte) {
	h.Size = int64(len(content))
	if w.WriteHeader(&h) == nil {
		_, _ = w.Write(content)
	}
}
