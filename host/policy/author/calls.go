package author

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// callMade returns a recorded host call for people.
func callMade(c policy.HostCall) CallMade {
	return CallMade{c.Name, arguments(c), c.Ret, printable(c.Data)}
}

// arguments formats the recorded arguments of a call: numbers first, then text.
func arguments(c policy.HostCall) string {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(c.Args[4*i:]) }
	switch n := len(c.Args); {
	case c.Name == "trace" && n == 8 && word(1) != 0:
		return fmt.Sprintf("rule %d applies", word(0))
	case c.Name == "trace" && n == 8:
		return fmt.Sprintf("rule %d does not apply", word(0))
	case c.Name == "get" && n == 8:
		return fmt.Sprintf("%s %d", fieldName(abi.Field(word(0))), word(1))
	case c.Name == "log" && n >= 4:
		return printable(c.Args[4:])
	case c.Name == "match" && n >= 8 && uint64(word(1)) <= uint64(n-8):
		pattern, s := c.Args[8:8+word(1)], c.Args[8+word(1):]
		return matchName(word(0)) + " " + printable(pattern) + " " + printable(s)
	}
	return printable(c.Args)
}

func matchName(kind uint32) string {
	names := map[uint32]string{abi.MatchGlob: "glob", abi.MatchCIDR: "cidr", abi.MatchRE2: "re2", abi.MatchDomain: "domain"}
	if name, ok := names[kind]; ok {
		return name
	}
	return strconv.Itoa(int(kind))
}

// printable returns text of one line unchanged, other text quoted, and other bytes in hexadecimal.
func printable(b []byte) string {
	s := string(b)
	switch {
	case !utf8.ValidString(s):
		return fmt.Sprintf("0x%x", b)
	case strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(s)
	}
	return s
}
