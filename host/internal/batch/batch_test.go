package batch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// begin runs a writer of numbers; end stops it and waits for its end.
func begin(t *testing.T, c Config[int]) (s *Writer[int], end func()) {
	t.Helper()
	s = New(c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Records are written in their order, together, and none is left when the writer ends.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		s, end := begin(t, Config[int]{
			Queue: 100, Batch: 8, Pause: time.Second, Log: slog.New(slog.DiscardHandler),
			Write: func(_ context.Context, batch []int) error { batches = append(batches, batch); return nil },
			Lost:  func(lost []int) { t.Errorf("%v are lost", lost) },
		})
		for i := range 10 {
			s.Put(i)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(batches) != 2 || !slices.Equal(slices.Concat(batches...), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Fatalf("written: %v", batches)
		}
		s.Put(10)
		time.Sleep(time.Second / 2)
		s.Put(11) // joins it
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(batches) != 3 || len(batches[2]) != 2 {
			t.Fatalf("written: %v", batches)
		}
		s.Put(12)
		end()
		if len(batches) != 4 {
			t.Errorf("written at the end: %v", batches)
		}
	})
}

// A store that hangs or fails delays no caller; what is lost is counted and logged.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var said bytes.Buffer
		lost := 0
		s, end := begin(t, Config[int]{
			Name: "numbers", Queue: 100, Batch: 8, Pause: time.Second, Log: slog.New(slog.NewTextHandler(&said, nil)),
			Write: func(context.Context, []int) error { <-hang; return errors.New("disk is full") },
			Lost:  func(these []int) { lost += len(these) },
		})
		s.Put(0)
		time.Sleep(2 * time.Second)
		synctest.Wait() // it is being written
		for i := range 105 {
			s.Put(i)
		}
		if lost != 5 {
			t.Errorf("%d are lost, want 5", lost)
		}
		close(hang)
		end()
		for _, want := range []string{"of=numbers", "dropped=5", "disk is full"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("no %q in %s", want, said.String())
			}
		}
		if lost != 106 {
			t.Errorf("%d are lost in the end, want all 106", lost)
		}
	})
}
