package plugintest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/suite"
	"github.com/flynnhost/flynn/sdk/sandbox"
)

// engine is one in memory, which outlasts the drivers that use it.
type engine struct {
	mu  sync.Mutex
	all map[string]*box
}

type box struct {
	sandbox.Owned
	key string
}

// memory drives it. A fault is what a careless author would have written.
type memory struct {
	*engine
	fault    string
	pulls    string // the call that says that there is no image
	settings struct {
		Host string `json:"host"`
	}
	own   map[string]bool
	busy  sync.Mutex
	given bool // the last removal was given up
}

func (m *memory) Describe() sandbox.Description {
	return sandbox.Description{Name: "memory", Version: "1.0.0"}
}

func (m *memory) Configure(_ context.Context, c sandbox.Config) error {
	return c.Decode(&m.settings)
}

func (m *memory) gone() error {
	if m.settings.Host == "" {
		return nil
	}
	if m.fault == "a silent engine" {
		return errors.New("it is silent")
	}
	return fmt.Errorf("%w at %s", sandbox.ErrUnavailable, m.settings.Host)
}

func (m *memory) Capabilities(context.Context) (sandbox.Capabilities, error) {
	has := sandbox.Capabilities{Engine: "Memory 1", Networks: []string{sandbox.NetworkNone}}
	switch m.fault {
	case "no name":
		has.Engine = ""
	case "another network":
		has.Networks = []string{"mesh"}
	case "a feature of its own":
		has.Features = []sandbox.Feature{99}
	case "snapshots of nothing":
		has.Features = []sandbox.Feature{sandbox.Seccomp, sandbox.Snapshots}
	}
	return has, m.gone()
}

// pace is how long the engine takes for a container.
const pace = 40 * time.Millisecond

// work waits for the engine.
func (m *memory) work(ctx context.Context) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	select {
	case <-time.After(pace):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *memory) Create(ctx context.Context, c sandbox.Container) (string, error) {
	if err := m.gone(); err != nil {
		return "", err
	}
	err := m.work(ctx)
	if err != nil && m.fault == "half made" {
		c.Key, err = "", nil
	}
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.keyed(c.Key)
	if err := m.pull("create", c.Image); err != nil {
		return "", err
	}
	if known != "" && m.fault != "no keys" {
		return known, nil
	}
	id := fmt.Sprint("box-", len(m.all), "-", time.Now().UnixNano())
	labels := c.Labels
	if m.fault == "lost labels" {
		labels = map[string]string{sandbox.LabelInstance: c.Labels[sandbox.LabelInstance]}
	}
	m.all[id] = &box{sandbox.Owned{ID: id, Name: c.Name, Image: c.Image, State: "created", Labels: labels, Created: time.Now()}, c.Key}
	m.own[id] = true
	return id, nil
}

// pull fails for an image that is not known, in one of the calls.
func (m *memory) pull(in, image string) error {
	switch {
	case image == "known" || in != m.pulls || m.fault == "any image":
		return nil
	case m.fault == "another error":
		return errors.New("it is not there")
	}
	return fmt.Errorf("%w: %s", sandbox.ErrNoImage, image)
}

// Pull has no image but the known one.
func (m *memory) Pull(ctx context.Context, image string, progress func(string)) error {
	if err := m.gone(); err != nil {
		return err
	}
	progress("looking")
	switch {
	case m.fault == "pulls anything" || image == "known":
		return nil
	case m.fault == "pulls for ever":
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s", sandbox.ErrNoImage, image)
}

// keyed returns the id of the container that has a key. The caller holds the lock.
func (m *memory) keyed(key string) string {
	for id, b := range m.all {
		if b.key == key {
			return id
		}
	}
	return ""
}

func (m *memory) find(id string) *box {
	for _, b := range m.all {
		if b.ID == id || b.Name == id {
			return b
		}
	}
	return nil
}

func (m *memory) Start(_ context.Context, id string) error {
	if err := m.gone(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.find(id)
	if b == nil || b.State == "running" && m.fault == "starts once" {
		return errors.New("it cannot be started")
	}
	b.State = "running"
	return m.pull("start", b.Image)
}

func (m *memory) Endpoint(_ context.Context, id string) (sandbox.Endpoint, error) {
	if m.fault == "no way" {
		return sandbox.Endpoint{}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return sandbox.Endpoint{Network: "unix", Address: "/run/s"}, m.pull("endpoint", m.find(id).Image)
}

func (m *memory) Remove(ctx context.Context, id string) error {
	if err := m.gone(); err != nil && m.fault != "removed without an engine" {
		return err
	}
	late := m.work(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if late != nil {
		m.given = m.fault == "half removed"
		return late
	}
	switch b := m.find(id); {
	case m.given: // it takes the one that was given up for done
		m.given = false
	case b != nil && m.fault != "never removes":
		delete(m.all, b.ID)
	case b == nil && m.fault == "removes once":
		return errors.New("there is none")
	}
	return nil
}

func (m *memory) List(context.Context, string) ([]sandbox.Owned, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []sandbox.Owned
	for _, b := range m.all { // of every instance: the SDK chooses
		if m.own[b.ID] || m.fault != "forgets" {
			out = append(out, b.Owned)
		}
	}
	return out, m.gone()
}

func conformance(fault, pulls string) Conformance {
	e := &engine{all: map[string]*box{}}
	return Conformance{
		Sandbox:   func() sandbox.Driver { return &memory{engine: e, fault: fault, pulls: pulls, own: map[string]bool{}} },
		Container: suite.Container{Image: "known", Entrypoint: []string{"/wait"}}, Gone: map[string]any{"host": "nowhere"},
	}
}

func TestADriverConforms(t *testing.T) { Conform(t, conformance("", "create")) }

// TestAnImageMayBeMissedLater: an engine may find out that there is no image when a container starts, or runs.
func TestAnImageMayBeMissedLater(t *testing.T) {
	for _, pulls := range []string{"start", "endpoint"} {
		for fault, want := range map[string]suite.Outcome{"": suite.Pass, "any image": suite.Fail, "another error": suite.Fail} {
			c := conformance(fault, pulls)
			c.Only = []string{"container-image"}
			if got := report(t, c).Results; len(got) != 1 || got[0].Outcome != want {
				t.Errorf("missed by %s with fault %q: %+v, want %s", pulls, fault, got, want)
			}
		}
	}
}

// TestFaultsAreFound: each check fails for a driver that gets it wrong.
func TestFaultsAreFound(t *testing.T) {
	for fault, check := range map[string]string{
		"no name": "capabilities", "another network": "capabilities", "a feature of its own": "capabilities", "snapshots of nothing": "capabilities",
		"any image": "container-image", "no keys": "container-key", "lost labels": "container-life",
		"starts once": "container-life", "no way": "container-life", "removes once": "container-life", "never removes": "container-life",
		"forgets": "container-orphans", "a silent engine": "engine-gone",
		"half made": "container-slow", "half removed": "container-slow", "pulls anything": "image-pulled", "pulls for ever": "image-pulled",
		"removed without an engine": "engine-gone-midway",
	} {
		t.Run(fault, func(t *testing.T) {
			report := report(t, conformance(fault, "create"))
			for _, r := range report.Results {
				if r.Check == check && r.Outcome == suite.Fail {
					return
				}
			}
			t.Errorf("%s passes", check)
		})
	}
}
