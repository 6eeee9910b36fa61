package service

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// slowStream is a stream whose frames take their time; the last one never comes.
type slowStream struct {
	grpc.ServerStream
	ctx   context.Context // of the whole call, which ends when its method returns
	takes []time.Duration
}

func (s *slowStream) RecvMsg(any) error {
	if len(s.takes) == 0 {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	time.Sleep(s.takes[0]) // in the test's own time
	s.takes = s.takes[1:]
	return nil
}

func TestPatienceWithStreams(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes []time.Duration
		want  time.Duration // from the begin to the end
	}{
		{"nothing comes", nil, 30 * time.Second},
		{"it stops in the middle", []time.Duration{20 * time.Second, 20 * time.Second}, 70 * time.Second},
		{"it never ends", repeat(25*time.Second, 100), 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{log: slog.New(slog.DiscardHandler)}
				call, end := context.WithCancel(context.Background())
				ctx, cancel := context.WithCancel(call)
				w := &watched{ServerStream: &slowStream{ctx: call, takes: c.takes}, ctx: ctx, cancel: cancel}
				begin := time.Now()
				w.watch(30*time.Second, 10*time.Minute)
				err := s.attended(w, "x", func() error {
					for {
						if err := w.RecvMsg(nil); err != nil {
							return err
						}
					}
				})
				if took := time.Since(begin); code(err) != codes.Aborted || took != c.want {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
				w.unwatch()
				end()
				s.work.Wait()
			})
		})
	}
}

func repeat(d time.Duration, n int) (all []time.Duration) {
	for range n {
		all = append(all, d)
	}
	return all
}

func TestAPanicIsAnErrorOfTheCall(t *testing.T) {
	s := &Server{log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.attended(&watched{ctx: ctx}, "x", func() error { panic("no") }); code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
	s.work.Wait()
	if err := s.attended(&watched{ctx: ctx}, "x", func() error { return errors.New("plain") }); err == nil {
		t.Error("an error is lost")
	}
	s.work.Wait()
}
