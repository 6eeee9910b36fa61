package pool

import (
	"runtime"
	"time"
)

// defaultShare is the default share of the machine's CPU time for refilling.
const defaultShare = 0.25

// burst is the CPU time that refilling may use at once after a rest.
const burst = 2 * time.Second

// rate returns the CPU time that refilling may use per unit of time, on all cores together: making an item counts as if it kept one core
// busy.
func rate(share float64) float64 { return share * float64(runtime.NumCPU()) }

// budget is a token bucket of time. It may become negative, because the cost of an item is known only afterwards; refilling then waits. In
// any time T no more than rate x T + burst + one item is spent.
type budget struct {
	rate    float64 // gained per unit of time
	balance time.Duration
	at      time.Time // of balance; zero before the first use
}

// wait returns how long to wait before anything may be spent.
func (b *budget) wait(now time.Time) time.Duration {
	b.gain(now)
	if b.balance > 0 {
		return 0
	}
	return max(time.Millisecond, time.Duration(float64(-b.balance)/b.rate))
}

func (b *budget) spend(now time.Time, took time.Duration) {
	b.gain(now)
	b.balance -= took
}

func (b *budget) gain(now time.Time) {
	if b.at.IsZero() {
		b.at, b.balance = now, burst
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.balance = min(burst, b.balance+time.Duration(float64(passed)*b.rate))
		b.at = now
	}
}
