package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Lasting says why a command must not be agreed to once and for all, or "": its program runs what its arguments, its input or
// files of the workspace say, so that who agrees does not know what he agrees to. names are further names of the program, as those
// that symbolic links lead over.
func (c Command) Lasting(names ...string) (why string) {
	for i, name := range append([]string{c.Program()}, names...) {
		base := baseName(name)
		if i > 0 && slices.Contains(multiCall, base) {
			continue // which of its programs it is goes by the name that it was called by
		}
		if runsOthers(base) {
			return fmt.Sprintf("%s can run any program", base)
		}
		for _, r := range risky {
			if !slices.Contains(r.names, base) {
				continue
			}
			if arg := r.first(c.Texts()); arg != "" {
				return fmt.Sprintf("%s can run any program by way of %q", base, arg)
			}
		}
	}
	return ""
}

// baseName is a program's name as the table knows it.
func baseName(name string) string {
	return strings.TrimSuffix(strings.ToLower(path.Base(name)), ".exe")
}

// runsOthers looks a name up, with and without the version behind it.
func runsOthers(base string) bool {
	stem := strings.TrimRight(base, "0123456789.-_")
	for _, family := range []string{"git-", "ld-linux", "ld-musl", "ld.so", "ld-", "docker-", "pip", "python", "perl", "ruby", "lua", "php", "node"} {
		if strings.HasPrefix(base, family) {
			return true
		}
	}
	return slices.ContainsFunc(wrappers, func(list string) bool {
		names := strings.Fields(list)
		return slices.Contains(names, base) || slices.Contains(names, stem)
	})
}

// multiCall are programs that are many, each by a name of its own.
var multiCall = []string{"busybox", "toybox", "coreutils"}

// wrappers are the programs that run any other, or a text in a language that can.
var wrappers = []string{
	// shells, and what runs a line of theirs
	"sh ash bash dash ksh mksh pdksh zsh csh tcsh fish rc es elvish nu pwsh powershell cmd rbash busybox toybox",
	"eval exec source . command builtin trap alias hash set export readonly typeset declare local enable complete",
	// wrappers: the program is one of their arguments
	"env xargs nice ionice chrt taskset timeout nohup setsid stdbuf unbuffer watch script scriptreplay expect time flock parallel entr",
	"chroot unshare nsenter setpriv capsh prlimit setarch linux32 linux64 i386 x86_64 choom numactl cgexec systemd-run daemonize start-stop-daemon",
	"sudo su doas pkexec runuser gosu su-exec sg newgrp ssh autossh mosh sshpass scp sftp rsync rsh rlogin telnet",
	"strace ltrace gdb lldb perf valgrind rr ftrace bpftrace dtrace catchsegv fakeroot proot firejail bwrap torsocks proxychains tsocks",
	"at batch atd crontab anacron systemctl service initctl launchctl tmux screen dtach abduco xterm xvfb-run dbus-launch dbus-run-session",
	"run-parts run-one run-mailcap xdg-open open start nodemon watchexec fswatch reflex",
	// languages
	"awk gawk mawk nawk original-awk sed gsed ed ex red vi vim nvim view vimdiff emacs emacsclient nano pico joe micro less more most man pager",
	"tclsh wish expectk nodejs deno bun tsx ts-node jshell java javaw javac scala kotlin kotlinc groovy clojure clj",
	"rscript r julia octave matlab guile racket sbcl clisp ecl ocaml ghc ghci runghc runhaskell stack cabal erl escript elixir iex mix swift dart",
	"ipython jupyter pypy irb erb gjs qjs d8 js m4 dc bc gnuplot maxima gs ghostscript tex latex pdftex pdflatex xelatex lualatex",
	"sqlite sqlite3 psql mysql mariadb mongo mongosh redis-cli duckdb osascript",
	// builders and package managers: they run what the workspace says
	"make gmake bmake cmake ctest ninja meson scons waf just task rake ant mvn mvnw gradle gradlew sbt lein bazel buck pants tox nox pytest",
	"npm npx yarn pnpm corepack bower gulp grunt webpack vite jest mocha eslint cargo rustc rustup go dotnet msbuild nuget",
	"pip pipx uv uvx poetry pipenv conda mamba virtualenv gem bundle bundler composer brew nix nix-shell nix-env guix snap flatpak",
	"apt apt-get aptitude dpkg rpm yum dnf zypper pacman apk gcc g++ cc c++ clang clang++ cpp ld collect2 gold lld tcc",
	// version control: hooks and configuration, which are files of the repository, name programs that most commands run
	"git hg svn svnadmin jj bzr brz fossil darcs cvs p4 repo gh glab hub tig lazygit pre-commit",
	// engines and clusters
	"docker podman nerdctl buildah ctr crictl kubectl helm oc lxc lxd incus machinectl vagrant terraform tofu ansible ansible-playbook packer",
	// the network as an interpreter
	"socat ncat nc netcat nmap mail mailx mutt sendmail procmail",
}

// risk is a program that runs others only where an argument says so.
type risk struct {
	names   []string
	words   []string // arguments that do
	options []string // long options that do, also cut short and with a value
	letters string   // short options that do, also within a group
}

var risky = []risk{
	{names: []string{"find", "gfind"}, words: []string{"-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"}},
	{names: []string{"fd", "fdfind"}, options: []string{"--exec", "--exec-batch"}, letters: "xX"},
	{names: []string{"rg", "ripgrep"}, options: []string{"--pre", "--hostname-bin", "--search-zip"}, letters: "z"},
	{
		names: []string{"tar", "gtar", "bsdtar", "star"}, letters: "IF",
		options: []string{
			"--checkpoint-action", "--to-command", "--use-compress-program", "--info-script", "--new-volume-script", "--rsh-command", "--rmt-command",
		},
	},
	{names: []string{"cpio"}, options: []string{"--rsh-command"}},
	{names: []string{"sort", "gsort"}, options: []string{"--compress-program"}},
	{names: []string{"split", "gsplit"}, options: []string{"--filter"}},
	{names: []string{"zip"}, options: []string{"--unzip-command"}, letters: "T"},
	{names: []string{"install", "ginstall"}, options: []string{"--strip-program"}},
	{names: []string{"wget"}, options: []string{"--use-askpass", "--execute", "--config"}, letters: "e"},
	{names: []string{"curl"}, options: []string{"--config", "--engine"}, letters: "K"},
	{names: []string{"diff", "sdiff", "diff3"}, options: []string{"--diff-program"}},
	{names: []string{"openssl"}, words: []string{"engine"}, options: []string{"-engine", "-provider-path", "-config"}},
}

// first is the first argument that makes the program run another, or "". A star may be no option.
func (r risk) first(args []string) string {
	for i, a := range args {
		name, _, _ := strings.Cut(a, "=")
		switch {
		case slices.Contains(r.words, a):
			return a
		case strings.HasPrefix(a, "-") && len(name) > 2 && slices.ContainsFunc(r.options, func(o string) bool { return strings.HasPrefix(o, name) }):
			return a
		case r.letters == "" || strings.HasPrefix(a, "--"):
		case strings.HasPrefix(a, "-") && strings.ContainsAny(a, r.letters):
			return a
		case i == 0 && slices.Contains(r.names, "tar") && strings.ContainsAny(a, r.letters): // "tar xIf" needs no dash
			return a
		}
	}
	return ""
}
