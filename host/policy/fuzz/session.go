package fuzz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// session is one run. One goroutine uses it.
type session struct {
	config  Config
	subject *author.Subject
	random  *rand.Rand
	words   []string // that mutations put in
	agents  []string // of all cases
	targets []*target
	cases   []input
	corpus  []input
	report  Report
	read    []int // fields that the policy reads
	swept   map[swept]bool
	known   map[string]bool // finds, by what they have in common
	begun   time.Time
	wall    time.Duration // of the manifest
}

// input is a question, with the case that it came from.
type input struct {
	author.Case
	origin *author.Case
	target *target

	fuel int64 // that it took; 0 before it is asked
}

// target is the module with one set of data. Pristine counts its blocks and puts itself back before each question; warm does neither, so that a
// difference between the two is the module's.
type target struct {
	data           map[string]string
	pristine, warm *author.Loading
	mine           []bool // blocks of the author's code
	seen           []byte // for each block, a bit for each class of how often it has run
}

// fuzzWall is the time that a question may take while many are asked on a machine that does other things. What takes longer than the
// manifest allows is asked again before it counts.
const fuzzWall = 10 * time.Second

func newSession(ctx context.Context, c Config, subject *author.Subject) (*session, error) {
	s := &session{config: c, subject: subject, random: newRandom(c.Seed), known: map[string]bool{}, swept: map[swept]bool{}}
	m := subject.Manifest()
	s.wall = time.Duration(m.Limits.Wall)
	if s.wall == 0 {
		s.wall = policy.DefaultWall
	}
	s.report = Report{Policy: m.Name, SHA256: subject.SHA256(), Seed: c.Seed, Finds: []Find{}}
	cases, err := subject.Cases()
	if err != nil {
		return nil, err
	}
	for i := range cases {
		if cases[i].Want.Error != "" {
			continue // its data fails the policy on purpose, whatever is asked
		}
		if err := s.addCase(ctx, &cases[i]); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	if len(s.cases) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no case with an answer to begin with", c.Dir), s.close())
	}
	for _, in := range s.cases {
		if err := s.study(ctx, in); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	s.words = dictionary(s.cases)
	return s, nil
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func (s *session) addCase(ctx context.Context, c *author.Case) error {
	t, err := s.targetOf(ctx, *c)
	if err != nil {
		return err
	}
	s.cases = append(s.cases, input{Case: *c, origin: c, target: t})
	for _, name := range c.Ask.Agents {
		if !slices.Contains(s.agents, name) {
			s.agents = append(s.agents, name)
		}
	}
	return nil
}

// targetOf finds or loads the module with a case's data.
func (s *session) targetOf(ctx context.Context, c author.Case) (t *target, err error) {
	key, err := json.Marshal(c.Data)
	if err != nil {
		return nil, err
	}
	for _, t := range s.targets {
		if have, err := json.Marshal(t.data); err == nil && string(have) == string(key) {
			return t, nil
		}
	}
	t = &target{data: c.Data}
	if t.pristine, err = s.subject.Load(ctx, c, author.Mode{Count: true, Isolation: policy.IsolationPure, Wall: fuzzWall}); err != nil {
		return nil, err
	}
	s.targets = append(s.targets, t)
	if t.warm, err = s.subject.Load(ctx, c, author.Mode{Isolation: policy.IsolationWarm, Wall: fuzzWall}); err != nil {
		return nil, err
	}
	source, own, err := s.subject.Source()
	if err != nil {
		return nil, err
	}
	t.mine = source.Own(t.pristine.Blocks(), own)
	t.seen = make([]byte, len(t.mine))
	return t, nil
}

func (s *session) close() error {
	var err error
	for _, t := range s.targets {
		err = errors.Join(err, t.pristine.Close())
		if t.warm != nil {
			err = errors.Join(err, t.warm.Close())
		}
	}
	return err
}

// run asks the cases, then what earlier runs kept, then what comes of changing them.
func (s *session) run(ctx context.Context) error {
	s.begun = time.Now()
	for _, in := range s.cases {
		s.try(ctx, in, true)
	}
	s.report.ByCases = s.covered()
	kept, err := s.loadCorpus()
	if err != nil {
		return err
	}
	for _, in := range kept {
		s.try(ctx, in, false)
	}
	told := s.begun
	for n := 0; !s.over(ctx, n); n++ {
		s.try(ctx, s.next(), false)
		if n%sweepEvery == sweepEvery-1 {
			s.sweepNext(ctx)
		}
		if n%256 == 0 && s.config.Progress != nil && time.Since(told) >= time.Second {
			told = time.Now()
			s.config.Progress(s.summary())
		}
	}
	return nil
}

// over looks at the clock now and then. A run that is ended by its executions ends at the same question each time.
func (s *session) over(ctx context.Context, n int) bool {
	if s.config.Executions > 0 && s.report.Executions >= s.config.Executions || len(s.report.Finds) >= maxFinds {
		return true
	}
	return n%64 == 0 && (ctx.Err() != nil || s.config.For > 0 && time.Since(s.begun) >= s.config.For)
}

// next changes one of the inputs; those that were found last are chosen more often.
func (s *session) next() input {
	n := len(s.corpus)
	k := s.random.IntN(n)
	if s.random.IntN(2) == 0 {
		k = max(k, s.random.IntN(n), s.random.IntN(n))
	}
	return s.mutate(s.corpus[k])
}

// try asks a question.
func (s *session) try(ctx context.Context, in input, keep bool) {
	got, record := s.ask(ctx, in)
	fresh := s.novel(in.target)
	in.fuel = record.Fuel
	s.check(ctx, in, got, record, fresh || keep)
}

// check checks the invariants, and keeps what does something new.
func (s *session) check(ctx context.Context, in input, got author.Outcome, record policy.Record, fresh bool) {
	if fresh {
		s.corpus = append(s.corpus, in)
	}
	s.checkFailure(ctx, in, got, record)
	s.checkWarm(ctx, in, got, record)
	if fresh || s.random.IntN(32) == 0 {
		s.checkAgain(ctx, in, got, record)
	}
	s.checkVariations(ctx, in, got, record, fresh)
}

// ask asks a pristine instance, and counts.
func (s *session) ask(ctx context.Context, in input) (author.Outcome, policy.Record) {
	s.report.Executions++
	return in.target.pristine.Ask(ctx, in.Case)
}

// novel reports whether the last question ran a block of the author's that none has run, or ran so often.
func (s *session) novel(t *target) bool {
	fresh := false
	t.pristine.TakeCounts(func(block int, n uint64) {
		if !t.mine[block] {
			return
		}
		class := byte(1) << min(bits.Len64(n)-1, 7)
		if t.seen[block]&class == 0 {
			t.seen[block] |= class
			fresh = true
		}
	})
	return fresh
}

// covered is how many of the author's blocks have run, with whatever data.
func (s *session) covered() int {
	n := 0
	for block, mine := range s.targets[0].mine {
		if mine && slices.ContainsFunc(s.targets, func(t *target) bool { return t.seen[block] != 0 || t.pristine.InitialCounts()[block] > 0 }) {
			n++
		}
	}
	return n
}

func (s *session) summary() Report {
	r := s.report
	r.Took = time.Since(s.begun)
	r.PerSecond = float64(r.Executions) / r.Took.Seconds()
	r.Corpus, r.Covered = len(s.corpus), s.covered()
	for _, mine := range s.targets[0].mine {
		if mine {
			r.Blocks++
		}
	}
	return r
}
