// Package tui is the terminal program behind `flynn chat` on a terminal.
//
// Start with Run; model.go holds the state, update.go what each key and each frame changes, and view.go what is on the screen. Finished
// turns go to the terminal's own scrollback (scrollback.go); only the live part below it is repainted: the answer that streams, running
// calls, the request that waits for approval and the input. The alternate screen is not used. Everything that others wrote is cleaned before
// it is printed. Pipes and terminals without abilities get the line client of the package above.
package tui

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway/client"
)

// Config says what to talk to, and where to show it.
type Config struct {
	URL          string // http://127.0.0.1:7351
	Token        string
	Conversation string // letters, digits, '.', '_', '-'
	In           io.Reader
	Out          *os.File
	Environ      []string // of the terminal: TERM and the like
	Colour       bool
}

// Run returns when the person leaves, when ctx ends, or when the gateway cannot be reached or refuses. The terminal is as before then.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := &network{ctx: ctx, url: cfg.URL, token: cfg.Token, host: client.Remote{URL: cfg.URL, Token: cfg.Token}}
	out := newScreen(cfg.Out)
	m := newModel(cfg, n)
	m.frame.screen = out
	if err := m.connect(cfg.Conversation); err != nil {
		return err
	}
	p := tea.NewProgram(m, tea.WithInput(cfg.In), tea.WithOutput(out), tea.WithEnvironment(cfg.Environ),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	defer context.AfterFunc(ctx, p.Quit)() // not WithContext, which leaves the reader of the terminal behind
	_, err := p.Run()
	cancel()
	n.running.Wait()
	if rest := m.unprinted(); len(rest) > 0 {
		fmt.Fprintln(cfg.Out, strings.Join(rest, "\n"))
	}
	if m.failed != nil {
		return m.failed
	}
	return err
}

const framesPerSecond = 30
