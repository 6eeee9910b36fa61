package main

import (
	"regexp"
	"slices"
	"strings"
)

// attribution is the line above a quotation, in the languages that programs write most: "On Monday Ann wrote:".
var attribution = regexp.MustCompile(`(?i)^(?:on|am|le|el|il|op|den|em|w dniu)\b.{0,300}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef|skrev|escreveu|napisał\(?a?\)?)\b.{0,200}:$`)

// divider is a line that some programs put before the quotation.
var divider = regexp.MustCompile(`(?i)^-{3,}\s*(?:original message|ursprüngliche nachricht|message d'origine|mensaje original)\s*-{3,}$`)

// withoutHistory removes quotations of earlier mails, and the signature. Quotations between the lines of an answer stay, because the answer
// is meaningless without them.
func withoutHistory(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		if line == "-- " || line == "--" { // RFC 3676, 4.3; many servers strip the space
			lines = lines[:i]
			break
		}
	}
	for i, line := range lines {
		if divider.MatchString(strings.TrimSpace(line)) || outlook(lines[i:]) {
			lines = lines[:i]
			break
		}
	}
	lines = withoutTail(lines)
	lines = withoutHead(lines)
	if short := strings.TrimSpace(strings.Join(lines, "\n")); short != "" {
		return short
	}
	return strings.TrimSpace(text)
}

// outlook reports whether lines begin with the header of an earlier mail, behind a line across the page.
func outlook(lines []string) bool {
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "________") {
		return false
	}
	key, _, ok := strings.Cut(lines[1], ":")
	return ok && len(key) < 20 && strings.Contains(lines[1], "@") || ok && (key == "From" || key == "Von" || key == "De")
}

func isQuote(line string) bool { return strings.HasPrefix(line, ">") }
func isBlank(line string) bool { return strings.TrimSpace(line) == "" }

// withoutTail removes a quotation at the end and the line that introduces it.
func withoutTail(lines []string) []string {
	end := len(lines)
	for end > 0 && (isQuote(lines[end-1]) || isBlank(lines[end-1])) {
		end--
	}
	if n := attributed(lines[:end]); n > 0 {
		return lines[:end-n]
	}
	return lines[:end]
}

// withoutHead removes a quotation at the beginning and the line that introduces it, for people who answer below it.
func withoutHead(lines []string) []string {
	for i := range lines {
		if !isQuote(lines[i]) {
			continue
		}
		above := lines[:i]
		for len(above) > 0 && isBlank(above[len(above)-1]) {
			above = above[:len(above)-1]
		}
		n := attributed(above)
		if rest := above[:len(above)-n]; n == 0 || !isBlank(strings.Join(rest, "")) {
			return lines
		}
		for i < len(lines) && (isQuote(lines[i]) || isBlank(lines[i])) {
			i++
		}
		if slices.ContainsFunc(lines[i:], isQuote) { // it is answered line by line
			return lines
		}
		return lines[i:]
	}
	return lines
}

// attributed returns the number of lines at the end that introduce a quotation: programs break that line in up to three.
func attributed(lines []string) int {
	for n := 1; n <= 3 && n <= len(lines); n++ {
		one := strings.Join(lines[len(lines)-n:], " ")
		if len(one) < 600 && attribution.MatchString(strings.TrimSpace(one)) {
			return n
		}
	}
	return 0
}
