package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// Call is one permitted tool call. Progress, Log and Write may be used from many goroutines; they do nothing after the end of the call.
type Call struct {
	ID   string // names the call in logs
	Key  string // the same for a repeated attempt of one call
	Tool string
	Args json.RawMessage

	stream grpc.ServerStreamingServer[toolv1.CallResponse] // nil in a Call made by a test

	mu   sync.Mutex // orders the frames
	over bool
}

// Decode fills the struct that v points to with the arguments, by its json tags. Unknown arguments are an error.
func (c *Call) Decode(v any) error {
	if len(c.Args) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode the arguments: %w", err)
	}
	return nil
}

// Progress reports the progress of the call, in the tool's own unit; total is 0 if unknown. text is for people.
func (c *Call) Progress(done, total float64, text string) {
	c.send(&toolv1.CallResponse{Frame: &toolv1.CallResponse_Progress{
		Progress: &toolv1.Progress{Done: done, Total: total, Text: head(text, maxLine)},
	}})
}

// Log logs a line about the call on the host: level is "debug", "info", "warn" or "error".
func (c *Call) Log(level, text string) {
	c.send(&toolv1.CallResponse{Frame: &toolv1.CallResponse_Log{Log: &toolv1.Log{Level: level, Text: head(text, maxLine)}}})
}

// Write shows output while the call runs. It never fails, even if nobody watches.
func (c *Call) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), handshake.MaxChunk)
		c.send(&toolv1.CallResponse{Frame: &toolv1.CallResponse_Chunk{Chunk: rest[:n]}})
		rest = rest[n:]
	}
	return len(p), nil
}

const maxLine = 4 << 10 // bytes

func (c *Call) send(frame *toolv1.CallResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && c.stream != nil {
		_ = c.stream.Send(frame) // a broken stream ends the call's context
	}
}

// finish sends the last frame.
func (c *Call) finish(r *toolv1.Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.stream.Send(&toolv1.CallResponse{Frame: &toolv1.CallResponse_Result{Result: r}})
}

// head returns the beginning of text, at most that many bytes and valid UTF-8.
func head(text string, most int) string { return process.UTF8(cut.Head(text, most)) }
