package plugin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// passedOn are the host's variables that every plugin may see: without them TLS and local time do not work. Proxies are not
// among them, since their addresses can hold passwords; a plugin asks for those by permissions.env.
var passedOn = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "TZ", "SYSTEMROOT"}

// oneThread keeps a Go program that only passes on what others say to one thread at a time. One that computes may ask for more by
// runtime.GOMAXPROCS, or by permissions.env.
const oneThread = "GOMAXPROCS=1"

// environment is everything that a plugin finds in its environment, besides what the handshake adds. Nothing of the
// configuration and no secret is in it.
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

// reservedEnv reports whether a manifest must not ask for name: it decides what code the process loads, or belongs to us.
func reservedEnv(name string) bool {
	return strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, "FLYNN_") || strings.HasPrefix(name, "LD_") ||
		strings.HasPrefix(name, "DYLD_") || slices.Contains([]string{"PATH", "HOME", "TMPDIR", "NODE_OPTIONS", handshake.CookieKey}, name)
}
