package shell

import (
	"regexp"
	"sync"
)

// A fileWay is one in which an argument makes many programs put a file's content in its place, or send it away.
type fileWay struct {
	sign string // that a pattern which means it has anywhere
	re   *regexp.Regexp
}

// fileWays are "@name" and "key=@name" (curl, gh), "key=<name" (curl --form), and URLs wherever they stand (aws, git), those among them
// whose scheme only comes about when curl expands braces and brackets.
var fileWays = sync.OnceValue(func() []fileWay {
	return []fileWay{
		{"@", regexp.MustCompile(`^@|=@`)},
		{"<", regexp.MustCompile(`=<`)},
		{"file:", regexp.MustCompile(`(?i)(^|[^a-z])file:/|^[^/"'\s]*[{}\[\]][^/"'\s]*:/`)},
		{"fileb:", regexp.MustCompile(`(?i)(^|[^a-z])fileb:/`)},
	}
})

// FileSigns returns the signs by which an argument may name a file whose content it stands for: @, <, file: or fileb:. A pattern that is
// to allow such arguments has to have the sign in it.
func FileSigns(argument string) (signs []string) {
	for _, w := range fileWays() {
		if w.re.MatchString(argument) {
			signs = append(signs, w.sign)
		}
	}
	return signs
}
