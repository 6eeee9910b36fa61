package main

import "strings"

// finding is the objection to a command line, if any.
type finding struct {
	kind kind
	what string
}

type kind int

const (
	plain kind = iota
	network
	unreadable
)

// maxDepth bounds sh -c inside sh -c.
const maxDepth = 4

// inspect looks for network programs in a command line.
func inspect(command string, isNetwork func(name string) bool) finding {
	in := inspector{isNetwork: isNetwork}
	return in.line(command)
}

type inspector struct {
	isNetwork func(name string) bool
	depth     int
}

// line judges every simple command of a line.
func (in *inspector) line(src string) finding {
	if in.depth++; in.depth > maxDepth {
		return finding{unreadable, "shells inside shells"}
	}
	defer func() { in.depth-- }()
	l := lexer{src: src}
	var words []word
	for {
		var more bool
		var bad finding
		words, more, bad = simpleCommand(&l, words[:0])
		if bad.kind != plain {
			return bad
		}
		if f := in.command(words); f.kind != plain {
			return f
		}
		if !more {
			return finding{}
		}
	}
}

// simpleCommand appends the words up to the next operator, without redirections.
func simpleCommand(l *lexer, words []word) (_ []word, more bool, bad finding) {
	for file := false; ; {
		w, ok := l.next()
		switch {
		case l.why != "":
			return nil, false, finding{unreadable, l.why}
		case !ok:
			return words, false, finding{}
		case w.operator:
			return words, true, finding{}
		case isSocket(w.text):
			return nil, false, finding{network, w.text}
		case w.evaluates:
			// Quoted, it is plain text to this command; but PS4, arithmetic and many an option evaluate text.
			return nil, false, finding{unreadable, "a command substitution as text"}
		case w.redirect:
			words = dropDescriptor(words)
			file = true
			continue
		case file && (w.expands || w.globs):
			return nil, false, finding{unreadable, "a redirection to " + w.text}
		case !file:
			words = append(words, w)
		}
		file = false
	}
}

// isSocket recognises the files that bash connects by itself.
func isSocket(text string) bool {
	return strings.IndexByte(text, '/') >= 0 && (strings.Contains(text, "/dev/tcp/") || strings.Contains(text, "/dev/udp/"))
}

// dropDescriptor takes the 2 of 2>file and the {fd} of {fd}>file off the words. Taking an argument that only
// looks like one does no harm: nothing but names of programs matters.
func dropDescriptor(words []word) []word {
	if n := len(words); n > 0 && !words[n-1].quoted {
		text := words[n-1].text
		name, braced := strings.CutPrefix(text, "{")
		if isNumber(text) || braced && isName(strings.TrimSuffix(name, "}")) {
			return words[:n-1]
		}
	}
	return words
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// command judges one simple command: assignments and reserved words in front, then the program's name.
func (in *inspector) command(words []word) finding {
	for len(words) > 0 && (isAssignment(words[0]) || isReserved(words[0])) {
		words = words[1:]
	}
	if len(words) == 0 {
		return finding{}
	}
	w, args := words[0], words[1:]
	if (w.expands || w.globs) && !isTest(w) {
		return finding{unreadable, "a program named by an expansion: " + w.text}
	}
	name := w.text[strings.LastIndexByte(w.text, '/')+1:]
	switch {
	case in.isNetwork(name):
		return finding{network, name}
	case isHidden(name):
		return finding{unreadable, name + " runs what is not written here"}
	case isShell(name):
		return in.shell(name, args)
	case isInterpreter(name), name == ".", name == "source":
		return interpreter(name, args)
	case isHeader(w):
		return in.header(args)
	case isWrapper(name):
		return in.wrapper(name, args)
	}
	return finding{}
}

// isAssignment recognises NAME=value in front of a command.
func isAssignment(w word) bool {
	name, _, ok := strings.Cut(w.text, "=")
	return ok && isName(strings.TrimSuffix(name, "+"))
}

func isReserved(w word) bool {
	if w.quoted {
		return false
	}
	switch w.text {
	case "!", "{", "}", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "esac":
		return true
	}
	return false
}

// isTest recognises [ and [[, which look like wildcards and are programs.
func isTest(w word) bool { return !w.expands && !w.quoted && (w.text == "[" || w.text == "[[") }

// isHeader recognises the beginning of for, case and select: words that are no programs.
func isHeader(w word) bool {
	return !w.quoted && (w.text == "for" || w.text == "case" || w.text == "select")
}

// header looks for a body on the header's own line: "for x do curl" needs no operator.
func (in *inspector) header(args []word) finding {
	for i, a := range args {
		if !a.quoted && (a.text == "do" || a.text == "{") {
			return in.command(args[i+1:])
		}
	}
	return finding{}
}

// shell judges sh -c 'commands' by its commands, and sh FILE like FILE itself.
func (in *inspector) shell(name string, args []word) finding {
	commands := false
	for len(args) > 0 && strings.IndexAny(args[0].text, "-+") == 0 {
		a := args[0]
		args = args[1:]
		if a.text == "--" {
			break
		}
		if a.expands || a.globs || a.text == "-" || strings.Trim(a.text, "-ceuxl") != "" {
			return finding{unreadable, name + " " + a.text}
		}
		commands = commands || strings.Contains(a.text, "c")
	}
	switch {
	case len(args) == 0:
		return finding{unreadable, name + " reads its commands from elsewhere"}
	case args[0].expands || args[0].globs:
		return finding{unreadable, name + " with an expansion"}
	case commands:
		return in.line(args[0].text)
	}
	return script(name, args[0])
}

// interpreter lets python FILE pass like FILE itself, and nothing else: options carry code.
func interpreter(name string, args []word) finding {
	if len(args) == 0 || args[0].expands || args[0].globs || strings.HasPrefix(args[0].text, "-") {
		return finding{unreadable, name + " with code of its own"}
	}
	return script(name, args[0])
}

func script(name string, file word) finding {
	if strings.HasPrefix(file.text, "/dev/") || strings.HasPrefix(file.text, "/proc/") {
		return finding{unreadable, name + " " + file.text}
	}
	return finding{}
}

// wrapper judges programs that run their arguments: any word could be the program.
func (in *inspector) wrapper(name string, args []word) finding {
	for i, a := range args {
		if a.expands || a.globs {
			return finding{unreadable, name + " with an expansion"}
		}
		if f := script(name, a); f.kind != plain {
			return f
		}
		if name == "env" && strings.HasPrefix(a.text, "-") {
			return finding{unreadable, "env with options"}
		}
		for part := range strings.FieldsSeq(a.text) {
			base := part[strings.LastIndexByte(part, '/')+1:]
			if in.isNetwork(base) {
				return finding{network, base}
			}
			if isHidden(base) || isInterpreter(base) {
				return finding{unreadable, name + " " + base}
			}
			if isShell(base) {
				if f := in.shell(base, args[i+1:]); f.kind != plain {
					return f // and if it is plain, the word may not have been the program
				}
			}
		}
	}
	return finding{}
}
