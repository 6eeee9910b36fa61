package bridge

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A fileWay is one in which a value makes many programs put a file's content in its place, or send it away.
type fileWay struct {
	sign string // that a pattern which means it has anywhere
	re   *regexp.Regexp
}

// fileWays are "@name" and "key=@name" (curl, gh), "key=<name" (curl --form), and URLs wherever they stand (aws, git).
var fileWays = sync.OnceValue(func() []fileWay {
	return []fileWay{
		{"@", regexp.MustCompile(`^@|=@`)},
		{"<", regexp.MustCompile(`=<`)},
		{"file:", regexp.MustCompile(`(?i)(^|[^a-z])file:/`)},
		{"fileb:", regexp.MustCompile(`(?i)(^|[^a-z])fileb:/`)},
	}
})

// namesFile returns the sign of a way in which a value names a file, if there is one that its pattern does not speak of.
func (p *pattern) namesFile(value string) (sign string, does bool) {
	ways := fileWays()
	i := slices.IndexFunc(ways, func(w fileWay) bool { return w.re.MatchString(value) && !strings.Contains(p.text, w.sign) })
	if i < 0 {
		return "", false
	}
	return ways[i].sign, true
}
