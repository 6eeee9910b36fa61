package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The engine may be on another machine, or a proxy may answer in its place: no answer may exhaust the host's memory.
const (
	maxAnswer = 64 << 20 // bytes of an answer read as a whole: the list of some 30,000 containers
	maxEvent  = 8 << 20  // bytes of one object of a streamed answer
)

// errIncomplete is the error for an answer that lacks what every container or image has.
var errIncomplete = errors.New("its answer is incomplete")

// bounded limits the answers that the client reads as a whole.
type bounded struct {
	http.RoundTripper
	most int64 // bytes
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil && !isFollowed(r.URL.Path) {
		answer.Body = &limited{ReadCloser: answer.Body, most: b.most, left: b.most}
	}
	return answer, err
}

// isFollowed reports whether the answer is streamed while the engine works.
func isFollowed(path string) bool {
	return strings.HasSuffix(path, "/build") || strings.HasSuffix(path, "/images/create") || strings.HasSuffix(path, "/logs")
}

// limited fails once more than the remaining bytes are read.
type limited struct {
	io.ReadCloser
	most, left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("its answer is larger than %d MiB", l.most>>20)
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// each calls see for every object of an answer, until see fails or the answer ends.
func each[E any](body io.Reader, see func(E) error) error {
	allowed := &io.LimitedReader{R: body}
	for events := json.NewDecoder(allowed); ; {
		allowed.N = maxEvent
		var e E
		switch err := events.Decode(&e); {
		case allowed.N <= 0:
			return fmt.Errorf("an object of its answer is larger than %d MiB", maxEvent>>20)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := see(e); err != nil {
			return err
		}
	}
}
