package stopwatch

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeOfAPersonDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fired atomic.Int32
		w := Start(time.Minute, func() { fired.Add(1) })
		time.Sleep(50 * time.Second)
		one, two := w.Pause(), w.Pause()
		time.Sleep(time.Hour)
		one()
		one() // twice is once
		time.Sleep(time.Hour)
		two()
		time.Sleep(9 * time.Second)
		if synctest.Wait(); fired.Load() != 0 {
			t.Fatal("the watch ran while it was stopped")
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); fired.Load() != 1 || !w.Stop() {
			t.Fatal("the watch did not go on")
		}
		w.Pause()()
		time.Sleep(time.Hour)
		if synctest.Wait(); fired.Load() != 1 {
			t.Errorf("done was called %d times", fired.Load())
		}
	})
}

func TestStoppedWatchStaysStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Start(time.Minute, func() { t.Error("done was called") })
		resume := w.Pause()
		if w.Stop() {
			t.Error("it has called done")
		}
		resume()
		time.Sleep(time.Hour)
		synctest.Wait()
	})
}
