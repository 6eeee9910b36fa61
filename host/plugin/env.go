package plugin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// passedOn are the host's variables that every plugin gets: without them TLS and local time do not work. Proxies are not among
// them, because their addresses can contain passwords; a plugin asks for those in permissions.env.
var passedOn = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "TZ", "SYSTEMROOT"}

// oneThread limits a Go program that only relays messages to one thread at a time. One that computes can ask for more by
// runtime.GOMAXPROCS, or in permissions.env.
const oneThread = "GOMAXPROCS=1"

// environment is the environment of a plugin, except for what the handshake adds. It contains nothing of the configuration and no
// secret.
func environment(m Manifest, relays bool, scratch string, lookup func(string) (string, bool)) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + scratch,
		"TMPDIR=" + scratch,
		"LANG=C.UTF-8",
		"FLYNN_PLUGIN_NAME=" + m.Name,
	}
	if relays {
		env = append(env, oneThread)
	}
	for _, name := range slices.Concat(passedOn, m.Permissions.Env) {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if m.Run.Memory > 0 {
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(int64(m.Run.Memory), 10))
	}
	return env
}

// reservedEnv reports whether a manifest must not ask for a variable: those that decide which code the process loads, and the host's own.
func reservedEnv(name string) bool {
	return strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, "FLYNN_") || strings.HasPrefix(name, "LD_") ||
		strings.HasPrefix(name, "DYLD_") || slices.Contains([]string{"PATH", "HOME", "TMPDIR", "NODE_OPTIONS", handshake.CookieKey}, name)
}
