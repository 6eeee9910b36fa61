//go:build linux

package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// awaitSettings waits until the sandbox of this supervisor is complete. It returns nil if there will be none.
func (s *supervisor) awaitSettings() (*frame.Settings, error) {
	unix.CloseOnExec(frame.SettingsFD)
	defer unix.Close(frame.SettingsFD)
	if n, err := unix.Poll([]unix.PollFd{{Fd: frame.SettingsFD, Events: unix.POLLIN}}, 0); n == 0 && err == nil {
		s.rehearse()
	}
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
		settings := new(frame.Settings)
		if err := json.Unmarshal(message[:n], settings); err != nil {
			return nil, fmt.Errorf("receive the settings of the sandbox: %w", err)
		}
		return settings, nil
	}
}

// takeStream makes the socket that is standard input and output the stream of frames, which can be hung up and written to after the host's end.
func (s *supervisor) takeStream() error {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	for std := 0; std <= 1 && err == nil; std++ {
		err = unix.Dup3(s.spawner.null, std, 0)
	}
	if err != nil {
		return fmt.Errorf("take the connection to the host: %w", err)
	}
	s.direct = os.NewFile(uintptr(fd), "host")
	s.out.attach(s.direct)
	return nil
}

// rehearse does once what the first command needs, while nobody waits. The first time a message is decoded takes as long as a hundred times later, and
// each page of this program that is used for the first time is a fault.
func (s *supervisor) rehearse() {
	loadProgram()
	lookAround("", "/")
	newCommand(s, 0, frame.ExecBody{Spill: true})
	again(frame.HelloBody{})
	again(frame.WelcomeBody{})
	again(frame.ExecBody{})
	again(frame.ExitBody{})
	again(frame.Settings{})
}

// again encodes and decodes a body.
func again[T any](body T) { _ = frame.Decode(frame.Encode(body), &body) }

// loadProgram maps the pages of this program that are only read, which are in memory. A kernel that cannot (before Linux 5.14) maps them one by one.
func loadProgram() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1][0] != 'r' || fields[1][1] == 'w' || fields[4] == "0" {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		first, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && first < end {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(first), uintptr(end-first), unix.MADV_POPULATE_READ)
		}
	}
}
