package config

import (
	"path/filepath"
	"strings"
)

// CommandLine returns the command line of flynn for the configuration at path: --config stands in it unless flynn finds the file by itself.
func CommandLine(path, command string) string {
	here, err := filepath.Abs("flynn.toml")
	if at, e := filepath.Abs(path); err == nil && e == nil && at == here {
		return "flynn " + command
	}
	return "flynn --config " + ShellWord(path) + " " + command
}

// ShellWord quotes a word for a shell if that is needed.
func ShellWord(word string) string {
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune("/._-+=@%,:", r) && !isWord(r) }) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 127
}
