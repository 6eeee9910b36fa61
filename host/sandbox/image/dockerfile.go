package image

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The engine parses the Dockerfile. This file only finds the images that it uses, because the result depends on them (docs.docker.com,
// "Dockerfile reference": FROM, ARG before FROM, COPY --from, parser directives).

// maxDockerfile bounds the text, in bytes.
const maxDockerfile = 1 << 20

// basesOf returns the names of the images that a Dockerfile uses, each once, in the order of the text. If network is "none" it refuses
// instructions that make the engine fetch something.
func basesOf(text []byte, network string) ([]string, error) {
	r := baseReader{args: map[string]string{}}
	for _, i := range instructions(text) {
		err := r.read(i.text)
		if network == "none" {
			err = errors.Join(err, checkOffline(i.tight))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i.line, err)
		}
	}
	if !r.begun {
		return nil, errors.New("it has no FROM")
	}
	return r.bases, nil
}

// baseReader processes the instructions in order.
type baseReader struct {
	args   map[string]string // from ARGs before the first FROM
	begun  bool              // a FROM was read
	stages []string          // their names, "" for none
	bases  []string
}

func (r *baseReader) read(line string) error {
	word, rest := cutWord(line)
	word = strings.ToUpper(word)
	if slices.Contains([]string{"RUN", "COPY", "ADD"}, word) && slices.ContainsFunc(strings.Fields(rest), heredoc().MatchString) {
		return errHeredoc
	}
	switch word {
	case "ARG":
		if !r.begun {
			r.arg(rest)
		}
	case "FROM":
		return r.from(rest)
	case "COPY":
		for flag, rest := nextFlag(rest); flag != ""; flag, rest = nextFlag(rest) {
			if name, is := strings.CutPrefix(flag, "--from="); is {
				r.use(name, true)
			}
		}
	}
	return nil
}

// checkOffline refuses an instruction by which the engine itself would fetch from the network, whatever network the steps have.
func checkOffline(line string) error {
	word, rest := cutWord(line)
	if strings.EqualFold(word, "ONBUILD") { // a later stage, or another build, may start from this image
		word, rest = cutWord(rest)
	}
	if !strings.EqualFold(word, "ADD") {
		return nil
	}
	for flag, after := nextFlag(rest); flag != ""; flag, after = nextFlag(rest) {
		rest = after
	}
	var words []string
	if json.Unmarshal([]byte(rest), &words) != nil {
		words = strings.Fields(rest)
	}
	for _, source := range words[:max(len(words)-1, 0)] {
		if mayBeRemote(source) {
			return fmt.Errorf("ADD %s may be fetched from the network, and build_network is \"none\": put the file into the build context, or write another build_network", source)
		}
	}
	return nil
}

// mayBeRemote reports whether the source of an ADD is a URL, or may become one when variables are replaced. Quotes and escapes are removed
// already. URLs of git repositories begin the same way; the engine's classic builder supports no others.
func mayBeRemote(source string) bool {
	source = strings.ToLower(strings.NewReplacer(`"`, "", `'`, "", `\`, "", "`", "").Replace(source))
	known, _, varies := strings.Cut(source, "$")
	return slices.ContainsFunc([]string{"http://", "https://", "git://", "git@", "ssh://"}, func(scheme string) bool {
		return strings.HasPrefix(known, scheme) || varies && strings.HasPrefix(scheme, known)
	})
}

// heredoc matches the start of a here-document. The engine's classic builder would treat its lines as instructions, including FROM.
var heredoc = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]*<<-?["']?[A-Za-z_][A-Za-z0-9_]*["']?$`) })

var errHeredoc = errors.New("the engine's builder does not support here-documents: join the lines with && and backslashes, or COPY a file")

// arg records the defaults of NAME=VALUE; other variables are unset.
func (r *baseReader) arg(rest string) {
	for rest != "" {
		var word string
		word, rest = cutWord(rest)
		name, value, set := strings.Cut(word, "=")
		if !set {
			delete(r.args, name)
			continue
		}
		if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		r.args[name] = r.expand(value, 0)
	}
}

func (r *baseReader) from(rest string) error {
	r.begun = true
	for flag, after := nextFlag(rest); flag != ""; flag, after = nextFlag(rest) {
		rest = after
	}
	word, rest := cutWord(rest)
	name := r.expand(word, 0)
	if name == "" {
		return fmt.Errorf("FROM %s names no image: give its ARG a default", word)
	}
	r.use(name, false)
	stage := ""
	if as, after := cutWord(rest); strings.EqualFold(as, "AS") {
		stage, _ = cutWord(after)
	}
	r.stages = append(r.stages, strings.ToLower(stage))
	return nil
}

// use records an image, unless the name is that of an earlier stage or, if numbers is set, a stage number.
func (r *baseReader) use(name string, numbers bool) {
	if name == "" || strings.EqualFold(name, "scratch") || slices.Contains(r.stages, strings.ToLower(name)) || slices.Contains(r.bases, name) {
		return
	}
	if _, err := strconv.Atoi(name); err == nil && numbers {
		return
	}
	r.bases = append(r.bases, name)
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])([^{}]*))?\})`)
})

// expand replaces $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word}, and the last two without the colon, in which case an empty variable
// counts as set.
func (r *baseReader) expand(text string, depth int) string {
	var out strings.Builder
	for text != "" {
		if text[0] == '\\' && len(text) > 1 {
			out.WriteByte(text[1])
			text = text[2:]
			continue
		}
		m := variable().FindStringSubmatch(text)
		if m == nil || depth > 8 || out.Len() > maxRaw {
			out.WriteByte(text[0])
			text = text[1:]
			continue
		}
		text = text[len(m[0]):]
		value, set := r.args[m[1]+m[2]]
		operator, colon := strings.CutPrefix(m[3], ":")
		if colon {
			set = value != ""
		}
		switch {
		case operator == "-" && !set, operator == "+" && set:
			value = r.expand(m[4], depth+1)
		case operator == "+":
			value = ""
		}
		out.WriteString(value)
	}
	return out.String()
}

// cutWord splits off the first word.
func cutWord(text string) (word, rest string) {
	text = strings.TrimLeft(text, " \t")
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

// nextFlag splits off a first word that is a flag.
func nextFlag(text string) (flag, rest string) {
	if word, rest := cutWord(text); strings.HasPrefix(word, "--") {
		return word, rest
	}
	return "", text
}

// escapeDirective selects the character that continues a line. It is valid only before everything else.
var escapeDirective = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^#[ \t]*(?i:escape)[ \t]*=[ \t]*([\\\\`])[ \t]*$") })

var anyDirective = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#[ \t]*[A-Za-z][A-Za-z0-9]*[ \t]*=[ \t]*.+$`) })

// instruction is an instruction with the number of its first line. In tight, continued lines are joined without a space, as the engine
// does.
type instruction struct {
	text, tight string
	line        int
}

// instructions returns the instructions, without comments.
func instructions(text []byte) []instruction {
	var all []instruction
	number, first := 0, 0
	escape, directives, line, tight := `\`, true, "", ""
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, maxDockerfile+1)
	for scan.Scan() {
		number++
		raw := strings.TrimSpace(scan.Text())
		if directives {
			if m := escapeDirective().FindStringSubmatch(raw); m != nil {
				escape = m[1]
			}
			directives = anyDirective().MatchString(raw)
		}
		if raw == "" || strings.HasPrefix(raw, "#") {
			continue // also inside a continued line
		}
		if line == "" {
			first = number
		}
		part, continued := strings.CutSuffix(raw, escape)
		line += part
		tight += strings.TrimSuffix(strings.TrimRight(scan.Text(), " \t\r"), escape)
		if continued {
			line += " "
			continue
		}
		all, line, tight = append(all, instruction{line, tight, first}), "", ""
	}
	if line != "" {
		all = append(all, instruction{line, tight, first})
	}
	return all
}
