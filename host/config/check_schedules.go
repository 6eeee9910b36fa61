package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/cron"
	"github.com/flynnhost/flynn/host/message"
)

// schedules checks [[schedules]].
func (c *checker) schedules() {
	first := map[string]int{}
	for i, s := range c.cfg.Schedules {
		at := keyPath{"schedules"}.index(i)
		c.required(at.child("name"), s.Name, `"report"`)
		if s.Name != "" {
			c.name(at.child("name"), s.Name)
		}
		if n, taken := first[s.Name]; taken && s.Name != "" {
			c.report(at.child("name"), fmt.Sprintf("schedules[%[2]d] is named %[1]q already", s.Name, n), "choose another name")
		} else {
			first[s.Name] = i
		}
		c.required(at.child("agent"), s.Agent, `"main"`)
		c.required(at.child("text"), s.Text, `"Summarise what has happened."`)
		c.timing(at, s)
		c.someone(at.child("as"), s.As)
		if s.Deliver != "" {
			c.conversation(at.child("deliver"), s.Deliver)
		}
	}
}

// leastEvery is the shortest time between two runs.
const leastEvery = Duration(time.Minute)

func (c *checker) timing(at keyPath, s Schedule) {
	for _, f := range s.TimingFaults() {
		where := at
		if f.Key != "" {
			where = at.child(f.Key)
		}
		c.report(where, f.Problem, f.Hint)
	}
}

// TimingFaults returns what is wrong with the times of a schedule. Key is one of its own keys, or empty.
func (s Schedule) TimingFaults() (faults []Error) {
	fault := func(key, problem, hint string) {
		faults = append(faults, Error{Key: key, Problem: problem, Hint: hint})
	}
	switch {
	case s.Cron == "" && s.Every == 0:
		fault("", "neither cron nor every", `write cron = "0 7 * * 1-5" or every = "30m"`)
	case s.Cron != "" && s.Every != 0:
		fault("every", "cron is written too", "keep one of them")
	case s.Cron == "" && s.Every < leastEvery:
		fault("every", fmt.Sprintf("%s is less than a minute", s.Every), `write at least "1m"`)
	}
	if s.Cron != "" {
		if _, err := cron.Parse(s.Cron); err != nil {
			fault("cron", err.Error(), `write minute, hour, day of the month, month and day of the week, such as "0 7 * * 1-5"`)
		}
	}
	if _, err := time.LoadLocation(s.Timezone); err != nil {
		fault("timezone", fmt.Sprintf("no time zone %q", s.Timezone),
			`write a name of the IANA database, such as "Europe/Berlin"; the system has to have that database`)
	}
	return faults
}

// someone checks the id of one sender.
func (c *checker) someone(at keyPath, id string) {
	instance, name, _ := message.SenderKey(id).Cut()
	switch {
	case id == "":
		c.report(at, "missing", `write the id of the owner or member in whose name it runs, such as as = "terminal:owner"`)
	case strings.ContainsAny(id, "*?[]{}"):
		c.report(at, fmt.Sprintf("%q is a pattern", id), "write the id of one sender")
	case name == "":
		c.report(at, fmt.Sprintf("%q names no sender", id), `write "instance:platform-id", such as "terminal:owner"`)
	case !c.knownChannel(instance):
		c.noChannel(at, instance, c.cfg.ChannelNames())
	}
}
