//go:build unix

package plugin

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

// BenchmarkReceive measures acked messages through one plugin process.
func BenchmarkReceive(b *testing.B) {
	for _, window := range []int{1, 32, 256} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			s := start(b, map[string]string{"actor": makePack(b, "batch", packOptions{})})
			var count atomic.Int64
			enough := make(chan struct{})
			begin := make(chan struct{})
			s.add(Instance{Name: "one", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
				<-begin
				return c.Receive(ctx, window, func(_ channelkind.Event, done func(error)) {
					done(nil)
					if count.Add(1) == int64(b.N) {
						close(enough)
					}
				})
			}))
			s.await("one", Ready)
			b.ResetTimer()
			close(begin)
			<-enough
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkSend measures the round trip of one reply through a plugin process.
func BenchmarkSend(b *testing.B) {
	for _, tls := range []string{"auto", "none"} {
		b.Run("tls="+tls, func(b *testing.B) {
			s := start(b, map[string]string{"actor": makePack(b, "good", packOptions{tls: tls})})
			begin, over := make(chan struct{}), make(chan error, 1)
			s.add(Instance{Name: "one", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
				<-begin
				var err error
				for i := 0; i < b.N && err == nil; i++ {
					_, err = c.Send(ctx, message.Reply{Key: fmt.Sprint(i), Text: "hello"})
				}
				over <- err
				<-ctx.Done()
				return nil
			}))
			s.await("one", Ready)
			b.ResetTimer()
			close(begin)
			if err := <-over; err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
		})
	}
}

// BenchmarkStart measures a start up to ready, and the orderly end.
func BenchmarkStart(b *testing.B) {
	s := start(b, map[string]string{"actor": makePack(b, "good", packOptions{})})
	for b.Loop() {
		s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
		s.await("one", Ready)
		if err := s.Remove("one"); err != nil {
			b.Fatal(err)
		}
	}
}
