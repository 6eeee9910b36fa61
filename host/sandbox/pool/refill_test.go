package pool

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However long containers take and whenever they are wanted, no stretch of time sees more spent than its share.
func TestBudgetProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := budget{rate: rapid.Float64Range(0.01, 4).Draw(t, "rate")}
		type launch struct {
			began, ended time.Time
		}
		now := time.Unix(1_000_000, 0)
		var launches []launch
		longest := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "launches") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "rest")) * time.Millisecond)
			for wait := b.wait(now); wait > 0; wait = b.wait(now) {
				now = now.Add(wait)
			}
			took := time.Duration(rapid.IntRange(1, 5000).Draw(t, "took")) * time.Millisecond
			longest = max(longest, took)
			launches = append(launches, launch{now, now.Add(took)})
			now = now.Add(took)
			b.spend(now, took)
		}
		for i := range launches {
			var spent time.Duration
			for j := i; j < len(launches); j++ {
				spent += launches[j].ended.Sub(launches[j].began)
				span := launches[j].ended.Sub(launches[i].began)
				if most := time.Duration(float64(span)*b.rate) + burst + longest + 100*time.Millisecond; spent > most {
					t.Fatalf("%v spent in %v, at most %v is allowed", spent, span, most)
				}
			}
		}
	})
}

func TestBudgetNeverWaitsForEver(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := budget{rate: 0.5}
	if b.wait(now) != 0 {
		t.Error("the first container has to wait")
	}
	b.spend(now, 3*time.Second)
	if got := b.wait(now); got != 2*time.Second {
		t.Errorf("a debt of 1 s at half the time: wait %v", got)
	}
	if got := b.wait(now.Add(2*time.Second + time.Millisecond)); got != 0 {
		t.Errorf("still %v", got)
	}
	b.spend(now, time.Second)
	if got := b.wait(now.Add(-time.Hour)); got > 2*time.Second {
		t.Errorf("the clock went back: wait %v", got)
	}
}

func TestNeediest(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	having := func(ready, size int) *shelf[*item] { return &shelf[*item]{ready: make([]*item, ready), size: size} }
	resting := func(p *shelf[*item], d time.Duration) *shelf[*item] { p.until = now.Add(d); return p }
	for name, c := range map[string]struct {
		pools   []*shelf[*item]
		change  func(*Set[*item])
		want    int // index, or -1
		waiting time.Duration
	}{
		"none":                  {nil, nil, -1, -1},
		"all full":              {[]*shelf[*item]{having(2, 2), having(1, 1)}, nil, -1, -1},
		"the emptiest part":     {[]*shelf[*item]{having(3, 4), having(1, 2), having(2, 3)}, nil, 1, 0},
		"the first of equals":   {[]*shelf[*item]{having(0, 1), having(0, 5)}, nil, 0, 0},
		"one that rests":        {[]*shelf[*item]{resting(having(0, 1), time.Minute), having(4, 5)}, nil, 1, 0},
		"all rest":              {[]*shelf[*item]{resting(having(0, 1), time.Minute), resting(having(0, 1), time.Second)}, nil, -1, time.Second},
		"memory is short":       {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.pressure.on = true }, -1, -1},
		"closed":                {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.closed = true }, -1, -1},
		"after a claim":         {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.claimed.Store(now.UnixNano()) }, 0, yieldTime},
		"somebody waits":        {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.urgent.Store(1) }, 0, yieldTime},
		"somebody always waits": {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.urgent.Store(1); ps.yielding = now.Add(-maxYield) }, 0, 0},
		"the budget is used up": {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.budget.spend(now, burst+time.Second) }, 0, time.Second},
		"a claim long since":    {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) { ps.claimed.Store(now.Add(-time.Hour).UnixNano()) }, 0, 0},
		"the wait that is longer": {[]*shelf[*item]{having(0, 1)}, func(ps *Set[*item]) {
			ps.urgent.Store(1)
			ps.budget.spend(now, burst+time.Second)
		}, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			ps := &Set[*item]{order: c.pools, budget: budget{rate: 1}}
			if c.change != nil {
				c.change(ps)
			}
			got, wait := ps.neediest(now)
			if c.want < 0 && got != nil || c.want >= 0 && got != c.pools[c.want] || wait != c.waiting {
				t.Errorf("got %+v after %v, want %d after %v", got, wait, c.want, c.waiting)
			}
		})
	}
}

func TestFailingShelfRests(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var p shelf[*item]
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60, 60} {
		if p.failed(now); p.until.Sub(now) != want*time.Second {
			t.Errorf("rests %v, want %v s", p.until.Sub(now), want)
		}
	}
}

func TestPressure(t *testing.T) {
	var p pressure
	for i, c := range []struct {
		state   Memory
		on      bool
		changed bool
	}{
		{Memory{0, 0.5}, false, false},
		{Memory{10, 0.10}, false, false},
		{Memory{10.1, 0.5}, true, true},
		{Memory{9, 0.5}, true, false},
		{Memory{4, 0.12}, true, false},
		{Memory{5, 0.15}, false, true},
		{Memory{0, 0.09}, true, true},
		{Memory{0, 0.14}, true, false},
		{Memory{6, 0.5}, true, false},
		{Memory{0, 0.5}, false, true},
	} {
		if changed := p.update(c.state); changed != c.changed || p.on != c.on {
			t.Errorf("step %d, %+v: on %v, changed %v", i, c.state, p.on, changed)
		}
	}
}

func TestReadMemory(t *testing.T) {
	s, err := readMemory()
	if err != nil || s.Available <= 0 || s.Available > 1 || s.Stalled < 0 || s.Stalled > 100 {
		t.Errorf("%+v (%v)", s, err)
	}
	if v, err := parseStalls([]byte("some avg10=12.34 avg60=1.00 avg300=0.00 total=1\nfull avg10=99.00\n")); v != 12.34 || err != nil {
		t.Errorf("stalled %v (%v)", v, err)
	}
	if v, err := parseMemInfo([]byte("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   250 kB\n")); v != 0.25 || err != nil {
		t.Errorf("available %v (%v)", v, err)
	}
	for _, bad := range []string{"", "some", "some avg10=x", "full avg10=1.0", "some avg60=1"} {
		if _, err := parseStalls([]byte(bad)); err == nil {
			t.Errorf("%q was taken for stalls", bad)
		}
	}
	for _, bad := range []string{"", "MemTotal: 0 kB\nMemAvailable: 0 kB", "MemTotal: 1\nMemAvailable: 2", "MemTotal:\nMemAvailable: 1"} {
		if _, err := parseMemInfo([]byte(bad)); err == nil {
			t.Errorf("%q was taken for memory", bad)
		}
	}
}
