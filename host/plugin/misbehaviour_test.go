//go:build unix

package plugin

import (
	"context"
	"strings"
	"testing"
	"time"

	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

// TestMisbehaviour runs one bad plugin of each sort beside a good one. The host says what is wrong in one clear sentence, and the
// good one keeps delivering.
func TestMisbehaviour(t *testing.T) {
	plain := packOptions{tls: "none"}
	for _, c := range []struct {
		mode  string
		pack  packOptions
		state State
		says  string // in LastError
	}{
		{mode: "crash-start", state: Backoff, says: "it ended before its handshake: exit status 3; it wrote: cannot open shared library"},
		{mode: "silent", pack: packOptions{start: "3s"}, state: Backoff, says: "timeout while waiting for plugin to start"},
		{mode: "stdout-noise", state: Backoff, says: `the plugin printed "Hello from my plugin!" on standard output before its handshake`},
		{mode: "stdout-binary", state: Backoff, says: "on standard output before its handshake"},
		{mode: "foreign-address", pack: plain, state: Backoff, says: "not in its socket folder"},
		{mode: "foreign-socket", pack: plain, state: Backoff, says: "not in its socket folder"},
		{mode: "surprise-certificate", pack: plain, state: Backoff, says: "handshake has a certificate"},
		{mode: "no-listener", state: Backoff, says: "handshake has no certificate"},
		{mode: "no-listener", pack: plain, state: Backoff, says: "describe:"},
		{mode: "other-protocol", pack: plain, state: Backoff, says: "Plugin version: 99"},
		{mode: "garbage-socket", pack: plain, state: Backoff, says: "describe:"},
		{mode: "hang-describe", state: Backoff, says: "describe: rpc error: code = DeadlineExceeded"},
		{mode: "wrong-name", state: Quarantined, says: `name is actor, but the process reports "somebody-else"`},
		{mode: "wrong-capabilities", state: Quarantined, says: "channel.exclusive is false in plugin.toml, but the process reports true"},
		{mode: "good", pack: packOptions{schema: "{}"}, state: Quarantined,
			says: `config.schema "settings.json" is not the schema that the process was built with`},
		{mode: "crash-start", pack: packOptions{schema: `{"required":["home"]}`}, state: Quarantined, says: "channels.bad: missing: home: correct the configuration"},
		{mode: "crash-start", pack: packOptions{schema: `{"$ref":"file:///etc/passwd"}`}, state: Quarantined, says: "it must stand alone"},
		{mode: "hang-configure", pack: packOptions{start: "15s"}, state: Backoff, says: "configure: rpc error: code = DeadlineExceeded"},
		{mode: "config-unavailable", state: Backoff, says: "cannot reach the server"},
		{mode: "crash-ready", state: Backoff, says: "panic: the actor fell off the stage"},
		{mode: "fail-run", state: Backoff, says: "run: no route to host"},
		{mode: "stop-self", state: Backoff, says: "missed 3 health checks in a row"},
		{mode: "not-serving", pack: plain, state: Backoff, says: "the plugin reports NOT_SERVING"},
		{mode: "invalid-utf8", pack: plain, state: Backoff, says: "invalid UTF-8"},
		{mode: "oversized-event", pack: plain, state: Backoff, says: "received message larger than max"},
		{mode: "skipped-seq", pack: plain, state: Backoff, says: "broke the protocol: event with seq 3 after 1"},
		{mode: "over-window", pack: plain, state: Backoff, says: "broke the protocol: more than 32 unacked events"},
	} {
		t.Run(c.mode+c.pack.tls+c.pack.schema, func(t *testing.T) {
			t.Parallel()
			packs := map[string]string{"actor": makePack(t, c.mode, c.pack), "good-actor": makeGood(t)}
			s := startPrepared(t, packs, Containment{}, func(h *Host) {
				switch c.mode {
				case "no-listener", "garbage-socket", "hang-describe":
					h.timeouts.describe = 3 * time.Second
				case "stop-self":
					h.timeouts.healthIn = 2 * time.Second
				case "crash-ready", "fail-run":
					h.timeouts.exitLag = patience // the process surely ends, and says why
				}
			})
			good := &listener{}
			s.add(Instance{Name: "good", Plugin: "good-actor"}, good)
			before := s.await("good", Ready).Restarts
			s.add(Instance{Name: "bad", Plugin: "actor"}, hold(c.mode == "over-window"))
			s.await("bad", c.state)
			if st := s.status("bad"); !strings.Contains(st.LastError, c.says) {
				t.Errorf("the host says %q, want %q in it", st.LastError, c.says)
			}
			good.more(t, 5)
			if st := s.status("good"); st.Restarts > before {
				t.Errorf("the good plugin was restarted: %+v", st)
			}
		})
	}
}

// makeGood is a second plugin, by another name.
func makeGood(t testing.TB) string {
	dir := makePack(t, "good-actor", packOptions{})
	rename(t, dir, "actor", "good-actor")
	return dir
}

// hold takes events and, when asked to, never says that it is done with them.
func hold(forever bool) Handler {
	return handlerFunc(func(ctx context.Context, c client) error {
		return c.Receive(ctx, 32, func(_ channelkind.Event, done func(error)) {
			if !forever {
				done(nil)
			}
		})
	})
}
