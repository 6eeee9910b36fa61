package compose

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// variable matches the text after a dollar sign: a second one, a name, or a name with a default in braces.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(:?-)([^${}]*)\})`)
})

// interpolate replaces variables by the defaults in the text. The host's environment is not read: it does not belong in a sandbox, and a
// file should mean the same on every host. A variable that an environment file sets is refused, because Compose would use that value.
func interpolate(text string, beside map[string]bool) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		m := variable().FindStringSubmatch(after)
		switch {
		case m == nil:
			return "", errors.New("a dollar begins no variable with a default: write ${NAME:-value}, or $$ for a dollar")
		case m[0] == "$":
			out.WriteByte('$')
		case m[3] == "":
			return "", fmt.Errorf("variable %s has no value, because the host's environment is not read: write ${%s:-value}, or $$ for a dollar", m[1], m[1])
		case beside[m[2]]:
			return "", fmt.Errorf("variable %s is set in .env, which is not read: write its value here, or remove it there", m[2])
		default:
			out.WriteString(m[4])
		}
		text = after[len(m[0]):]
	}
}
