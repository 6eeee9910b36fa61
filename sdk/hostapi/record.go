package hostapi

import (
	"bytes"
	"errors"
	"net/http"
)

// maxAnswer bounds the body of a response to a webhook call.
const maxAnswer = 256 << 10

// errAnswer is the error of Write for a response that is too long.
var errAnswer = errors.New("the answer to a webhook call has more than 256 KiB")

// record is the http.ResponseWriter of a webhook call. It holds the response until the handler has returned.
type record struct {
	header http.Header
	status int // 0 until the handler has chosen one
	body   bytes.Buffer
	sent   string // the content type when the status was written
	long   bool
}

func newRecord() *record { return &record{header: http.Header{}} }

// Header implements http.ResponseWriter.
func (r *record) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. Informational responses are ignored; of the others the first one counts.
func (r *record) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status, r.sent = status, r.header.Get("Content-Type")
	}
}

// Write implements http.ResponseWriter.
func (r *record) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.body.Len()+len(p) > maxAnswer {
		r.long = true
		return 0, errAnswer
	}
	return r.body.Write(p)
}

// answer returns the response for the host. One that was too long becomes a status 500.
func (r *record) answer() (status int, contentType string, body []byte) {
	r.WriteHeader(http.StatusOK)
	if r.long {
		return http.StatusInternalServerError, "", nil
	}
	contentType = r.sent
	if contentType == "" && r.body.Len() > 0 {
		contentType = http.DetectContentType(r.body.Bytes())
	}
	return r.status, contentType, r.body.Bytes()
}
