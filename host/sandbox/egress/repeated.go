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

// wholePage removes the fields that ask for a part of the answer: if a credential is cut in two, neither part is recognised. Servers may
// ignore these fields (RFC 9110, 14.2), so programs cannot rely on them.
func wholePage(h http.Header) {
	h.Del("Range")
	h.Del("If-Range")
}

// blot removes secrets from a header that repeats them. A field whose name contains one, in any case, is removed.
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

// readable decompresses an answer that the server compressed although asked not to, so that it can be searched for secrets.
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

// inflate decompresses gzip; empty input gives empty output.
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
