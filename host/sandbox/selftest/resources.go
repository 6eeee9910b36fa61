package selftest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// spareTasks is more than the supervisor's own allowance above the limit.
const spareTasks = 40

func bombProbes() []Probe {
	const row = "fork bomb"
	return []Probe{
		{
			Name: "bomb/processes", Row: row, Why: "a fork bomb stops the host", Setting: "pids_limit in [sandbox]",
			Limit: driver.PidsLimit, Run: processLimit, Control: always(Control{Weakness: docker.Weakness{NoPidsLimit: true}, Single: true}),
		},
		{
			Name: "bomb/cleared", Row: row, Why: "a bomb that goes on eats the session's limits", Setting: "report this: the supervisor must end it",
			Run: ended(`trap '' TERM; printf 'trap "" TERM\nwhile :; do setsid sh ./bomb.sh & done\n' >bomb.sh; sh ./bomb.sh & sleep 60`),
			// The process limit stays: the bomb must not leave its container.
			Control: always(Control{Single: true}),
		},
		{
			Name: "bomb/cpu", Row: "CPU and timer", Why: "one session takes all cores", Setting: "cpu_limit in [sandbox]",
			Limit: driver.CPULimit, Run: script(cpuQuota), Control: always(Control{Weakness: docker.Weakness{NoCPULimit: true}}),
		},
		{
			Name: "bomb/timer", Row: "CPU and timer", Why: "a command that never ends costs money", Setting: "timeout_seconds in [sandbox]",
			Run: ended(`while :; do :; done`), Control: always(Control{Single: true}),
		},
		{
			Name: "bomb/open-files", Row: row, Why: "the host's table of open files fills", Setting: "upgrade the engine: it must set ulimits",
			Run:     script(`n=$(ulimit -n); [ "$n" != unlimited ] && [ "$n" -le 1024 ] && echo "held: $n open files" || echo "breach: $n open files"`),
			Control: always(Control{Weakness: docker.Weakness{LooseUlimits: true}}),
		},
	}
}

// processLimit starts more processes than the limit and counts them with shell built-ins, because no other program could be started.
func processLimit(ctx context.Context, s *Subject) (Finding, error) {
	limit := s.Spec.PidsLimit + spareTasks
	text := fmt.Sprintf(`(i=0; while [ $i -lt %d ]; do sleep 20 & i=$((i+1)); done) 2>/dev/null
set -- /proc/[0-9]*; [ $# -le %d ] && echo "held: $# processes" || echo "breach: $# processes"`, limit+60, limit)
	return script(text)(ctx, s)
}

const cpuQuota = `q=unknown
for f in /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us; do
[ -r $f ] && read -r q rest <$f && break; done
case $q in -1|max) echo "breach: no quota";; unknown) echo "no quota to be seen" >&2;; *) echo "held: quota of $q us";; esac`

func memoryProbes() []Probe {
	const row, setting = "memory bomb", "memory_limit in [sandbox]"
	unlimited := always(Control{Weakness: docker.Weakness{NoMemoryLimit: true}})
	return []Probe{
		{
			Name: "memory/limit", Row: row, Why: "one session takes all memory", Setting: setting,
			Limit: driver.MemoryLimit, Run: memoryLimit, Control: unlimited,
		},
		{
			Name: "memory/report", Row: row, Why: "a command killed for memory looks like any other failure", Setting: "report this: the supervisor must see it",
			Limit: driver.MemoryLimit, Run: memoryResult, Control: always(Control{}),
		},
		{
			Name: "memory/left-behind", Row: row, Why: "shared memory stays when its processes are gone, and the next command has none",
			Setting: "upgrade the engine: it must set kernel.shm_rmid_forced, kernel.msgmni and kernel.sem",
			Limit:   driver.LeftMemory,
			Run:     script(fmt.Sprintf("./%[1]s leave >/dev/null; ./%[1]s left", programName)),
			Control: always(Control{Weakness: docker.Weakness{LooseIPC: true}}),
		},
		{
			Name: "memory/swap", Row: row, Why: "a session beyond its limit slows the disk for all", Setting: "enable swap accounting on the engine's machine (swapaccount=1)",
			Limit: driver.MemoryLimit, Run: script(swapLimit), Control: unlimited,
		},
	}
}

// beyond is the amount requested above the limit.
const beyond = 64 << 20

func hog(ctx context.Context, s *Subject) (machine.Result, error) {
	return s.Target.Exec(ctx, machine.Command{
		Script: fmt.Sprintf("./%s allocate %d", programName, s.Spec.MemoryBytes+beyond), Timeout: scriptTimeout,
	})
}

func memoryLimit(ctx context.Context, s *Subject) (Finding, error) {
	r, err := hog(ctx, s)
	if err != nil {
		return Finding{}, err
	}
	if r.ExitCode == 0 {
		return answer(r)
	}
	return held("ended at the limit"), nil
}

func memoryResult(ctx context.Context, s *Subject) (Finding, error) {
	r, err := hog(ctx, s)
	if err != nil {
		return Finding{}, err
	}
	if !r.OOM {
		return breached("exit code %d, and the result does not say that memory ran out", r.ExitCode), nil
	}
	if _, err := output(ctx, s.Target, "true"); err != nil {
		return breached("the next command fails: %v", err), nil
	}
	return held("reported, and the next command works"), nil
}

const swapLimit = `c=/sys/fs/cgroup
if [ -r $c/memory/memory.memsw.limit_in_bytes ]; then
  read -r sum <$c/memory/memory.memsw.limit_in_bytes; read -r memory <$c/memory/memory.limit_in_bytes
  [ "$sum" = "$memory" ] && [ ${#sum} -lt 16 ] && echo "held: no swap" || echo "breach: $sum bytes with swap"
elif [ -r $c/memory.swap.max ]; then
  read -r swap <$c/memory.swap.max; [ "$swap" = 0 ] && echo "held: no swap" || echo "breach: $swap bytes of swap"
elif [ "$(wc -l </proc/swaps)" -le 1 ] && [ -r $c/memory/memory.limit_in_bytes ]; then
  read -r memory <$c/memory/memory.limit_in_bytes
  [ ${#memory} -lt 16 ] && echo "held: the machine has no swap" || echo "breach: no limit at all"
else echo "breach: swap is not limited"; fi`

func diskProbes() []Probe {
	const row = "disk fill"
	large := always(Control{Weakness: docker.Weakness{LargeTmp: true}})
	size := func(path string) attack {
		return script(fmt.Sprintf(`dd if=/dev/zero of=%[1]s/fill bs=1048576 count=70 2>/dev/null; n=$(wc -c <%[1]s/fill); rm -f %[1]s/fill
[ "$n" -le 67108864 ] && echo "held: $n bytes" || echo "breach: $n bytes"`, path))
	}
	return []Probe{
		{
			Name: "disk/root", Row: row, Why: "files outside the workspace fill the engine's disk", Setting: "upgrade the engine: the root must be read-only",
			Run: script(rootMount), Control: always(Control{Weakness: docker.Weakness{WritableRoot: true}}),
		},
		{
			Name: "disk/tmp", Row: row, Why: "files in memory are not counted", Setting: "upgrade the engine: /tmp must have a size",
			Run: size("/tmp"), Control: large,
		},
		{
			Name: "disk/shm", Row: row, Why: "files in memory are not counted", Setting: "upgrade the engine: /dev/shm must have a size",
			Run: size("/dev/shm"), Control: large,
		},
		{
			Name: "disk/core", Row: row, Why: "crashes fill the workspace", Setting: "upgrade the engine: it must set ulimits",
			Run:     script(`n=$(ulimit -c); [ "$n" = 0 ] && echo "held: no core files" || echo "breach: core files of $n blocks"`),
			Control: always(Control{Weakness: docker.Weakness{LooseUlimits: true}}),
		},
	}
}

const rootMount = `while read -r id parent device root target options rest; do [ "$target" = / ] && mode=$options; done </proc/self/mountinfo
touch /flynn-probe 2>/dev/null && rm -f /flynn-probe && mode="rw, written"
case $mode in ro*) echo "held: $mode";; *) echo "breach: root is mounted $mode";; esac`

// goneWithin is the time after which nothing may be left of a command that was ended.
const goneWithin = time.Second

// count counts the processes.
func count(ctx context.Context, t Target) (int, error) {
	text, err := output(ctx, t, countScript)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// endTimeout is short, because the attack is about the end.
const endTimeout = 1200 * time.Millisecond

// countScript counts processes with shell built-ins.
const countScript = `set -- /proc/[0-9]*; echo $#`

// listScript lists processes by name, state and parent.
const listScript = `for p in /proc/[0-9]*; do while read -r key value; do case $key in Name:|State:|PPid:) printf '%s ' "$value";; esac; done <$p/status; printf '; '; done`

// ended runs a command that tries to outlive its timeout, and counts what is left.
func ended(text string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		return outlive(ctx, s, func() (machine.Result, error) {
			return s.Target.Exec(ctx, machine.Command{Script: text, Timeout: endTimeout})
		})
	}
}

// outlive compares the number of processes before and after run, whose command does not end by itself.
func outlive(ctx context.Context, s *Subject, run func() (machine.Result, error)) (Finding, error) {
	before, err := count(ctx, s.Target)
	if err != nil {
		return Finding{}, err
	}
	r, err := run()
	if err != nil {
		return Finding{}, err
	}
	ended := time.Now()
	after, err := count(ctx, s.Target)
	// Zombies count until they are reaped. A slow machine may need the whole time for one check.
	for n := 0; err == nil && after > before && (n < 5 || time.Since(ended) < goneWithin); n++ {
		after, err = count(ctx, s.Target)
	}
	switch {
	case err != nil:
		return breached("no command works afterwards: %v", err), nil
	case after > before: // less than before if something of an earlier probe has ended meanwhile
		there, err := output(ctx, s.Target, listScript)
		return breached("%d processes before, %d after; kill %+v; now there are (%v) %s", before, after, r.Kill, err, there), nil
	case r.Kill == nil || r.Kill.Survivors != 0:
		return breached("no certificate that nothing survived"), nil
	}
	return held("ended by rung %s in %v, no survivor", r.Kill.Rung, r.Kill.Took.Round(time.Millisecond)), nil
}
