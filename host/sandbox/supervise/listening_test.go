//go:build linux

package supervise

import (
	"fmt"
	"strings"
	"testing"
)

func TestListeners(t *testing.T) {
	const title = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	line := func(address, state string) string {
		return "   0: " + address + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0\n"
	}
	for _, c := range []struct{ name, table, want string }{
		{"all addresses, loopback, and another", title + line("00000000:0BB8", "0A") + line("0100007F:0BB9", "0A") + line("0900007F:0BBA", "0A") + line("020011AC:0BBB", "0A"), "[3000 3001]"},
		{"IPv6", title + line(strings.Repeat("0", 32)+":1F90", "0A") + line(strings.Repeat("0", 24)+"01000000:1F91", "0A") + line("0000000000000000FFFF00000100007F:1F92", "0A") +
			line("000080FE00000000FF002AFE4C9AFBFE:1F93", "0A"), "[8080 8081 8082]"},
		{"connections", title + line("0100007F:0BB8", "01") + line("0100007F:0BB9", "06"), "[]"},
		{"empty", "", "[]"},
		{"cut in the middle of a line", title + line("00000000:0BB8", "0A") + "   1: 00000000:0B", "[3000]"},
		{"noise", "a b c 0A\n:: : : 0A\n0 00000000:10000 0 0A\n0 00000000: 0 0A\n0 00000000:-1 0 0A\n0 00000000:0000 0 0A\n\x00\xff\n", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(listeners([]byte(c.table))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
