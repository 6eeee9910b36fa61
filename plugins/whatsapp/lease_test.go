package main

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest/linkedtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// TestTheDeviceGoesOfflineWithTheLease: WhatsApp lets one connection of a device live. Messages wait at WhatsApp for the next lease.
func TestTheDeviceGoesOfflineWithTheLease(t *testing.T) {
	w := &world{Server: linkedtest.Start(t), dir: t.TempDir()}
	w.ann = w.Person(ann, "901", "Ann")
	w.plugin = &onServer{server: w.Server}
	leases := plugintest.NewLeases(1, 3*time.Second)
	w.Host = plugintest.Start(t, w.plugin, plugintest.Config{
		Settings: map[string]any{"mode": "linked"}, StateDir: w.dir, Timeout: time.Minute, Leases: leases,
	})
	w.WaitStatus(channel.StateReady)
	w.Await("the login", w.Online)
	time.Sleep(time.Until(leases.Suspend()))
	w.WaitStatus(channel.StateConnecting)
	w.Await("the end of the connection", func() bool { return !w.Online() })
	logins := w.Logins()
	leases.Grant(2, time.Minute)
	w.WaitStatus(channel.StateReady)
	w.Await("the next login", w.Online)
	if n := w.Logins(); n != logins+1 {
		t.Errorf("%d logins, then %d", logins, n)
	}
}
