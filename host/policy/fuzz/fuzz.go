// Package fuzz searches for questions that a policy answers badly.
//
// Start with Run. It begins with the policy's cases, changes their facts and arguments, and keeps inputs that run new blocks of the
// author's code, or known ones more often. Every question is asked through package host/policy, the engine of the live host, and the answer is
// checked for these invariants:
//
//   - the policy does not fail: it does not trap, exceed a limit, or give an answer outside the contract;
//   - the same question has the same answer and takes the same fuel, and an instance that has answered others gives the same answer;
//   - arguments that are malformed are restricted no less than the well-formed ones that they were made from;
//   - an unknown role, frontend or kind of conversation is treated no better than the least trusted one.
//
// An input that violates one is a find. It is shrunk towards the case that it was made from, so that only the relevant difference remains.
// A run with a seed and a number of executions is reproducible. The package changes neither the policy nor its data, which an attacker
// does not control.
package fuzz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/policy/author"
)

// Config is what a run needs.
type Config struct {
	Dir        string        // of the policy
	Seed       uint64        // of the run's choices
	For        time.Duration // 0 is no limit
	Executions int           // 0 is no limit
	Corpus     string        // folder with inputs of earlier runs, to which those of this run are added; "" is none
	Finds      string        // folder for finds; "" is none
	// Progress is called about once a second.
	Progress func(Report)
}

// Report is the result of a run.
type Report struct {
	Policy     string        `json:"policy"`
	SHA256     string        `json:"sha256"`
	Seed       uint64        `json:"seed"`
	Executions int           `json:"executions"` // questions asked of a pristine instance
	Took       time.Duration `json:"took_ns"`
	PerSecond  float64       `json:"per_second"`
	Corpus     int           `json:"corpus"`   // inputs that are worth keeping
	Blocks     int           `json:"blocks"`   // of the author's code
	ByCases    int           `json:"by_cases"` // of them, run by the cases
	Covered    int           `json:"covered"`  // run in the end
	// WarmFuel is how often an instance that had answered other questions took other fuel, because of its garbage collector or of
	// state that does not change answers.
	WarmFuel int    `json:"warm_fuel"`
	Finds    []Find `json:"finds"`
}

// Find is a question that a policy answers badly, as small as it could be made.
type Find struct {
	Invariant string `json:"invariant"` // fails, unstable, remembers, malformed or unknown
	What      string `json:"what"`
	Case      string `json:"case"` // that it came from
	// Changes are the differences from that case, for people.
	Changes []string       `json:"changes"`
	Answer  author.Outcome `json:"answer"`
	// Than is the answer that it is compared with, if there is one.
	Than *author.Outcome `json:"than,omitempty"`
	// Files are the find as a file of cases, and its frame.
	Files []string `json:"files,omitempty"`

	input input
	sort  string // one find of each sort is reported
}

// maxFinds ends a run.
const maxFinds = 20

// Run fuzzes the built module of a policy until its time, its executions or the context ends. Finds are in the
// report; an error means that the policy could not be fuzzed.
func Run(ctx context.Context, c Config) (report Report, err error) {
	if c.For <= 0 && c.Executions <= 0 {
		return Report{}, errors.New("give a time or a number of executions")
	}
	subject, err := author.OpenSubject(c.Dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	s, err := newSession(ctx, c, subject)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.run(ctx); err != nil {
		return s.summary(), err
	}
	if err := s.writeFinds(ctx); err != nil {
		return s.summary(), fmt.Errorf("write what was found: %w", err)
	}
	return s.summary(), s.saveCorpus()
}
