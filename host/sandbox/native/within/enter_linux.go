package within

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/rawfork"
)

// Enter executes this program as Serve in a user namespace, in which it may make the namespaces of sandboxes, and returns when that has ended. The
// first message on the socket is a Config with the ids.
func Enter() error {
	message := make([]byte, MaxMessage)
	n, err := unix.Read(SocketFD, message)
	if err != nil {
		return fmt.Errorf("receive the ids: %w", err)
	}
	if n == 0 {
		return nil
	}
	var c Config
	if err := json.Unmarshal(message[:n], &c); err != nil {
		return fmt.Errorf("receive the ids: %w", err)
	}
	pid, err := c.enter()
	if err != nil && pid > 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if pid > 0 {
		reap(pid, -1)
	}
	if err != nil {
		return (&server{failed: err}).receive()
	}
	return nil
}

// enter starts the process of Serve.
func (c Config) enter() (pid int, err error) {
	control, report, err := pipes()
	if err != nil {
		return 0, err
	}
	defer closeFiles(control[:]...)
	defer closeFiles(report[:]...)
	p := newPlan("", nil)
	release, err := p.inherit(descriptor{controlFD, int(control[0].Fd())}, descriptor{reportFD, int(report[1].Fd())})
	if err != nil {
		return 0, err
	}
	p.wait(0)
	p.step("keep privileges in the namespace")
	all := uint64(1)<<capabilities() - 1
	low, high := uint32(all), uint32(all>>32)
	data := &[2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low}, {Effective: high, Permitted: high, Inheritable: high}}
	p.do(unix.SYS_CAPSET, hold(p, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), hold(p, data))
	for n := range uintptr(capabilities()) {
		p.do(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, n)
	}
	p.step("execute the program that starts sandboxes")
	p.execute("/proc/self/exe", []string{"flynn-sandboxd", ServeWord}, os.Environ())
	pid, err = p.fork(unix.CLONE_NEWUSER, rawfork.Anywhere)
	release()
	if err != nil {
		return 0, err
	}
	if err = c.IDs.apply(pid, c.Single); err == nil {
		_, err = control[1].Write([]byte{1})
	}
	err = errors.Join(err, report[1].Close())
	if err == nil {
		err = Outcome(report[0])
	}
	return pid, err
}
