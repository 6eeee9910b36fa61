package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// network is a server in memory that notes what is said and when.
type network struct {
	mu   sync.Mutex
	said []spoken
}

type spoken struct {
	to, text string
	at       time.Time
}

func (n *network) to(target string) (texts []string, last time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.said {
		if s.to == target {
			texts, last = append(texts, s.text), s.at
		}
	}
	return texts, last
}

// connected is a plugin with a connection to the network.
func (n *network) connected(t *testing.T, set settings) *plugin {
	ours, theirs := net.Pipe()
	p := &plugin{settings: set, log: slog.New(slog.DiscardHandler)}
	p.link = linked(ours, channel.NewPace(set.FloodBurst, set.interval()))
	var done sync.WaitGroup
	done.Go(func() {
		in := bufio.NewScanner(theirs)
		for in.Scan() {
			if token, ok := strings.CutPrefix(in.Text(), "PING "); ok {
				fmt.Fprintf(theirs, ":irc.test PONG irc.test %s\r\n", token)
				continue
			}
			m, _ := parseLine(in.Text())
			n.mu.Lock()
			n.said = append(n.said, spoken{m.param(0), m.last(), time.Now()})
			n.mu.Unlock()
		}
	})
	done.Go(func() {
		p.link.read(t.Context(), bufio.NewReader(ours), func(m line) error { return p.handle(t.Context(), p.link, m, nil) })
	})
	t.Cleanup(func() { ours.Close(); done.Wait() })
	return p
}

// TestALongAnswerIsSaidOnce has answers that take up to an hour and more at the rate that networks allow, with and without restarts
// of the plugin.
func TestALongAnswerIsSaidOnce(t *testing.T) {
	set := settings{FloodBurst: 5, FloodIntervalMS: 2000, MaxLines: 10_000}
	for _, n := range delivery.Answers() {
		for _, restart := range []int{0, 17} {
			t.Run(fmt.Sprintf("%d lines, restart %d", n, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					net := &network{}
					lines := delivery.Lines(n)
					start := func() *plugintest.Host { return delivery.Still(t, net.connected(t, set)) }
					got := delivery.Deliver(t, start, channel.Capabilities{Markdown: true}, channel.Send{
						Key: "k", Conversation: channel.Conversation{ID: "#a"}, Text: strings.Join(lines, "\n\n"),
					}, delivery.Delivery{Restart: restart})
					if said, _ := net.to("#a"); !slices.Equal(said, lines) || got.Marked > 0 {
						t.Errorf("%d lines were said in %d calls, %d of them marked; want %d", len(said), got.Calls, got.Marked, n)
					}
					if least := time.Duration(n-5) * 2 * time.Second; restart == 0 && got.Took < least {
						t.Errorf("it took %s, less than the %s that the network allows", got.Took, least)
					}
				})
			})
		}
	}
}

// TestTheDefaultCutsAndSaysSo has an answer of more lines than max_lines, which is said in several calls.
func TestTheDefaultCutsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &network{}
		set := settings{FloodBurst: 5, FloodIntervalMS: 2000, MaxLines: 40}
		start := func() *plugintest.Host { return delivery.Still(t, net.connected(t, set)) }
		lines := delivery.Lines(200)
		delivery.Deliver(t, start, channel.Capabilities{Markdown: true}, channel.Send{
			Key: "k", Conversation: channel.Conversation{ID: "#a"}, Text: strings.Join(lines, "\n\n"),
		}, delivery.Delivery{})
		said, _ := net.to("#a")
		if len(said) != 40 || !slices.Equal(said[:39], lines[:39]) || !strings.HasSuffix(said[39], tooLong) {
			t.Errorf("%d lines were said, the last %q", len(said), said[len(said)-1])
		}
	})
}

// TestALongAnswerLeavesRoomForOthers sends a short answer into another conversation while a long one is said.
func TestALongAnswerLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &network{}
		p := net.connected(t, settings{FloodBurst: 5, FloodIntervalMS: 2000, MaxLines: 1000})
		start := func() *plugintest.Host { return delivery.Still(t, p) }
		var all sync.WaitGroup
		send := func(to string, n int) {
			delivery.Deliver(t, start, channel.Capabilities{Markdown: true}, channel.Send{
				Key: to, Conversation: channel.Conversation{ID: to}, Text: strings.Join(delivery.Lines(n), "\n\n"),
			}, delivery.Delivery{})
		}
		for i := range 3 {
			all.Go(func() { send(fmt.Sprint("#long", i), 200) })
		}
		time.Sleep(time.Minute)
		began := time.Now()
		all.Go(func() { send("bob", 2) })
		all.Wait()
		said, last := net.to("bob")
		if took := last.Sub(began); len(said) != 2 || took > 18*time.Second { // two rounds of four conversations, and a turn under way
			t.Errorf("bob got %d lines after %s", len(said), took)
		}
		for i := range 3 {
			if said, _ := net.to(fmt.Sprint("#long", i)); !slices.Equal(said, delivery.Lines(200)) {
				t.Errorf("%d lines of a long answer were said", len(said))
			}
		}
	})
}
