//go:build linux

package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxSockets bounds what is read of a list of sockets, in bytes.
const maxSockets = 1 << 20

// listening returns the ports on which programs can be reached over loopback.
func (s *supervisor) listening(*transfer, struct{}) (any, error) {
	var ports []uint16
	seen := false
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue // a kernel without IPv6
		}
		table, err := io.ReadAll(io.LimitReader(f, maxSockets))
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read the sockets: %w", err)
		}
		seen = true
		ports = append(ports, listeners(table)...)
	}
	if !seen {
		return nil, fail(frame.Internal, "the kernel does not list sockets here")
	}
	slices.Sort(ports)
	ports = slices.DeleteFunc(slices.Compact(ports), func(port uint16) bool { return s.isOwnPort(int(port)) })
	most := min(len(ports), frame.MaxListened)
	return frame.ListenReply{Ports: ports[:most], More: most < len(ports)}, nil
}

// Addresses as the kernel writes them: each group of four bytes as one number in the machine's order, which is little-endian wherever the
// supervisor runs.
var reachable = map[string]bool{
	"00000000": true, "0100007F": true, // 0.0.0.0 and 127.0.0.1
	"00000000000000000000000000000000": true, "00000000000000000000000001000000": true, // :: and ::1
	"0000000000000000FFFF00000100007F": true, // ::ffff:127.0.0.1
}

// listeners returns the ports of a table of /proc/net whose sockets listen on an address that loopback reaches; see proc(5).
func listeners(table []byte) (ports []uint16) {
	const listen = "0A"
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[3]) != listen {
			continue
		}
		address, port, _ := strings.Cut(string(fields[1]), ":")
		if n, err := strconv.ParseUint(port, 16, 16); err == nil && n > 0 && reachable[address] {
			ports = append(ports, uint16(n))
		}
	}
	return ports
}
