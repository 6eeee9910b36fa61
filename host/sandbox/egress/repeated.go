package egress

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/flynnhost/flynn/host/internal/redact"
)

// wholePage leaves out what would have the server send a part of its answer: of a credential that is cut in two neither part
// is recognised. A server may always ignore these fields (RFC 9110, 14.2), so no program can rely on them.
func wholePage(h http.Header) {
	h.Del("Range")
	h.Del("If-Range")
}

// blot takes secrets out of a header that repeats them. In a name, of which case means nothing, they cost the whole field.
func blot(h http.Header, secrets []string) {
	inValues, inNames := redact.NewStream(secrets...), redact.NewStream(lower(secrets)...)
	for name, values := range h {
		if small := strings.ToLower(name); inNames.String(small) != small {
			delete(h, name)
			continue
		}
		for i := range values {
			values[i] = inValues.String(values[i])
		}
	}
}

func lower(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strings.ToLower(text)
	}
	return all
}

var errUnsearchable = errors.New("the server has compressed its answer unasked, so that it cannot be searched for the credential")

// readable undoes a compression that the server was asked not to use, so that what it repeats can be found.
func readable(response *http.Response) error {
	coding := strings.ToLower(strings.Join(response.Header["Content-Encoding"], ","))
	switch strings.TrimSpace(coding) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
	default:
		return refuse(http.StatusBadGateway, errUnsearchable)
	}
	response.Header.Del("Content-Encoding")
	response.Header.Del("Content-Range")
	response.ContentLength = -1
	response.Body = struct {
		io.Reader
		io.Closer
	}{inflate(response.Body), response.Body}
	return nil
}

// inflate reads gzip; of nothing it makes nothing.
func inflate(src io.Reader) io.Reader { return &inflating{src: bufio.NewReader(src)} }

type inflating struct {
	src *bufio.Reader
	out io.Reader // nil before the first byte
}

func (f *inflating) Read(p []byte) (int, error) {
	if f.out == nil {
		if _, err := f.src.Peek(1); err != nil {
			return 0, err
		}
		out, err := gzip.NewReader(f.src)
		if err != nil {
			return 0, err
		}
		f.out = out
	}
	return f.out.Read(p)
}
