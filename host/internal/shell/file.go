package shell

import (
	"regexp"
	"sync"
)

// fileWay is a notation by which an argument makes many programs read a file and use its content instead.
type fileWay struct {
	sign string // a pattern that allows the notation must contain it
	re   *regexp.Regexp
}

// fileWays are "@name" and "key=@name" (curl, gh), "key=<name" (curl --form), and file URLs anywhere in an argument (aws, git), including
// those whose scheme results from curl's braces and brackets.
var fileWays = sync.OnceValue(func() []fileWay {
	return []fileWay{
		{"@", regexp.MustCompile(`^@|=@`)},
		{"<", regexp.MustCompile(`=<`)},
		{"file:", regexp.MustCompile(`(?i)(^|[^a-z])file:/|^[^/"'\s]*[{}\[\]][^/"'\s]*:/`)},
		{"fileb:", regexp.MustCompile(`(?i)(^|[^a-z])fileb:/`)},
	}
})

// FileSigns returns the signs in an argument that make programs read a file: @, <, file: or fileb:. A pattern that is to allow such an
// argument must contain the sign.
func FileSigns(argument string) (signs []string) {
	for _, w := range fileWays() {
		if w.re.MatchString(argument) {
			signs = append(signs, w.sign)
		}
	}
	return signs
}
