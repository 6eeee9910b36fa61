package gateway_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// TestAssets fetches every file of the console: the compressed form is the same file, and a browser that has it is told so.
func TestAssets(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	err := fs.WalkDir(console, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		want, err := fs.ReadFile(console, name)
		if err != nil {
			return err
		}
		status, header, body := d.ask(request{path: "/" + name, header: map[string]string{"Accept-Encoding": "gzip"}})
		got := []byte(body)
		if header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				return err
			}
			if got, err = io.ReadAll(z); err != nil {
				return err
			}
		}
		if status != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("%s: %d, %d bytes, want %d", name, status, len(got), len(want))
		}
		if _, _, plain := d.ask(request{path: "/" + name, header: map[string]string{"Accept-Encoding": "identity"}}); plain != string(want) {
			t.Errorf("%s differs when it is not compressed", name)
		}
		if status, _, body := d.ask(request{path: "/" + name, header: map[string]string{"If-None-Match": header.Get("ETag")}}); status != http.StatusNotModified || body != "" {
			t.Errorf("%s: a browser that has it gets %d", name, status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/none", "/../gateway.go", "/%2e%2e/gateway.go", "/vendor", "/vendor/"} {
		if status, _, _ := d.ask(request{path: path}); status == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
}
