//go:build !linux

package machine

// watch waits for the leader's exit. Systems without waitid in x/sys reap it on the way.
func (r *running) watch() {
	defer close(r.exited)
	_ = r.cmd.Wait()
}

// member is a live process of a command.
type member struct{}

// members finds nothing: without /proc there is only the process group, which is signalled as a whole.
func (r *running) members() []member { return nil }

func (r *running) sweep([]member) bool { return false }
