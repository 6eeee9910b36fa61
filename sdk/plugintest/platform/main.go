package platform

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// Fake is a platform with one person, who talks to the plugin in private.
type Fake struct {
	Ready fake.Ready
	Post  func(fake.Post) error
	// Disconnect breaks every connection. It is nil if connections are short.
	Disconnect func()
	// Webhook is called with the address at which the plugin accepts the platform's requests. It is nil for a platform that makes none.
	Webhook func(url string) error
}

// Main runs a fake as a program; see package fake.
func Main(start func(t TB, report func(fake.Report)) Fake) {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		ready, p := Start(start, report, func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
			os.Exit(1)
		})
		return ready, p, nil
	})
}

// Start starts a fake that is not tied to a test, and ends when it is closed.
func Start(start func(t TB, report func(fake.Report)) Fake, report func(fake.Report), fatalf func(format string, args ...any)) (fake.Ready, fake.Platform) {
	p := &running{fatalf: fatalf}
	p.fake = start(p, report)
	return p.fake.Ready, p
}

// running is a running fake, and implements its TB.
type running struct {
	fatalf  func(format string, args ...any)
	cleanup []func()

	mu   sync.Mutex // the fake's functions are called one at a time
	fake Fake
}

var (
	_ TB          = (*running)(nil)
	_ fake.Caller = (*running)(nil)
)

// Helper implements TB.
func (p *running) Helper() {}

// Cleanup implements TB.
func (p *running) Cleanup(f func()) { p.cleanup = append(p.cleanup, f) }

// Fatalf implements TB.
func (p *running) Fatalf(format string, args ...any) { p.fatalf(format, args...) }

// Post implements fake.Platform.
func (p *running) Post(m fake.Post) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fake.Post(m)
}

// Disconnect implements fake.Platform.
func (p *running) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fake.Disconnect != nil {
		p.fake.Disconnect()
	}
}

// Webhook implements fake.Caller.
func (p *running) Webhook(w fake.Webhook) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fake.Webhook == nil {
		return nil
	}
	return p.fake.Webhook(w.URL)
}

// Close implements fake.Platform.
func (p *running) Close() {
	for _, f := range slices.Backward(p.cleanup) {
		f()
	}
}
