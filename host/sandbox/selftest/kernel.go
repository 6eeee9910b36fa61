package selftest

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// everything returns a container with hardly any confinement: root with many capabilities.
func everything(*Subject) Control {
	return Control{Weakness: docker.Weakness{Powerful: true}, Root: true}
}

// upgrade is the advice for probes that depend on the engine's defaults.
const upgrade = "upgrade the engine, and do not run it with its security options off"

func kernelFileProbes() []Probe {
	const row = "/proc, /sys"
	probe := func(name, why, text string) Probe {
		return Probe{Name: "kernel/" + name, Row: row, Why: why, Setting: upgrade, Run: script(text), Control: everything}
	}
	mounted := func(p Probe, folders string) Probe {
		p.Control = always(Control{Weakness: docker.Weakness{Powerful: true}, Root: true, Setup: remount(folders)})
		return p
	}
	return []Probe{
		probe("helpers", "the kernel runs a program of the attacker's as root", writable("/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe")),
		probe("settings", "settings of the kernel hold for all, and one letter restarts the machine",
			writable("/proc/sysrq-trigger /proc/sys/vm/overcommit_memory /proc/sys/kernel/panic")),
		mounted(probe("cgroups", "the session lifts its own limits",
			writable("/sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs")), "/sys/fs/cgroup /sys/fs/cgroup/*"),
		mounted(probe("sys", "devices and power can be changed", writable(
			"/sys/power/state /sys/kernel/uevent_helper /sys/kernel/profiling /sys/kernel/mm/ksm/run /sys/kernel/mm/transparent_hugepage/enabled",
		)), "/sys"),
		probe("memory", "the machine's memory and the kernel's log can be read", readable("/proc/kcore /dev/mem /dev/kmem /dev/kmsg")),
		probe("keys", "other sessions' keys are listed", readable("/proc/keys")),
		probe("symbols", "addresses of the kernel help an exploit", `read -r address rest </proc/kallsyms
case $address in *[1-9a-f]*) echo "breach: addresses are shown";; *) echo "held: addresses are hidden";; esac`),
		probe("devices", "a disk's device gives all of its files", devices),
	}
}

// remount makes mounts writable, one by one.
func remount(folders string) string {
	return fmt.Sprintf(`for f in %s; do mount -o remount,rw $f; mount -o remount,bind,rw $f; done 2>/dev/null; true`, folders)
}

// writable opens files for writing without writing anything.
func writable(files string) string {
	return fmt.Sprintf(`open=; for f in %s; do [ -e $f ] && (: >>$f) 2>/dev/null && open="$open $f"; done
[ -z "$open" ] && echo "held: none can be written" || echo "breach: can be written:$open"`, files)
}

// readable distinguishes content from the empty files that engines mount over such files.
func readable(files string) string {
	return fmt.Sprintf(`open=; for f in %s; do
n=$(dd if=$f bs=8192 count=1 2>/dev/null | wc -c); [ "$n" -gt 0 ] && open="$open $f"; done
[ -z "$open" ] && echo "held: none can be read" || echo "breach: can be read:$open"`, files)
}

const devices = `found=; for f in /dev/* /dev/*/*; do
case $f in /dev/null|/dev/zero|/dev/full|/dev/random|/dev/urandom|/dev/tty|/dev/ptmx|/dev/console|/dev/pts/*|/dev/fd/*|/dev/std*) continue;; esac
if [ -b $f ] || [ -c $f ]; then found="$found $f"; fi; done
[ -z "$found" ] && echo "held: only harmless devices" || echo "breach: devices:$found"`

func engineProbes() []Probe {
	const row, setting = "engine socket", "the engine's socket must not be in the image's volumes or the store"
	return []Probe{
		{
			Name: "engine/path", Row: row, Why: "a process that reaches the engine owns the machine", Setting: setting,
			Run: program("sockets /"),
			Control: func(s *Subject) Control {
				return Control{Weakness: docker.Weakness{Mount: driver.Mount{Source: s.Outside + "/engine", Target: "/run/docker.sock"}}}
			},
		},
		{
			Name: "engine/abstract", Row: row, Why: "sockets without a path ignore file permissions", Setting: networkSetting,
			Run:     configured(program("abstract")),
			Control: always(Control{Weakness: docker.Weakness{Powerful: true}, Root: true, Setup: serving("unix", "@flynn-verify")}),
		},
	}
}

func namespaceProbes() []Probe {
	var all []Probe
	for _, c := range []struct{ call, why string }{
		{"clone-user", "a user namespace opens parts of the kernel with many past flaws"},
		{"unshare-user", "a user namespace opens parts of the kernel with many past flaws"},
		{"unshare-mount", "own mounts uncover what is masked"},
		{"unshare-pid", "processes hide from the count"},
		{"unshare-net", "packet filters of its own open flawed parts of the kernel"},
		{"mount", "mounts uncover what is masked"},
		{"setns", "joining another namespace leaves the sandbox"},
		{"chroot", "a root of its own is the classic way out"},
		{"mknod", "a made device gives all files of a disk"},
		{"bpf", "programs in the kernel read everything"},
		{"perf", "measuring the kernel leaks from it"},
		{"userfaultfd", "faults served slowly win races in the kernel"},
		{"open-by-handle", "handles open files outside the root"},
		{"fanotify", "other sessions' files are watched"},
		{"syslog", "the kernel's log names addresses and neighbours"},
		{"set-host-name", "names are shared state"},
	} {
		all = append(all, filtered("namespaces", "calls/"+c.call, c.call, c.why))
	}
	return all
}

func refusedCall(row, name, call, why string) Probe {
	return Probe{Name: name, Row: row, Why: why, Setting: upgrade, Run: program("call " + call), Control: everything}
}

// filtered is refusedCall for a call that only a filter refuses.
func filtered(row, name, call, why string) Probe {
	p := refusedCall(row, name, call, why)
	p.Feature = driver.Seccomp
	return p
}

func keyringProbes() []Probe {
	const why = "keys are not kept apart by containers"
	var all []Probe
	for _, call := range []string{"add-key", "keyctl", "request-key"} {
		all = append(all, filtered("kernel keyring", "keyring/"+call, call, why))
	}
	return all
}

func privilegeProbes() []Probe {
	const row = "setuid"
	field := func(name, pattern, good string) string {
		return fmt.Sprintf(`while read -r key value; do [ "$key" = %[1]s: ] && is=$value; done </proc/self/status
case $is in %[2]s) echo "held: %[3]s $is";; *) echo "breach: %[1]s $is";; esac`, name, pattern, good)
	}
	probe := func(name, why string, run attack, c func(*Subject) Control) Probe {
		return Probe{Name: "rights/" + name, Row: row, Why: why, Setting: upgrade, Run: run, Control: c}
	}
	gain := always(Control{Weakness: docker.Weakness{NewPrivileges: true}})
	return []Probe{
		probe("user", "root inside is root of the kernel", script(`[ "$(id -u)" != 0 ] && echo "held: user $(id -u)" || echo "breach: root"`), everything),
		probe("no-new-privileges", "a set-user-id program becomes root", script(field("NoNewPrivs", "1", "set:")), gain),
		probe("bounding-set", "what is not in the set can never be had",
			script(field("CapBnd", strings.Repeat("0", 16)+"|"+strings.Repeat("0", 14)+"e0", "minimal:")),
			always(Control{Weakness: docker.Weakness{Capabilities: "SYS_ADMIN"}})),
		probe("capabilities", "each capability is a part of root", script(field("CapEff", strings.Repeat("0", 16), "none:")), everything),
		{
			Name: "rights/seccomp", Row: row, Why: "all of the kernel's calls are open to exploits", Setting: upgrade, Feature: driver.Seccomp,
			Run: both(script(field("Seccomp", "2", "filter, mode")), program("call add-key")), Control: everything,
		},
		{
			Name: "rights/user-namespace", Row: row, Why: "root inside is root of the machine, for whom a flaw of the kernel or a forgotten file is enough",
			Setting: "run the engine without root or with userns-remap, or a native sandbox as a user other than root", Feature: driver.UserNamespaces,
			Run: script(ownUsers), Control: always(Control{Weakness: docker.Weakness{HostUsers: true}}),
		},
		probe("set-user-id", "a set-user-id program becomes root",
			program("setuid ./"+setUserID), always(Control{
				Weakness: docker.Weakness{NewPrivileges: true, Capabilities: "CHOWN DAC_OVERRIDE FOWNER FSETID"},
				Setup:    fmt.Sprintf("cp %s %s && chown 0:0 %[2]s && chmod 4755 %[2]s", programName, setUserID),
			})),
		probe("become-root", "root inside is root of the kernel", program("call become-root"), everything),
		probe("shed-groups", "a command without its tag is not found again", program("call shed-groups"), everything),
	}
}

// ownUsers looks up who root of this user namespace is in the one around it; see user_namespaces(7).
const ownUsers = `is=; while read -r inside outside size; do [ "$inside" = 0 ] && is=$outside; done </proc/self/uid_map
case $is in 0) echo "breach: root inside is user 0 outside";; "") echo "held: there is no root inside";; *) echo "held: root inside is user $is outside";; esac`

// both holds if two attacks do.
func both(first, second attack) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		f, err := first(ctx, s)
		if err != nil || f.Status != Pass {
			return f, err
		}
		g, err := second(ctx, s)
		if g.Status == Pass {
			g.Detail = f.Detail + "; " + g.Detail
		}
		return g, err
	}
}

// setUserID is a copy of flynn-probe that would run as its owner, which is root if this host is.
const setUserID = "set-user-id"

func supervisorProbes() []Probe {
	const row, setting = "supervisor attack", "report this: the supervisor must not be open to its workload"
	calls := []struct{ call, why string }{
		{"signal-init", "a command that ends the supervisor is free of its limits"},
		{"trace-init", "a tracer of the supervisor controls it"},
		{"read-init-memory", "the supervisor's memory holds the session's data"},
		{"steal-init-stream", "a holder of its stream speaks for it to the host"},
	}
	var all []Probe
	for _, c := range calls {
		p := refusedCall(row, "supervisor/"+c.call, c.call, c.why)
		p.Setting = setting
		all = append(all, p)
	}
	probe := func(name, why, text string, c func(*Subject) Control) Probe {
		return Probe{Name: "supervisor/" + name, Row: row, Why: why, Setting: setting, Run: script(text), Control: c}
	}
	return append(all,
		probe("memory-file", "a writer of its memory controls the supervisor",
			`(: <>/proc/1/mem) 2>/dev/null && echo "breach: opened" || echo "held: refused"`, everything),
		probe("stream-file", "forged frames reach the host", forgedFrame, everything),
		probe("program", "the next session runs a changed supervisor",
			`(: >>/.flynn-sandboxd) 2>/dev/null && echo "breach: can be written" || echo "held: refused"`,
			func(s *Subject) Control {
				return Control{Weakness: docker.Weakness{Mount: driver.Mount{Source: s.Outside + "/decoy", Target: "/.flynn-sandboxd"}}}
			}),
	)
}

// forgedFrame prints what looks like a result to its own output, where it is only bytes, and then to the supervisor's.
const forgedFrame = `printf '\000\000\000\002\006\000\000\000\000\001{}\n'
open=; for fd in /proc/1/fd/*; do (: >>$fd) 2>/dev/null && open="$open $fd"; done
(: >>/proc/1/fd/1) 2>/dev/null && open="$open /proc/1/fd/1"
[ -z "$open" ] && echo "held: refused" || echo "breach: opened$open"`
