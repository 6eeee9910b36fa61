package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds one answer, in bytes.
const maxAnswer = 32 << 20

var errTooBig = errors.New("the answer is larger than 32 MiB")

// boundedBody fails when the server sends more than maxAnswer.
type boundedBody struct {
	io.ReadCloser
	left   int
	cancel context.CancelFunc // of the request
	tail   []byte             // the last bytes that were read
}

// tailBytes hold the end marker of a stream and a little noise behind it.
const tailBytes = 128

// Ended reports whether the body of a response of Post, as far as it was read, ends with a line that begins
// with marker, give or take a little noise. The line may lack its end.
func Ended(resp *http.Response, marker string) bool {
	if resp == nil {
		return false
	}
	b, ok := resp.Body.(*boundedBody)
	return ok && bytes.Contains(b.tail, []byte("\n"+marker))
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooBig
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.tail = append(b.tail, p[max(0, n-tailBytes):n]...)
	b.tail = b.tail[max(0, len(b.tail)-tailBytes):]
	return n, err
}

// How much and how long Close reads to find the end of the body: only then can an HTTP/1 connection carry the next call,
// and readers stop at the end of the answer.
const (
	drainBytes = 4 << 10
	drainTime  = 20 * time.Millisecond
)

func (b *boundedBody) Close() error {
	defer b.cancel()
	timer := time.AfterFunc(drainTime, b.cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, b.ReadCloser, drainBytes) // only an attempt
	return b.ReadCloser.Close()
}
