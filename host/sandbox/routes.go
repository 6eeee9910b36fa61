package sandbox

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// noRoutesScript prints the kernel's counters of the container's network namespace, by the shell alone.
const noRoutesScript = "while read -r l; do echo \"$l\"; done < /proc/net/snmp; while read -r l; do echo \"$l\"; done < /proc/net/snmp6"

// noRoutes counts what programs in a container without a network have sent or connected beyond it: the kernel counts each
// try for which it knows no route. Nothing in the container can change the counters. It is 0 where they cannot be had.
func noRoutes(ctx context.Context, c *container.Container) int64 {
	r, err := c.Exec(ctx, machine.Command{Script: noRoutesScript, Timeout: 5 * time.Second, MaxOutput: 64 << 10})
	if err != nil {
		return 0
	}
	return parseNoRoutes(string(r.Stdout))
}

// parseNoRoutes adds up OutNoRoutes of proc_net_snmp(5), where a line of names comes before one of values, and
// Ip6OutNoRoutes of its sister for IPv6, which has one name and value a line.
func parseNoRoutes(text string) int64 {
	var sum int64
	var names []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "Ip6OutNoRoutes":
			sum += count(words[1])
		case len(words) == 0 || words[0] != "Ip:":
		case names == nil:
			names = words
		default:
			for i, name := range names {
				if name == "OutNoRoutes" && i < len(words) {
					sum += count(words[i])
				}
			}
			names = nil
		}
	}
	return sum
}

// maxCount is more than a program can try within its time, and bounds a number that is nonsense.
const maxCount = 1 << 40

func count(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}
