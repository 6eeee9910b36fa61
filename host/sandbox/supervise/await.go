//go:build linux

package supervise

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// awaitSettings waits until the sandbox of this supervisor is complete. It returns nil if there will be none.
func awaitSettings() (*frame.Settings, error) {
	unix.CloseOnExec(frame.SettingsFD)
	defer unix.Close(frame.SettingsFD)
	message := make([]byte, frame.MaxSettings)
	for {
		n, err := unix.Read(frame.SettingsFD, message)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, fmt.Errorf("receive the settings of the sandbox: %w", err)
		case n == 0:
			return nil, nil
		}
		var s frame.Settings
		if err := json.Unmarshal(message[:n], &s); err != nil {
			return nil, fmt.Errorf("receive the settings of the sandbox: %w", err)
		}
		return &s, nil
	}
}
