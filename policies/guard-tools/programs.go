package main

// isHidden names what runs text that the command line does not show: built-ins that evaluate, programs that
// take commands from their input or hand one word to a shell.
func isHidden(name string) bool {
	switch name {
	case "eval", "trap", "alias", "function", "coproc", "fc", "enable", "complete", "bind", "hash", "mapfile", "readarray", "compgen",
		"xargs", "parallel", "watch", "script", "su", "runuser", "at", "batch", "crontab", "expect", "flock", "ssh-agent",
		"systemd-run", "systemctl", "nsenter", "docker", "podman", "kubectl", "tmux", "screen", "repeat", "foreach", "emulate":
		return true
	}
	return false
}

func isShell(name string) bool {
	switch name {
	case "sh", "bash", "rbash", "dash", "ash", "ksh", "mksh", "zsh":
		return true
	}
	return false
}

// isInterpreter also knows the versions in names: python3.11, perl5.36.
func isInterpreter(name string) bool {
	switch withoutVersion(name) {
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "luajit", "tclsh", "wish", "guile", "fish", "csh", "tcsh",
		"elvish", "nu", "pwsh", "gdb", "sqlite":
		return true
	}
	return false
}

// isWrapper names programs, built-ins and reserved words that run one of their arguments.
func isWrapper(name string) bool {
	switch name {
	case "env", "sudo", "doas", "nohup", "nice", "ionice", "chrt", "taskset", "timeout", "time", "setsid", "stdbuf", "unbuffer",
		"command", "builtin", "exec", "busybox", "toybox", "find", "fd", "fdfind", "strace", "ltrace", "unshare", "chroot", "setarch",
		"setpriv", "capsh", "fakeroot", "faketime", "catchsegv", "ld.so", "ld-linux-x86-64.so.2", "noglob", "nocorrect", "-",
		"in", "proxychains", "torsocks", "choom", "prlimit", "linux32", "linux64", "start-stop-daemon", "run-parts":
		return true
	}
	return false
}

// withoutVersion is TrimRight without its set-up, which costs more than all the rest of a short command.
func withoutVersion(name string) string {
	n := len(name)
	for n > 0 && (name[n-1] == '.' || name[n-1] == '-' || '0' <= name[n-1] && name[n-1] <= '9') {
		n--
	}
	return name[:n]
}
