package shell

import (
	"path"
	"slices"
	"strings"
)

// follower is a group of programs that obey files in their working directory, whatever their arguments.
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

// homers are programs that obey files of HOME, whatever their arguments. In a sandbox HOME is the workspace, where the agent writes; on
// the host HOME is empty.
var homers = []follower{
	{"curl", ".curlrc"},
	{"wget wget2", ".wgetrc"},
	{"git gh hub lazygit tig pre-commit", ".gitconfig, .config/git"},
	{"hg", ".hgrc"},
	{"svn", ".subversion"},
	{"jj", ".config/jj"},
	{"npm npx yarn pnpm bun bunx corepack", ".npmrc"},
	{"python pypy ipython uv poetry pdm pipenv pip tox nox pytest mypy pylint flake8 black ruff sphinx-build mkdocs gunicorn uvicorn flask celery", ".local/lib/python*, .config/pip, .pypirc"},
	{"ruby rake bundle rails rspec irb gem", ".gemrc, .bundle, .local/share/gem"},
	{"composer", ".config/composer"},
	{"perl prove cpan", ".cpan"},
	{"R Rscript", ".Rprofile, .Renviron"},
	{"ssh scp sftp rsync autossh sshfs", ".ssh"},
	{"gpg gpg2", ".gnupg"},
	{"aws", ".aws"},
	{"gcloud gsutil", ".config/gcloud, .boto"},
	{"az", ".azure"},
	{"kubectl helm k9s kustomize skaffold tilt", ".kube"},
	{"docker docker-compose podman nerdctl buildah", ".docker, .config/containers"},
	{"terraform tofu terragrunt", ".terraformrc, .terraform.d"},
	{"ansible ansible-playbook", ".ansible.cfg"},
	{"cargo rustc rustup", ".cargo"},
	{"go gofmt", ".config/go"},
	{"mvn mvnw", ".m2, .mavenrc"},
	{"gradle gradlew", ".gradle"},
	{"psql", ".psqlrc"},
	{"mysql mariadb mysqldump", ".my.cnf"},
	{"sqlite3", ".sqliterc"},
	{"gdb", ".gdbinit"},
	{"lldb", ".lldbinit"},
	{"vim vi nvim ex view", ".vimrc, .config/nvim"},
	{"emacs", ".emacs, .emacs.d"},
	{"nano", ".nanorc"},
	{"tmux", ".tmux.conf"},
	{"screen", ".screenrc"},
	{"zsh", ".zshenv, .zshrc"},
	{"fish", ".config/fish"},
	{"mail mailx s-nail", ".mailrc"},
	{"mutt neomutt", ".muttrc, .config/mutt"},
	{"msmtp", ".msmtprc"},
	{"jq", ".jq"},
	{"direnv mise asdf devbox nix nix-shell", ".config, .tool-versions"},
}

// filesOf returns the files that a program obeys, by its name with or without a version.
func filesOf(list []follower, base string) string {
	stem := strings.TrimRight(base, "0123456789.-")
	for _, f := range list {
		if names := strings.Fields(f.names); slices.Contains(names, base) || stem != "" && slices.Contains(names, stem) {
			return f.files
		}
	}
	return ""
}

// carriers run the command that follows them.
var carriers = strings.Fields("sudo doas env nice ionice time timeout nohup setsid stdbuf unbuffer chronic xargs exec command builtin eval then do else ! watch if while until")

// Unshown returns the known files that a command line depends on without naming them, such as "Makefile (make)". It only informs a
// person and takes any text. With sandboxed HOME is the workspace, so that files of the agent there count too: ".curlrc (curl)".
func Unshown(text string, sandboxed bool) []string {
	var out []string
	for _, name := range programsIn(text) {
		note := ""
		base := path.Base(name)
		files := filesOf(followers, base)
		if home := filesOf(homers, base); sandboxed && home != "" && home != files && !strings.HasSuffix(files, ", "+home) {
			files = strings.TrimPrefix(files+", "+home, ", ")
		}
		if files != "" {
			note = files + " (" + base + ")"
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

// programsIn guesses which words of a text a shell would run.
func programsIn(text string) []string {
	const separators = "\n;&|(){}`$'\""
	var found []string
	first := true // whether a program may be next
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
