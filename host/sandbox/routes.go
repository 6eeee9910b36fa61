package sandbox

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// noRoutesScript prints the kernel's counters of the container's network namespace, using only the shell.
const noRoutesScript = "while read -r l; do echo \"$l\"; done < /proc/net/snmp; while read -r l; do echo \"$l\"; done < /proc/net/snmp6"

// noRoutes counts the attempts of programs in a container without a network to reach beyond it: the kernel counts each packet for which it
// has no route. Programs in the container cannot change the counters. It returns 0 if they cannot be read.
func noRoutes(ctx context.Context, c *container.Container) int64 {
	r, err := c.Exec(ctx, machine.Command{Script: noRoutesScript, Timeout: 5 * time.Second, MaxOutput: 64 << 10})
	if err != nil {
		return 0
	}
	return parseNoRoutes(string(r.Stdout))
}

// parseNoRoutes adds up OutNoRoutes of /proc/net/snmp (see proc_net_snmp(5)), where a line of names precedes a line of values, and
// Ip6OutNoRoutes of its IPv6 counterpart, which has one name and value per line.
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

// maxCount is more than a program can reach, and bounds implausible numbers.
const maxCount = 1 << 40

func count(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}
