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

// composed checks that a compose file and the service to work in come together. The file itself is judged by the package
// that reads it.
func (c *checker) composed(at keyPath, s Sandbox) {
	switch {
	case s.Compose != "" && s.Service == "":
		c.report(at.child("service"), "missing", "name the service of the compose file in which commands run")
	case s.Compose == "" && s.Service != "":
		c.report(at.child("compose"), "missing", "name the compose file that has this service, or remove service")
	}
}
