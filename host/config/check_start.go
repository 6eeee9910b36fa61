package config

import "strings"

// startCommand checks the words of a program that is started without a shell.
func (c *checker) startCommand(at keyPath, argv []string) {
	for i, word := range argv {
		switch {
		case strings.ContainsRune(word, 0):
			c.report(at.index(i), "it contains a zero byte", "write the program and each of its arguments as a string of its own")
		case i == 0 && word == "":
			c.report(at.index(i), "the program has no name", `write the program first, such as ["nginx", "-g", "daemon off;"]`)
		}
	}
}
