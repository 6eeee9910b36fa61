package ps

import (
	"bytes"
	"encoding/binary"
)

// parseArguments returns the environment in what macOS's sysctl kern.procargs2 gives: the number of arguments, the program's path, zero
// bytes, the arguments, and the variables up to an empty one.
func parseArguments(raw []byte) [][]byte {
	if len(raw) < 4 {
		return nil
	}
	count := binary.NativeEndian.Uint32(raw)
	rest := raw[4:min(len(raw), maxEnviron)]
	_, rest, found := bytes.Cut(rest, []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for ; count > 0 && found; count-- {
		_, rest, found = bytes.Cut(rest, []byte{0})
	}
	if !found {
		return nil
	}
	var environ [][]byte
	for variable := range bytes.SplitSeq(rest, []byte{0}) {
		if len(variable) == 0 {
			break
		}
		environ = append(environ, variable)
	}
	return environ
}
