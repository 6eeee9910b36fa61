package gateway

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed console
var console embed.FS

// assets serves the files of the console, compressed for browsers that can take that. A browser keeps them and asks whether they have
// changed.
type assets struct {
	files fs.FS

	mu     sync.Mutex
	packed map[string]asset // that were asked for
	packer sync.Pool        // of *gzip.Writer, which have a megabyte each
}

// asset is one file as it is sent.
type asset struct {
	kind, tag string
	gzip      []byte // nil if it would not be smaller
}

func newAssets() *assets {
	files, err := fs.Sub(console, "console")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return &assets{files: files, packed: map[string]asset{}}
}

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	file, err := a.asset(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", file.kind)
	h.Set("ETag", file.tag)
	h.Set("Vary", "Accept-Encoding")
	if file.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.gzip))
		return
	}
	plain, err := fs.ReadFile(a.files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(plain))
}

func (a *assets) asset(name string) (asset, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if file, ok := a.packed[name]; ok {
		return file, nil
	}
	text, err := fs.ReadFile(a.files, name)
	if err != nil {
		return asset{}, err
	}
	sum := sha256.Sum256(text)
	file := asset{kind: mime.TypeByExtension(path.Ext(name)), tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
	switch path.Ext(name) {
	case ".js":
		file.kind = "text/javascript; charset=utf-8"
	case ".webmanifest":
		file.kind = "application/manifest+json"
	case "":
		file.kind = "text/plain; charset=utf-8"
	}
	var packed bytes.Buffer
	z, ok := a.packer.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestCompression) // a level that there is
	}
	z.Reset(&packed)
	_, _ = z.Write(text)
	_ = z.Close()
	a.packer.Put(z)
	if packed.Len() < len(text) {
		file.gzip = packed.Bytes()
	}
	a.packed[name] = file
	return file, nil
}
