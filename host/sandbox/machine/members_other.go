//go:build !linux

package machine

// watch waits for the leader's exit. On systems for which x/sys has no waitid it also reaps the leader.
func (r *running) watch() {
	defer close(r.exited)
	_ = r.cmd.Wait()
}

// member is a live process of a command.
type member struct{}

// members returns nothing: without /proc there is only the process group, which is signalled as a whole.
func (r *running) members() []member { return nil }

func (r *running) sweep([]member) bool { return false }
