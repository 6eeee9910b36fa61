package author

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
)

// templates has a folder for each set of files that New writes.
//
//go:embed all:templates
var templates embed.FS

// New makes the folder dir with a small policy that builds without a network and whose cases pass.
func New(dir, lang, kind string) error {
	name := filepath.Base(absolute(dir))
	if !nameForm().MatchString(name) {
		return fmt.Errorf("a policy cannot be named %q: use lower-case words joined by hyphens", name)
	}
	if kind != policy.KindRoute && kind != policy.KindTool {
		return fmt.Errorf("a policy's kind is %s or %s, not %q", policy.KindRoute, policy.KindTool, kind)
	}
	l, ok := languageNamed(lang)
	if !ok {
		return fmt.Errorf("there is no scaffold for %q: use one of %s", lang, strings.Join(Languages(), ", "))
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already: choose another name", dir)
		}
		return err
	}
	facts := strings.NewReplacer("{{.Name}}", name, "{{.Language}}", l.name, "{{.Kind}}", kind, "{{.Data}}", exampleData[kind], "{{.Case}}", exampleCase[kind])
	for _, set := range []string{"common", kind, l.name, l.name + "-" + kind} {
		if err := instantiate(path.Join("templates", set), dir, facts); err != nil {
			return err
		}
	}
	return errors.Join(copySDK(dir, l.sdk), listVendored(dir, l.sdk))
}

// exampleData is the data of the policy of each kind.
var exampleData = map[string]string{policy.KindRoute: `owner_agent = "coder"`, policy.KindTool: `denied_tool = "shell.exec"`}

// exampleCase is one of the cases of each kind.
var exampleCase = map[string]string{policy.KindRoute: "the owner reaches the coder", policy.KindTool: "a guest may not use the tool"}

// instantiate writes one set of templates. A set that does not exist is empty. It does not use text/template, which calls methods by
// name and so makes the linker keep every exported method of the program.
func instantiate(set, dir string, facts *strings.Replacer) error {
	return fs.WalkDir(templates, set, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		target := strings.TrimSuffix(strings.TrimPrefix(name, set+"/"), ".tmpl")
		return writeNew(filepath.Join(dir, filepath.FromSlash(target)), facts.Replace(string(text)))
	})
}
