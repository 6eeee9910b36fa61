package sandboxtest

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
)

// Registry is a registry of images on the loopback, where engines take one without TLS. It has what engines use of the distribution API.
type Registry struct {
	host    string // address and port
	mu      sync.Mutex
	blobs   map[string][]byte    // by digest
	tags    map[string]reference // by path
	uploads map[string][]byte    // by path
	trouble Trouble
	over    chan struct{} // closed when answers that stall have to go on
	stalls  chan struct{} // gets something when an answer stalls
}

// reference is a manifest by one of its names.
type reference struct{ kind, digest string }

// Trouble is what a registry does to those that pull.
type Trouble string

// The troubles. Stalled is a layer of which half comes at once and the rest when the trouble is over.
const (
	NoTrouble Trouble = ""
	Stalled   Trouble = "stalled"
	Altered   Trouble = "altered"
	Closed    Trouble = "closed" // only for those with a password
)

// FillerSize is the size of a file that does not get smaller when it is packed.
const FillerSize = 4 << 20

// NewRegistry starts a registry for the duration of the test.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{blobs: map[string][]byte{}, tags: map[string]reference{}, uploads: map[string][]byte{}, over: make(chan struct{}), stalls: make(chan struct{}, 1)}
	s := httptest.NewServer(r)
	r.host = strings.TrimPrefix(s.URL, "http://")
	t.Cleanup(func() {
		r.Suffer(NoTrouble)
		s.Close()
	})
	return r
}

// Suffer puts the registry into trouble, or ends that.
func (r *Registry) Suffer(what Trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = what
	close(r.over)
	r.over = make(chan struct{})
}

// AwaitStall waits until a pull gets no further.
func (r *Registry) AwaitStall(t testing.TB) {
	t.Helper()
	select {
	case <-r.stalls:
	case <-time.After(3 * time.Minute):
		t.Error("nobody pulls")
	}
}

// Image makes an image like that of the constant, with a file filler of FillerSize bytes, and leaves it in the registry only. It returns its name.
func (r *Registry) Image(t testing.TB, h Host) (name string) {
	t.Helper()
	name = fmt.Sprintf("%s/flynn/pulled:%s", r.host, strings.ToLower(rand.Text()[:8]))
	filler := make([]byte, FillerSize)
	_, _ = rand.Read(filler) // never fails
	more := func(w *tar.Writer) error {
		add(w, tar.Header{Typeflag: tar.TypeReg, Name: "filler", Mode: 0o644}, filler)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err := importImage(ctx, h.API, name, func() io.Reader { return root(more) })
	var body io.ReadCloser
	if err == nil {
		body, err = h.API.ImagePush(ctx, name, image.PushOptions{RegistryAuth: "e30="}) // {}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	said, err := io.ReadAll(body)
	if err != nil || strings.Contains(string(said), `"errorDetail"`) {
		t.Fatalf("push: %v %s", err, said)
	}
	h.Forget(t, name)
	t.Cleanup(func() { h.Forget(t, name) })
	return name
}

// Forget removes an image from the engine.
func (h Host) Forget(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := h.API.ImageInspect(ctx, name); err != nil {
		return
	}
	if _, err := h.API.ImageRemove(ctx, name, image.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
		t.Errorf("remove %s: %v", name, err)
	}
}

// ServeHTTP implements the distribution API.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	trouble, over := r.trouble, r.over
	r.mu.Unlock()
	repository, rest, blob := strings.Cut(q.URL.Path, "/blobs/")
	_, tag, manifest := strings.Cut(q.URL.Path, "/manifests/")
	switch {
	case trouble == Closed:
		w.Header().Set("WWW-Authenticate", `Basic realm="flynn"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
	case q.URL.Path == "/v2/":
	case blob && strings.HasPrefix(rest, "uploads/"):
		r.upload(w, q, repository, body)
	case blob:
		r.blob(w, q, rest, trouble, over)
	case manifest && q.Method == http.MethodPut:
		digest := r.keep(body)
		r.mu.Lock()
		r.tags[tag], r.tags[digest] = reference{q.Header.Get("Content-Type"), digest}, reference{q.Header.Get("Content-Type"), digest}
		r.mu.Unlock()
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
	case manifest:
		r.mu.Lock()
		at, known := r.tags[tag]
		text := r.blobs[at.digest]
		r.mu.Unlock()
		if !known {
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
			return
		}
		w.Header().Set("Content-Type", at.kind)
		w.Header().Set("Docker-Content-Digest", at.digest)
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if q.Method != http.MethodHead {
			_, _ = w.Write(text)
		}
	default:
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, strings.ToLower(strings.ReplaceAll(code, "_", " ")))
}

// keep keeps a blob and returns its digest.
func (r *Registry) keep(text []byte) (digest string) {
	sum := sha256.Sum256(text)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[digest] = text
	return digest
}

// upload takes a part of a blob, or its end.
func (r *Registry) upload(w http.ResponseWriter, q *http.Request, repository string, body []byte) {
	at := q.URL.Path
	if q.Method == http.MethodPost {
		at = repository + "/blobs/uploads/" + rand.Text()
	}
	r.mu.Lock()
	r.uploads[at] = append(r.uploads[at], body...)
	text := r.uploads[at]
	r.mu.Unlock()
	if q.Method == http.MethodPut {
		w.Header().Set("Docker-Content-Digest", r.keep(text))
		w.WriteHeader(http.StatusCreated)
		return
	}
	w.Header().Set("Location", at)
	w.Header().Set("Docker-Upload-UUID", at[strings.LastIndex(at, "/")+1:])
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(len(text)-1, 0)))
	w.WriteHeader(http.StatusAccepted)
}

// blob sends a blob. Only layers are large enough for trouble.
func (r *Registry) blob(w http.ResponseWriter, q *http.Request, digest string, trouble Trouble, over chan struct{}) {
	r.mu.Lock()
	text, known := r.blobs[digest]
	r.mu.Unlock()
	if !known {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
		return
	}
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	if q.Method == http.MethodHead {
		return
	}
	if len(text) < 1<<20 {
		trouble = NoTrouble
	}
	half := len(text) / 2
	switch trouble {
	case Altered:
		text = append([]byte{}, text...)
		text[half] ^= 1
	case Stalled:
		_, _ = w.Write(text[:half])
		_ = http.NewResponseController(w).Flush()
		text = text[half:]
		select {
		case r.stalls <- struct{}{}:
		default:
		}
		select {
		case <-over:
		case <-q.Context().Done():
			return
		}
	}
	_, _ = w.Write(text)
}
