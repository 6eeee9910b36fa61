package modeltest

import (
	"net/http"
	"strconv"
	"time"
)

// Reply is one scripted response. The zero value is an answer without content.
type Reply struct {
	// Text and Calls are the answer. Text is the message of the error where Fail is set.
	Text  string
	Calls []Call
	// Thinking and Redacted come before them, signed, if the format has thoughts.
	Thinking, Redacted string
	// Stop is the format's reason to stop; empty means the one that fits the answer.
	Stop string
	// Input, Output and CacheRead are the usage figures as the format counts; NoUsage leaves them out.
	Input, Output, CacheRead int
	NoUsage                  bool
	// Piece is how many bytes of text or arguments go into one event, 7 by default. Characters
	// stay whole.
	Piece int
	// Chunk is how many bytes of the HTTP body are sent at a time, all by default. With 1 every
	// character and every event is split.
	Chunk int

	// Fail makes the response an error, with the status and body that the real API sends.
	Fail Failure
	// FailAfter sends the error as an event inside the stream, after the text.
	FailAfter bool
	Header    http.Header

	// Cut ends the body after so many bytes: the connection breaks, or with CutCleanly the body just ends.
	Cut        int
	CutCleanly bool
	// Stall holds the connection open after Cut bytes until the client leaves.
	Stall bool
	// NoEnd leaves the end marker out: message_stop, or finish_reason and [DONE].
	NoEnd bool
	// NoDone leaves out [DONE] alone; the Anthropic format has none.
	NoDone bool
	// Tail is sent after the answer; clients have stopped reading by then.
	Tail string

	// Status, ContentType and Raw replace those parts of the response.
	Status      int
	ContentType string
	Raw         string
}

// Call is a tool call as the model writes it.
type Call struct {
	ID   string
	Name string // as on the wire: "shell__exec"
	Args string // need not be JSON
}

// Failure is an error of a real API.
type Failure int

// The failures.
const (
	None Failure = iota
	BadKey
	NoCredit
	RateLimit
	Overload // 529 at Anthropic, 503 at OpenAI
	ServerError
	TooLong
	BadRequest
	NoModel
)

// RateLimited is a 429 that asks for a wait in whole seconds.
func RateLimited(wait time.Duration) Reply {
	return Reply{Fail: RateLimit, Header: http.Header{"Retry-After": {strconv.Itoa(int(wait.Seconds()))}}}
}

func (r Reply) override(out rendered) rendered {
	if r.Status != 0 {
		out.status = r.Status
	}
	if r.ContentType != "" {
		out.contentType = r.ContentType
	}
	if r.Raw != "" {
		out.body = []byte(r.Raw)
	}
	return out
}

// pieces splits text into events of about size bytes, never inside a character.
func pieces(text string, size int) []string {
	if size <= 0 {
		size = 7
	}
	var out []string
	start := 0
	for i := range text {
		if i-start >= size {
			out = append(out, text[start:i])
			start = i
		}
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}
