package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// closing is how long after a SIGHUP a closing terminal may still be there: some shells send the signal to their jobs before they exit.
const closing = 2 * time.Second

// hangups returns a context that ends when the terminal of the process is closed, and the SIGHUPs that ask for a reload.
//
// A closed terminal and an operator who wants a reload send the same signal. A process that never had a controlling terminal (a
// service, a container) and one that was started to outlive its terminal (nohup) reload on each. For others the terminal decides: if it is
// gone, or goes within closing, the process ends; if it stays, somebody sent the signal, and it reloads.
func hangups(ctx context.Context) (context.Context, <-chan os.Signal, func()) {
	attached := !signal.Ignored(syscall.SIGHUP) && controllingTerminal()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ctx, reloads, done := sortHangups(ctx, signals, attached, controllingTerminal)
	return ctx, reloads, func() {
		signal.Stop(signals)
		done()
	}
}

// sortHangups is like hangups for signals that tests can send. terminal reports whether the process has a controlling terminal.
func sortHangups(ctx context.Context, signals <-chan os.Signal, attached bool, terminal func() bool) (context.Context, <-chan os.Signal, func()) {
	if !attached {
		return ctx, signals, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	reloads, ended := make(chan os.Signal, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-signals:
				if !terminal() {
					cancel()
					return
				}
				select {
				case reloads <- s:
				default: // one is due already
				}
				if !lasts(ctx, terminal, closing) {
					cancel()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, reloads, func() {
		cancel()
		<-ended
	}
}

// lasts reports whether the terminal is still there after span.
func lasts(ctx context.Context, terminal func() bool, span time.Duration) bool {
	over := time.NewTimer(span)
	defer over.Stop()
	look := time.NewTicker(span / 20)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if !terminal() {
				return false
			}
		case <-over.C:
			return terminal()
		case <-ctx.Done():
			return true
		}
	}
}

// controllingTerminal reports whether the process has a controlling terminal. Closing a terminal takes it away from its whole session.
func controllingTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
