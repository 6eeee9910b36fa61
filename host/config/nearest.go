package config

import "fmt"

// Nearest returns the candidate that name is most likely a misspelling of, or "". In a name of up to three letters it accepts one error
// only, or every other short name would be near.
func Nearest(name string, candidates []string) string {
	best, distance := "", max(2, len(name)/3)+1
	if len(name) <= 3 {
		distance = 2
	}
	for _, c := range candidates {
		if d := Edits(name, c); d < distance || d == distance && best != "" && c < best {
			best, distance = c, d
		}
	}
	return best
}

// Edits counts the letters to insert, delete, replace or swap with their neighbour to turn a into b
// (optimal string alignment distance).
func Edits(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, above, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range above {
		above[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(t)]
}

// didYouMean is a hint for a name that is not among the candidates.
func didYouMean(name string, candidates []string) string {
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(candidates) == 0 {
		return ""
	}
	return "known: " + list(candidates)
}
