//go:build linux

package supervise

import (
	"runtime"
	"sync"
)

// spareThreads is more than this package ever blocks in system calls at once: one reader, one
// writer, the reaper, the file threads, the starter, one scan, the brief commands, the transfers, and the runtime's own.
const spareThreads = 20

// warmThreads makes the runtime create n threads now. It keeps them for ever and so never needs a
// new one later, when the pids limit may refuse it; a Go program dies of such a refusal.
func warmThreads(n int) {
	var arrived, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		arrived.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			arrived.Done()
			<-release
		}()
	}
	arrived.Wait()
	close(release)
	done.Wait()
}
