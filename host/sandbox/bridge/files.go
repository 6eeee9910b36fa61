package bridge

import (
	"strings"

	"github.com/flynnhost/flynn/host/internal/shell"
)

// namesFile returns the sign of a way in which a value names a file, if there is one that its pattern does not speak of.
func (p *pattern) namesFile(value string) (sign string, does bool) {
	for _, sign := range shell.FileSigns(value) {
		if !strings.Contains(p.text, sign) {
			return sign, true
		}
	}
	return "", false
}
