package shell

import (
	"path"
	"slices"
	"strings"
)

// A follower is a program that does what files of its working directory say, whatever its arguments are.
type follower struct{ names, files string }

var followers = []follower{
	{"make gmake bmake", "Makefile"},
	{"cmake ctest", "CMakeLists.txt"},
	{"ninja samu", "build.ninja"},
	{"meson", "meson.build"},
	{"scons waf", "SConstruct, wscript"},
	{"just", "justfile"},
	{"task", "Taskfile.yml"},
	{"npm npx yarn pnpm bun bunx corepack", "package.json, .npmrc"},
	{"node nodejs deno tsx ts-node", "the script, package.json, node_modules"},
	{"eslint prettier vitest jest mocha rollup webpack vite gulp grunt tsc", "package.json, the program's configuration"},
	{"git gh glab hub lazygit tig pre-commit", ".git/config, .git/hooks, .gitattributes"},
	{"hg svn jj bzr fossil", "the repository's configuration and hooks"},
	{"cargo rustc", "Cargo.toml, build.rs, .cargo/config.toml"},
	{"go gofmt", "go.mod, the code, its generators"},
	{"python pypy ipython uv poetry pdm pipenv pip tox nox pytest mypy pylint flake8 black ruff sphinx-build mkdocs gunicorn uvicorn flask celery", "*.py, pyproject.toml, setup.py"},
	{"ruby rake bundle rails rspec irb gem", "Gemfile, Rakefile, *.rb"},
	{"php composer phpunit artisan", "composer.json, *.php"},
	{"perl prove", "the script, *.pm"},
	{"mvn mvnw", "pom.xml"},
	{"gradle gradlew", "build.gradle"},
	{"sbt mill lein mix rebar3 stack cabal dune zig swift dotnet msbuild", "the project's build files"},
	{"bazel bazelisk buck pants", "BUILD files, .bazelrc"},
	{"docker docker-compose podman nerdctl buildah", "Dockerfile, compose.yaml"},
	{"terraform tofu terragrunt pulumi", "*.tf, the project's files"},
	{"ansible ansible-playbook", "ansible.cfg, the playbook"},
	{"vagrant", "Vagrantfile"},
	{"helm kustomize skaffold tilt", "charts and configuration"},
	{"direnv mise asdf devbox nix nix-shell", ".envrc, mise.toml, .tool-versions, flake.nix"},
	{"vim nvim emacs gdb lldb", "the editor's or debugger's local configuration"},
	{"sh ash bash dash ksh zsh fish source .", "the script"},
	{"gcc g++ cc c++ clang clang++ c99 tcc", "the code"},
}

// carriers run what follows them.
var carriers = strings.Fields("sudo doas env nice ionice time timeout nohup setsid stdbuf unbuffer chronic xargs exec command builtin eval then do else ! watch if while until")

// Unshown says what decides about a command line beside the line itself, as far as it is known: "Makefile (make)". It is there to tell a
// person that the line does not say all; nothing is allowed or refused by it, and any text is taken.
func Unshown(text string) []string {
	var out []string
	for _, name := range programsIn(text) {
		note := ""
		base := path.Base(name)
		stem := strings.TrimRight(base, "0123456789.-")
		for _, f := range followers {
			if names := strings.Fields(f.names); slices.Contains(names, base) || stem != "" && slices.Contains(names, stem) {
				note = f.files + " (" + base + ")"
			}
		}
		if note == "" && strings.Contains(name, "/") && !path.IsAbs(name) {
			note = "the program " + name
		}
		if note != "" && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// programsIn guesses which words of a text are programs to a shell, of whatever grammar.
func programsIn(text string) []string {
	const separators = "\n;&|(){}`$'\""
	var found []string
	first := true // whether a program may come next
	for text != "" {
		end := strings.IndexAny(text, separators+" \t\r")
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		switch {
		case word == "" || !first:
		case word[0] == '-', word[0] >= '0' && word[0] <= '9', isAssignment(word): // of a program that runs what follows
		case slices.Contains(carriers, word):
		default:
			found = append(found, strings.TrimPrefix(word, "\\"))
			first = false
		}
		if end == len(text) {
			break
		}
		if strings.IndexByte(separators, text[end]) >= 0 {
			first = true
		}
		text = text[end+1:]
	}
	return found
}

func isAssignment(word string) bool {
	name, _, is := strings.Cut(word, "=")
	return is && !strings.Contains(name, "/")
}
