package service

import (
	"embed"
	"errors"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

//go:embed files
var files embed.FS

// Spec is what a service runs. It holds no secret: those are in files that the configuration names, or in the file Secrets.
type Spec struct {
	Name   string // "flynn" for the only one of a machine
	System bool   // a service of the whole machine, not of a user
	// User and Group are those of a service of the machine; an empty Group is that of User.
	User, Group string
	Program     string   // the absolute path of flynn
	Config      string   // the absolute path of its configuration
	Secrets     string   // a file of lines NAME=VALUE, which systemd reads; it may be missing
	Environment []string // NAME=VALUE; anybody on the machine can read them
	Folder      string   // the working folder
	Writable    []string // what a service of the machine may write to besides State
	// State is the folder below /var/lib that systemd makes for User, by its name; it is for packages.
	State string
	// IfConfigured leaves out a start without a configuration, which packages need.
	IfConfigured bool
	Log          string // the file that launchd writes the log to
}

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`@[A-Z]+@`) })

// fill puts values into the placeholders of a file. A line is left out if a placeholder of it has no value.
func fill(name string, values map[string]string) string {
	text, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		missing := false
		line = placeholder().ReplaceAllStringFunc(line, func(p string) string {
			v := values[strings.Trim(p, "@")]
			missing = missing || v == ""
			return v
		})
		if !missing {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Unit returns the spec as a unit of systemd.
func (s Spec) Unit() (string, error) {
	for _, path := range append([]string{s.Config, s.Folder, s.Secrets}, s.Writable...) {
		if err := writable(path, `*?[`); err != nil {
			return "", err
		}
	}
	if err := writable(s.Program, `"'\`); err != nil {
		return "", err
	}
	var environment []string
	for _, v := range s.Environment {
		if err := writable(v, ""); err != nil {
			return "", err
		}
		environment = append(environment, "Environment="+word(v))
	}
	values := map[string]string{
		"NAME": s.Name, "PROGRAM": word(s.Program), "CONFIG": argument(s.Config), "SECRETS": percent(s.Secrets), "FOLDER": percent(s.Folder),
		"ENVIRONMENT": strings.Join(environment, "\n"), "TARGET": "default.target",
	}
	kind := "user"
	if s.System {
		kind = "system"
		values["USER"], values["GROUP"], values["STATE"], values["TARGET"] = s.User, s.Group, s.State, "multi-user.target"
		values["NETWORK"], values["AFTER"] = "network-online.target", "network-online.target docker.service"
		values["HOMES"], values["WRITABLE"] = s.homes(), s.paths()
	}
	if s.IfConfigured {
		values["CONDITION"] = percent(s.Config)
	} else {
		values["WRITTEN"] = "# Written by flynn service install, which shows what changes before it replaces the file."
	}
	values["REASONS"] = strings.TrimSuffix(fill(kind+".reasons", values), "\n")
	values["HARDENING"] = strings.TrimSuffix(fill(kind+".limits", values), "\n")
	return fill("unit.service", values), nil
}

// homes is what a service of the machine sees of the folders of users: nothing, unless something of it is there.
func (s Spec) homes() string {
	for _, path := range append([]string{s.Program, s.Config}, s.Writable...) {
		for _, home := range []string{"/home/", "/root/", "/run/user/"} {
			if strings.HasPrefix(path, home) {
				return "read-only"
			}
		}
	}
	return "yes"
}

// paths returns the folders to write to. One that is missing is no error.
func (s Spec) paths() string {
	var words []string
	for _, path := range s.Writable {
		words = append(words, word("-"+path))
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}

// writable reports what systemd's syntax has no way to say.
func writable(text, never string) error {
	if strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsAny(text, never) || strings.HasSuffix(text, `\`) || strings.TrimSpace(text) != text {
		return fmt.Errorf("%q cannot stand in a unit of systemd: rename it", text)
	}
	return nil
}

// percent escapes the specifiers of systemd.
func percent(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// word returns a text as one word of a setting, see systemd.syntax(7).
func word(text string) string {
	text = percent(text)
	if strings.ContainsAny(text, " \\\"';#") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	}
	return text
}

// argument returns a text as one word of a command.
func argument(text string) string { return word(strings.ReplaceAll(text, "$", "$$")) }

// Plist returns the spec as a property list of launchd.
func (s Spec) Plist() (string, error) {
	var environment []string
	for _, v := range s.Environment {
		name, value, _ := strings.Cut(v, "=")
		environment = append(environment, "\t\t<key>"+html.EscapeString(name)+"</key>\n\t\t<string>"+html.EscapeString(value)+"</string>")
	}
	values := map[string]string{"ENVIRONMENT": strings.Join(environment, "\n")}
	for key, text := range map[string]string{
		"LABEL": label(s.Name), "USER": s.User, "PROGRAM": s.Program, "CONFIG": s.Config, "FOLDER": s.Folder, "LOG": s.Log,
	} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return "", fmt.Errorf("%q cannot stand in a property list: rename it", text)
		}
		values[key] = html.EscapeString(text)
	}
	return fill("flynn.plist", values), nil
}

func label(name string) string { return "com.github.flynnhost." + name }

// check returns an error for a name or a path that cannot be meant.
func (s Spec) check() error {
	for _, path := range []string{s.Program, s.Config, s.Folder} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q must be an absolute path", path)
		}
	}
	if s.System && s.User == "" {
		return errors.New("a service of the machine needs a user")
	}
	return nil
}
