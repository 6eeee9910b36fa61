package policy

import (
	"encoding/binary"
	"math/rand/v2"
)

// Errors of WASI.
const (
	wasiOK    = 0
	wasiBadF  = 8
	wasiInval = 28
)

// wasiFunctions returns the functions that language runtimes import in any case. They give access to nothing: the clock has the time of the
// frame and moves only when the module sleeps, which takes no time; random bytes are derived from the frame's seed; output goes to the log;
// and there are no files.
func wasiFunctions() []hostFunction {
	f := func(name, signature string, call func(*instance, []uint64)) hostFunction {
		return function(wasi, name, signature, func(i *instance, stack []uint64) {
			i.pay(costHostCall)
			call(i, stack)
		})
	}
	badFile := func(_ *instance, stack []uint64) { stack[0] = wasiBadF }
	return []hostFunction{
		f("args_get", "ii>i", wasiNothing),
		f("args_sizes_get", "ii>i", wasiNoSizes),
		f("environ_get", "ii>i", wasiNothing),
		f("environ_sizes_get", "ii>i", wasiNoSizes),
		f("clock_time_get", "ili>i", wasiClock),
		f("random_get", "ii>i", wasiRandom),
		f("fd_write", "iiii>i", wasiWrite),
		f("sched_yield", ">i", wasiNothing),
		f("poll_oneoff", "iiii>i", wasiPoll),
		f("proc_exit", "i>", func(i *instance, stack []uint64) {
			i.abort(failf(ClassTrap, "the module exited with code %d%s", uint32(stack[0]), i.lastWords()))
		}),
		f("fd_close", "i>i", badFile),
		f("fd_fdstat_get", "ii>i", badFile),
		f("fd_fdstat_set_flags", "ii>i", badFile),
		f("fd_prestat_get", "ii>i", badFile),
		f("fd_prestat_dir_name", "iii>i", badFile),
	}
}

// wasiNothing succeeds without an effect.
func wasiNothing(_ *instance, stack []uint64) { stack[0] = wasiOK }

func wasiNoSizes(i *instance, stack []uint64) {
	ok := i.memory.WriteUint32Le(uint32(stack[0]), 0) && i.memory.WriteUint32Le(uint32(stack[1]), 0)
	stack[0] = wasiResult(ok)
}

func wasiResult(ok bool) uint64 {
	if ok {
		return wasiOK
	}
	return wasiInval
}

// Clocks of WASI. All others are treated as the monotonic one.
const (
	clockRealtime = 0

	// tickOfClock is how far each reading moves the monotonic clock, in nanoseconds, because runtimes divide by durations.
	tickOfClock = 1_000
)

// clockNow reads a clock of the decision, in nanoseconds.
func (i *instance) clockNow(id uint32) uint64 {
	const second = 1_000_000_000
	if id == clockRealtime {
		return uint64(i.q.unix)*second + i.slept
	}
	i.slept += tickOfClock
	return second + i.slept
}

func wasiClock(i *instance, stack []uint64) {
	stack[0] = wasiResult(i.memory.WriteUint64Le(uint32(stack[2]), i.clockNow(uint32(stack[0]))))
}

// wasiPoll is poll_oneoff(in, out, n, events). Waiting for a time ends at once and moves the clocks; waiting for anything else would
// never end and is a trap.
func wasiPoll(i *instance, stack []uint64) {
	const subscription, event = 48, 32
	in, out, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	for k := range min(n, 64) {
		s, ok := i.memory.Read(in+k*subscription, subscription)
		if !ok {
			stack[0] = wasiInval
			return
		}
		if s[8] != 0 {
			continue // not a clock
		}
		wait := binary.LittleEndian.Uint64(s[24:])
		if absolute := s[40]&1 != 0; absolute {
			now := i.clockNow(binary.LittleEndian.Uint32(s[16:]))
			wait -= min(wait, now)
		}
		i.slept += wait
		var e [event]byte
		copy(e[:8], s[:8])
		stack[0] = wasiResult(i.memory.Write(out, e[:]) && i.memory.WriteUint32Le(uint32(stack[3]), 1))
		return
	}
	i.abort(failf(ClassTrap, "the module waits for something that cannot come"))
}

// wasiRandom reads from the decision's stream of random bytes, which depends on its seed.
func wasiRandom(i *instance, stack []uint64) {
	region, ok := i.memory.Read(uint32(stack[0]), uint32(stack[1]))
	if ok {
		i.pay(int64(len(region)))
		if i.random == nil {
			i.random = rand.NewPCG(uint64(i.q.seed), randomStream)
		}
		for len(region) > 0 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], i.random.Uint64())
			region = region[copy(region, word[:]):]
		}
	}
	stack[0] = wasiResult(ok)
}

// randomStream distinguishes the modules' random numbers from others of the same seed.
const randomStream = 0x666c796e6e

// wasiWrite keeps what a runtime prints, usually the text of a panic.
func wasiWrite(i *instance, stack []uint64) {
	vectors, n := uint32(stack[1]), uint32(stack[2])
	written := uint32(0)
	for k := range min(n, 64) {
		at, ok1 := i.memory.ReadUint32Le(vectors + 8*k)
		size, ok2 := i.memory.ReadUint32Le(vectors + 8*k + 4)
		text, ok3 := i.memory.Read(at, size)
		if !ok1 || !ok2 || !ok3 {
			stack[0] = wasiInval
			return
		}
		i.pay(int64(size) / bytesPerUnit)
		i.print(text)
		written += size
	}
	stack[0] = wasiResult(i.memory.WriteUint32Le(uint32(stack[3]), written))
}
