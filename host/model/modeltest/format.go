package modeltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// format is one of the wire formats.
type format interface {
	// key returns the API key of a request.
	key(http.Header) string
	// check returns the error of the real API for a request, or "".
	check(body []byte) string
	// render turns a reply into a response.
	render(r Reply, stream bool) rendered
}

func formatOf(r *http.Request) (format, bool) {
	if r.Method != http.MethodPost {
		return nil, false
	}
	switch r.URL.Path {
	case "/v1/messages":
		return anthropic{}, true
	case "/v1/chat/completions":
		return openai{}, true
	}
	return nil, false
}

// object is a JSON object.
type object = map[string]any

// mustJSON encodes a value of this package.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("modeltest: encode %T: %v", v, err))
	}
	return b
}

func jsonResponse(status int, v any) rendered {
	return rendered{status: status, contentType: "application/json", body: mustJSON(v)}
}

// events is the body of a stream.
type events struct{ bytes.Buffer }

func (e *events) named(name string, data any) {
	fmt.Fprintf(e, "event: %s\ndata: %s\n\n", name, mustJSON(data))
}

func (e *events) unnamed(data any) {
	fmt.Fprintf(e, "data: %s\n\n", mustJSON(data))
}

func (e *events) response() rendered {
	return rendered{status: http.StatusOK, contentType: "text/event-stream; charset=utf-8", body: e.Bytes()}
}

var (
	validToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	validCallID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
)

// Signature signs a thought as the server does, which accepts no other.
func Signature(thought string) string {
	sum := sha256.Sum256([]byte("signed " + thought))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// checkImage returns the error of an API for an image: too many bytes, or bytes of another type than the given one.
func checkImage(mediaType, data string) string {
	raw, err := base64.StdEncoding.DecodeString(data)
	switch {
	case err != nil:
		return "image: invalid base64 data"
	case len(data) > 5<<20:
		return "image exceeds 5 MB maximum"
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mediaType):
		return "image: media type " + mediaType + " is not supported"
	case http.DetectContentType(raw) != mediaType:
		return "image: the data is " + http.DetectContentType(raw) + ", not " + mediaType
	}
	return ""
}
