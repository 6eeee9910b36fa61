package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// TerminalFrame is a text frame of a terminal's WebSocket.
type TerminalFrame struct {
	Type    string `json:"type"` // hello, resize; ready, ended, error
	Token   string `json:"token,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
	Cols    uint16 `json:"cols,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

const (
	typeResize = "resize"
	typeReady  = "ready"
	typeEnded  = "ended"
)

// decodeTerminal reads a text frame of a client strictly.
func decodeTerminal(data []byte) (TerminalFrame, error) {
	var f, none TerminalFrame
	fields, err := objectFields(data)
	if err != nil {
		return none, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return none, fmt.Errorf("decode frame: %w", err)
	}
	may := map[string][]string{TypeHello: {"type", "token", "rows", "cols"}, typeResize: {"type", "rows", "cols"}}[f.Type]
	if len(fields) != len(may) {
		return none, errors.New("a frame is hello with token, rows and cols, or resize with rows and cols")
	}
	for _, name := range may {
		if !slices.Contains(fields, name) {
			return none, fmt.Errorf("%s needs the field %q", f.Type, name)
		}
	}
	const most = 1000
	if f.Rows < 1 || f.Cols < 1 || f.Rows > most || f.Cols > most {
		return none, fmt.Errorf("rows and cols must be from 1 to %d", most)
	}
	return f, nil
}

func writeTerminal(ctx context.Context, conn *websocket.Conn, f TerminalFrame) error {
	data, err := jsonform.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminalPatience)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, data)
}

// refuseTerminal tells the client why and closes.
func refuseTerminal(ctx context.Context, conn *websocket.Conn, code, text string) {
	if writeTerminal(ctx, conn, TerminalFrame{Type: TypeError, Code: code, Message: text}) == nil {
		_ = conn.Close(websocket.StatusPolicyViolation, code)
	}
}
