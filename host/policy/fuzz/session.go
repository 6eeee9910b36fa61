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
	words   []string // that mutations insert
	agents  []string // of all cases
	targets []*target
	cases   []input
	corpus  []input
	report  Report
	read    []string        // facts that the policy reads, and argsKey
	swept   map[int]bool    // inputs of the corpus
	known   map[string]bool // sorts of finds
	begun   time.Time
	wall    time.Duration // of the manifest
}

// target is the module with one set of data. pristine counts its blocks and is reset before each question; warm does neither, so that
// their answers differ only if the module has state.
type target struct {
	data           map[string]string
	pristine, warm *author.Loading
	mine           []bool // blocks of the author's code
	seen           []byte // for each block, a bit for each class of how often it has run
}

// fuzzWall bounds the time of a question on a busy machine. A question that takes longer than the manifest allows is repeated before it
// counts.
const fuzzWall = 10 * time.Second

func newSession(ctx context.Context, c Config, subject *author.Subject) (*session, error) {
	s := &session{config: c, subject: subject, random: newRandom(c.Seed), known: map[string]bool{}, swept: map[int]bool{}}
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
	for _, c := range cases {
		if c.Want.Error != "" {
			continue // its data makes the policy fail on purpose
		}
		if err := s.addCase(ctx, c); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	if len(s.cases) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no case with an answer to begin with", c.Dir), s.close())
	}
	for i := range s.cases { // once the agents of all cases are known
		s.cases[i].Ask.Agents = s.agents
	}
	s.words = dictionary(s.cases)
	return s, nil
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func (s *session) addCase(ctx context.Context, c author.Case) error {
	t, err := s.targetOf(ctx, c)
	if err != nil {
		return err
	}
	in := newInput(c, nil, t)
	in.origin = &in
	s.cases = append(s.cases, in)
	for _, name := range c.Ask.Agents {
		if !slices.Contains(s.agents, name) {
			s.agents = append(s.agents, name)
		}
	}
	uses, calls, err := t.warm.Uses(ctx, c)
	if err != nil {
		return err
	}
	s.study(uses, calls)
	return nil
}

// study adds the facts of a case that the policy reads. A policy reads a handful of facts, and changes of the others would be wasted.
func (s *session) study(uses []author.FactUse, calls []author.CallMade) {
	fields, names := facts()
	read := func(key string) {
		if !slices.Contains(s.read, key) {
			s.read = append(s.read, key)
		}
	}
	for _, u := range uses {
		field := map[string]string{"unix_time": "Now", "minute_of_day": "Now", "weekday": "Now", "text_len": "Text", "args": argsKey}[u.Name]
		if i := slices.Index(names, u.Name); i >= 0 {
			field = fields[i]
		}
		if u.Use != author.Unread && field != "" {
			read(field)
		}
	}
	for _, c := range calls {
		switch c.Name {
		case "arg", "arg_kind":
			read(argsKey)
		case "get":
			read("Text")
		}
	}
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

// run asks the cases, then the inputs of earlier runs, then mutations of both.
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
	shown := s.begun
	for n := 0; !s.over(ctx, n); n++ {
		s.try(ctx, s.next(), false)
		if n%sweepEvery == sweepEvery-1 {
			s.sweep(ctx)
		}
		if n%256 == 0 && s.config.Progress != nil && time.Since(shown) >= time.Second {
			shown = time.Now()
			s.config.Progress(s.summary())
		}
	}
	return nil
}

// over reports whether the run has ended. It reads the clock only for some n.
func (s *session) over(ctx context.Context, n int) bool {
	if s.config.Executions > 0 && s.report.Executions >= s.config.Executions || len(s.report.Finds) >= maxFinds {
		return true
	}
	return n%64 == 0 && (ctx.Err() != nil || s.config.For > 0 && time.Since(s.begun) >= s.config.For)
}

// next mutates one of the inputs; new ones are chosen more often.
func (s *session) next() input {
	n := len(s.corpus)
	k := s.random.IntN(n)
	if s.random.IntN(2) == 0 {
		k = max(k, s.random.IntN(n), s.random.IntN(n))
	}
	return s.mutate(s.corpus[k])
}

// The bounds of sweeps: the beginning of a string, and quick questions only.
const (
	sweepEvery = 256 // changes, while there is something to sweep
	sweepBytes = 16
	sweepFuel  = 20_000 // of one question
)

// sweep tries every printable character at every position at the beginning of each string that the policy reads, in the newest input that has
// not been swept. A policy that compares letter by letter reveals each right letter by running a new block, but random changes take long to
// find it.
func (s *session) sweep(ctx context.Context) {
	k := len(s.corpus) - 1
	for k >= 0 && (s.swept[k] || s.corpus[k].fuel > sweepFuel) {
		k--
	}
	if k < 0 {
		return
	}
	s.swept[k] = true
	in := s.corpus[k]
	for _, field := range s.read {
		text, ok := in.tree[field].(string)
		if !ok || len(known(field)) > 0 || field == "Now" {
			continue
		}
		for at := range min(len(text), sweepBytes) {
			for c := ' '; c <= '~' && !s.over(ctx, int(c)); c++ {
				next, ok := in.edit([]string{field}, text[:at]+string(c)+text[at+1:])
				if !ok {
					continue
				}
				got, record := s.ask(ctx, next)
				if s.novel(in.target) || got.Error != "" {
					s.learn(ctx, next, got, record, true)
				}
			}
		}
	}
}

// try asks a question.
func (s *session) try(ctx context.Context, in input, keep bool) {
	got, record := s.ask(ctx, in)
	s.learn(ctx, in, got, record, s.novel(in.target) || keep)
}

// learn keeps an input that does something new, and checks the invariants: all of them if it does, and otherwise some.
func (s *session) learn(ctx context.Context, in input, got author.Outcome, record policy.Record, fresh bool) {
	in.fuel = record.Fuel
	if fresh {
		s.corpus = append(s.corpus, in)
	}
	s.check(ctx, in, got, record, s.fails)
	s.check(ctx, in, got, record, s.remembers)
	if fresh || s.random.IntN(32) == 0 {
		s.check(ctx, in, got, record, s.unstable)
	}
	if got.Error != "" || !fresh && s.random.IntN(4) > 0 {
		return
	}
	list := s.variations(in, record)
	if !fresh {
		list = []variation{pick(s, list)}
	}
	for _, v := range list {
		s.check(ctx, in, got, record, s.holds(v))
	}
}

// ask asks a pristine instance and counts the execution.
func (s *session) ask(ctx context.Context, in input) (author.Outcome, policy.Record) {
	s.report.Executions++
	return in.target.pristine.Ask(ctx, in.Case)
}

// novel reports whether the last question ran a block of the author's code for the first time, or more often than before.
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

// covered returns the number of the author's blocks that have run, with any data.
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
