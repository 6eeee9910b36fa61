package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/flynnhost/flynn/host/store"
)

// checkHost reports what the running host says about itself, or what is in the way of one.
func checkHost(_ context.Context, x *exam) {
	if x.Running == nil {
		x.address()
		x.unexamined("the log, because no flynn is running")
		return
	}
	s := x.Running.Status
	if s.Halt != nil {
		x.add(Finding{Code: Halted, What: "everything is halted, by " + s.Halt.By, Command: "flynn resume"})
	}
	switch store.Idle(s.Idle) {
	case store.IdleDrained:
		x.add(Finding{Code: HostIdle, What: "this host is drained and gets no work", Command: "flynn cluster drain --undo NAME"})
	case store.IdleDiffers:
		x.add(Finding{
			Code: HostIdle, What: "the configuration, policies or plugins of this host differ from what the hosts agree on",
			Mend: "flynn status says what it lacks; give it that, or make what it has that of all", Command: "flynn cluster accept",
		})
	}
	for _, h := range x.Running.Cluster.Hosts {
		if h.Reached == "no" {
			x.add(Finding{
				Code: HostUnreached, What: fmt.Sprintf("host %s does not answer this one at %s: %s", h.Name, h.Peer, h.Unreached),
				Mend: "see that listen and advertise of [cluster] in its flynn.toml lead there, and that no firewall is between", Command: "flynn cluster status",
			})
		}
	}
	if s.Version != x.Version && s.Version != "" {
		x.add(Finding{Code: VersionDiffers, What: "the running flynn is " + s.Version + ", and this program " + x.Version, Mend: "restart the running one"})
	}
	for _, r := range x.Running.Repeats {
		what, command := fmt.Sprintf("%d times within an hour: %s", r.Count, r.Message), "flynn logs --level warn --area "+r.Area
		if r.Instance != "" {
			what, command = r.Instance+", "+what, "flynn logs --level warn --channel "+r.Instance
		}
		if r.Detail != "" {
			what += ": " + r.Detail
		}
		x.add(Finding{Code: LogRepeats, What: what, Mend: "read what it says, and mend that", Command: command})
	}
}

// address looks for another program at the address of the gateway.
func (x *exam) address() {
	g := x.Config.Gateway
	ln, err := net.Listen("tcp", g.Listen)
	if err == nil {
		_ = ln.Close()
		return
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return
	}
	what := "another program listens at " + g.Listen
	if x.Unanswered != nil {
		what += ", and does not answer as the flynn of this configuration: " + x.Unanswered.Error()
	}
	x.at(Finding{Code: AddressTaken, What: what, Mend: "stop it, or write another port", Command: "ss -ltnp sport = :" + port(g.Listen)}, "gateway", "listen")
}
