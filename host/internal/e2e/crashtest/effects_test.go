package crashtest

import (
	"fmt"
	"slices"
	"strings"
)

// checkEffects compares the lines of the file of effects with the messages that were told that their call ran. A call that was
// interrupted may have taken effect, once.
func checkEffects(file string, ran []int) []string {
	times := map[string]int{}
	for line := range strings.Lines(file) {
		times[strings.TrimSpace(line)]++
	}
	var wrong []string
	for id, n := range times {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("%s took effect %d times", id, n))
		}
	}
	for _, id := range ran {
		if times[tag(id)] == 0 {
			wrong = append(wrong, fmt.Sprintf("%s was answered but took no effect", tag(id)))
		}
	}
	slices.Sort(wrong)
	return wrong
}
